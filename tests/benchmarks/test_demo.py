"""The demo as a user runs it, and the figures it must reach on the Higdon function."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from typer.testing import CliRunner

from pcegp import PCEGPRegressor, __version__
from pcegp.benchmarks import toy
from pcegp.cli import app
from pcegp.io import replacing
from pcegp.kernels import COVARIANCES


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(
        app, ["demo", "--out", str(folder), "--json", str(folder / "figures.json")]
    )
    assert result.exit_code == 0, result.output
    return folder, result.output, json.loads((folder / "figures.json").read_text())


def test_the_demo_prints_both_tables_and_the_shares(demo):
    _, text, _ = demo
    for name in (*toy.models(), "paper's PCEGP", "paper's GP"):
        assert text.count(name) >= 2, name
    for figure in ("0.079", "0.231", "0.192", "0.277", "0.922", "0.078"):
        assert figure in text
    assert "restarts" in text


def test_the_demo_draws_its_figure(demo):
    folder, _, _ = demo
    assert (folder / "higdon.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in folder.iterdir()) == ["figures.json", "higdon.png"]


def test_one_input_reaches_its_bars(demo):
    models = {row["model"]: row for row in demo[2]["higdon_1d"]["models"]}
    ours = models["PCEGP, default"]
    assert ours["RMSE"] <= 0.055
    assert ours["NLL"] <= -1.2
    assert models["GP, with restarts"]["RMSE"] < 0.5 * models["GP, trained the paper's way"]["RMSE"]


def test_two_inputs_reach_their_bar_over_seeds(demo):
    by_seed = demo[2]["higdon_2d"]["default_rmse_by_seed"]
    assert len(by_seed) == 5
    assert np.median(by_seed) <= 0.03


def test_the_first_input_causes_the_non_stationarity(demo):
    """The default model may have a constant scale, by the evidence; then the demo says so."""
    models = {row["model"]: row for row in demo[2]["higdon_2d"]["models"]}
    assert models["PCEGP, paper's setup"]["shares"][0] > 0.85
    assert models["PCEGP, paper's, restarts"]["shares"][0] > 0.85
    default = models["PCEGP, default"]["shares"]
    said = "PCEGP, default                the evidence chose a constant scale" in demo[1]
    assert said == (sum(default) == 0.0)
    assert said or default[0] > 0.85


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = CliRunner().invoke(
        app, ["demo", "--json", str(blocked / "x.json"), "--out", str(tmp_path)]
    )
    assert result.exit_code == 1
    assert "pcegp demo:" in result.output
    assert str(blocked) in result.output


def test_help_and_version_are_quick_and_light():
    code = (
        "import sys; from typer.testing import CliRunner; from pcegp.cli import app;"
        "r = CliRunner().invoke(app, ['demo', '--help']); assert 'Example' in r.output;"
        "assert not {'numba', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert __version__ in CliRunner().invoke(app, ["--version"]).output


def test_the_demo_needs_no_package_beyond_the_plot_extra(tmp_path):
    """Without matplotlib, too, it prints its tables, and says what the picture needs."""
    code = f"""
import sys
from pathlib import Path
class Absent:
    def find_spec(self, name, *_):
        if name in ("torch", "gpytorch", "gpboost", "catboost", "distributed", "jinja2", "pandas",
                    "matplotlib"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from pcegp.benchmarks import extras, toy
extras.write_picture(Path({str(tmp_path / "higdon.png")!r}), toy.draw, print)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == ("No picture: the picture needs matplotlib: "
                                  "pip install 'pcegp[plot]'")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def interrupted_write():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted_write()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_an_interrupt_right_after_the_temporary_file_was_made_leaves_none(tmp_path, monkeypatch):
    original = Path.touch

    def interrupted(self, **options):
        original(self, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "touch", interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "out.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "document", ["README.md", "docs/covariances.md", "docs/explain.md", "docs/tuning.md",
                 "docs/reproduce.md"]
)
def test_the_python_in_the_documents_runs(document, tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / document).read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in text.split("```python")[1:]]
    scope = {"__name__": "document"}
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)  # for the files they write
    known = dict(COVARIANCES)
    try:
        for block in blocks:
            exec(compile(block, "<prompt>", "exec"), scope)  # noqa: S102
    finally:
        COVARIANCES.clear()
        COVARIANCES.update(known)
    assert isinstance(scope["model"], PCEGPRegressor)
