"""Names of the files in the folders that experiments fill."""

HIGDON_PICTURE, HIGDON_FIGURES = "higdon.png", "higdon.json"
SPEED_PICTURE, SPEED_FIGURES = "speed.png", "speed.json"
SCALE_PICTURE, SCALE_RESULTS = "scale.png", "scale.jsonl"
RESULTS, PAGE, TABLES = "results.jsonl", "index.html", "results.md"

#: All that `pcegp reproduce` writes.
REPRODUCED = (RESULTS, PAGE, TABLES, HIGDON_FIGURES, HIGDON_PICTURE, SPEED_FIGURES, SPEED_PICTURE)
