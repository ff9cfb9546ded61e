"""The fuzz command, in short."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from pcegp.benchmarks import file_faults
from pcegp.cli.app import app


def test_bad_files_are_refused_and_killed_saves_leave_whole_files(tmp_path):
    path = tmp_path / "files.json"
    arguments = ["bench", "files", "--damaged", "400", "--cut", "100", "--kills", "5", "--json",
                 str(path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "All as it must be." in done.output
    figures = json.loads(path.read_text())
    assert file_faults.faults_of(figures) == []
    assert sum(figures["files"]["damaged"].values()) == 320
    assert figures["kills"] == {"whole": 5}
    for spoiled, fault in (({"kills": {"broken": 1}}, "1 files of killed saves are broken"),
                           ({"forbidden_events": {"exec": 1}}, "a file ran exec"),
                           ({"leftovers": ["harm"]}, "harm was left"),
                           ({"memory_growth_bytes": 10**9}, "memory grew by 1000 MB"),
                           ({"files": {"damaged": {"loaded": 2}}}, "damaged: 2 loaded")):
        assert file_faults.faults_of({**figures, **spoiled}) == [fault]


def test_a_fault_ends_the_command_with_1(tmp_path, monkeypatch):
    monkeypatch.setattr(file_faults, "_MOST_MEMORY", -10**12)
    path = tmp_path / "files.json"
    done = CliRunner().invoke(app, ["bench", "files", "--damaged", "1", "--cut", "1", "--kills",
                                    "0", "--json", str(path)])
    assert done.exit_code == 1
    assert "  memory grew by" in done.stdout
    assert "1 fault was seen: look at the first above" in done.stderr
    assert "files" in json.loads(path.read_text())
