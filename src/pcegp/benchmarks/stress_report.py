"""What `pcegp bench stress` prints and writes."""

from collections.abc import Callable
from pathlib import Path

from pcegp._progress import bar
from pcegp.benchmarks import stress, stress_peers
from pcegp.benchmarks.verdict import conclude


def main(
    fits: int, seed: int, peers: int, json_path: Path | None, show_bar: bool,
    echo: Callable[[str], None],
) -> None:
    """Run, print what it came to, and write it; a fault is an error at the end."""
    with bar(show_bar, fits, "fits") as progress:
        figures = stress.run(fits, seed, progress)
    echo(f"{fits} fits of random tables with random settings in {figures['seconds']:.0f} s, the "
         f"slowest in {figures['slowest_seconds']:.1f} s")
    for result, count in sorted(figures["outcomes"].items(), key=lambda item: -item[1]):
        echo(f"  {count:6d}  {result}")
    if peers:
        with bar(show_bar, peers, "peers") as progress:
            figures["peers"] = {"fits": peers, **stress_peers.run(peers, seed, progress)}
        echo(f"Other libraries on the first {peers} of the tables, as they are:")
        for name, counts in figures["peers"].items():
            if name != "fits":
                shares = ", ".join(f"{result} {count / peers:.1%}" for result, count in
                                   sorted(counts.items(), key=lambda item: -item[1]))
                echo(f"  {name}: {shares}")
    told = [f"number {fault['number']}: {fault['fault']} ({', '.join(fault['table'])})"
            for fault in figures["faults"]]
    conclude(told, "No fault.", figures, json_path, echo)
