"""The fuzz command, in short."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from pcegp.benchmarks.file_faults import is_good
from pcegp.cli.app import app


def test_bad_files_are_refused_and_killed_saves_leave_whole_files(tmp_path):
    path = tmp_path / "files.json"
    arguments = ["bench", "files", "--damaged", "400", "--cut", "100", "--kills", "5", "--json",
                 str(path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "All as it must be." in done.output
    figures = json.loads(path.read_text())
    assert is_good(figures)
    assert sum(figures["files"]["damaged"].values()) == 320
    assert figures["kills"] == {"whole": 5}
    for spoiled in ({"kills": {"broken": 1}}, {"forbidden_events": {"exec": 1}},
                    {"leftovers": ["harm"]}, {"memory_growth_bytes": 10**9}):
        assert not is_good({**figures, **spoiled})
