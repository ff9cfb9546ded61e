"""Diagnostics, pictures and the HTML report, which a real browser opens."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats
from sklearn.exceptions import NotFittedError

from pcegp import PCEGPRegressor, diagnose, explain, report
from pcegp.errors import DataError, FileError, SettingError
from pcegp.estimators import fitted_output
from pcegp.inspection import plots, report_figures, slices
from small_models import BUILT_IN
from small_search import quick

mpl.use("Agg")
RNG = np.random.default_rng(0)
ANGRY = "<script>alert(1)</script>"
FRAME = pd.DataFrame({
    "frequency [Hz]": RNG.uniform(100, 2000, 80),
    ANGRY: RNG.uniform(-1, 1, 80),
    "same": 1.0,
})
Y = np.sin(FRAME["frequency [Hz]"] / 200) + 0.1 * RNG.normal(size=80)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def model():
    with pytest.warns(match="constant column"):
        return PCEGPRegressor(max_iter=60, degree=2, input_map="linear", noise="expansion",
                              penalty=1.0).fit(FRAME, Y)


@pytest.fixture(scope="module")
def one_input():
    x = np.linspace(0, 1, 25)[:, None]
    return PCEGPRegressor(max_iter=30).fit(x, np.sin(9 * x[:, 0]))


@pytest.fixture
def ax():
    return Figure().subplots()


def test_diagnostics_are_the_leave_one_out_predictions(model):
    found, (mean, std) = diagnose(model), model.loo_predict()
    np.testing.assert_allclose(found.y, Y, atol=2.0**-32 * np.abs(Y).max())  # as the model sees it
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.std, std)
    np.testing.assert_allclose(found.pit, stats.norm.cdf(found.y, mean, std))
    assert found.scores()["RMSE"] == pytest.approx(np.sqrt(np.mean((Y - mean) ** 2)))
    assert found.worst(1)[0] == np.argmax(np.abs((Y - mean) / std))
    coverage = list(found.coverage().values())
    assert coverage == sorted(coverage)


def test_a_slice_is_the_prediction_at_the_medians(model):
    along = slices.slice_along(*fitted_output(model, 0, "test"), "frequency [Hz]", 7)
    rows = pd.DataFrame({"frequency [Hz]": along.x, ANGRY: FRAME[ANGRY].median(), "same": 1.0})
    mean, std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(along.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(along.std, std, rtol=1e-6)
    np.testing.assert_allclose(along.noise**2, model.noise_variance(rows), rtol=1e-8)


@pytest.fixture(scope="module")
def average():
    """An average of structures whose noises differ, and its inputs."""
    rng = np.random.default_rng(1)
    X = np.exp(0.5 * rng.normal(size=(40, 2)))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
    model = PCEGPRegressor(degree=1, noise="constant").fit(X, y)
    posterior = model.model_.outputs[0].posterior
    assert len({float(member.noise[0]) for member in posterior.members}) > 1
    return model, X


def test_pictures_of_a_model_that_averages_structures_are_of_its_predictions(average):
    model, X = average
    along = slices.slice_along(*fitted_output(model, 0, "test"), "x1", 7)
    rows = np.column_stack([along.x, np.full(7, np.median(X[:, 1]))])
    mean, std = model.predict(rows, return_std=True)
    _, latent = model.predict(rows, return_std=True, include_noise=False)
    np.testing.assert_allclose(along.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(along.std, std, rtol=1e-6)
    np.testing.assert_allclose(along.noise**2, std**2 - latent**2, rtol=1e-6)
    np.testing.assert_allclose(along.noise**2, model.noise_variance(rows), rtol=1e-8)
    over = slices.surface_over(*fitted_output(model, 0, "test"), ("x1", "x2"), 5)
    rows = np.column_stack([np.full(5, over.x[2]), over.y])
    mean, std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(over.mean[:, 2], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(over.std[:, 2], std, rtol=1e-6)
    np.testing.assert_allclose(over.noise[:, 2] ** 2, model.noise_variance(rows), rtol=1e-8)
    found = diagnose(model)
    np.testing.assert_allclose((found.mean, found.std), model.loo_predict())


def test_the_report_of_an_average_names_its_members(average, tmp_path):
    model, _ = average
    members = model.fit_info_["members"]
    path = report(model, tmp_path / "r.html", n_refits=0)
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    text = " ".join(reader.text.split())
    assert " ".join(explain(model, n_refits=0).structure.split()) in text
    assert "Predictions are those of the average" in text
    table = text.partition("log evidenceweight")[2]  # cells follow each other
    for member in members:
        assert ", ".join(member["covariance"]) + member["input_map"] in table
        assert f"{100 * member['weight']:.0f} %" in table
    assert "log_evidence" not in text  # nothing is printed as Python holds it


def test_a_surface_is_the_prediction_over_two_features(model):
    over = slices.surface_over(*fitted_output(model, 0, "test"), (ANGRY, "frequency [Hz]"), 5)
    rows = pd.DataFrame({"frequency [Hz]": over.y[3], ANGRY: over.x[1], "same": 1.0}, index=[0])
    assert over.mean[3, 1] == pytest.approx(model.predict(rows)[0], rel=1e-8)
    assert over.noise[3, 1] ** 2 == pytest.approx(model.noise_variance(rows)[0], rel=1e-8)
    assert over.speed[3, 1] == pytest.approx(explain(model, n_refits=0).speed(rows)[0], rel=1e-4)


def test_training_inputs_come_back_in_their_own_units(model):
    bit = 2.0**-34 * np.ptp(FRAME.to_numpy(), axis=0)  # as the model sees them
    assert (np.abs(model.model_.training_inputs() - FRAME.to_numpy()) <= bit).all()


def test_every_picture_returns_the_axes_it_was_given(model, one_input, ax):
    explanation, diagnostics = explain(model, n_refits=2), diagnose(model)
    assert plots.shares(explanation, ax) is ax
    for draw in (plots.residuals, plots.qq, plots.pit, plots.calibration):
        assert draw(diagnostics, Figure().subplots()).has_data()
    for draw in (plots.surface, plots.scale_along, plots.history):
        assert draw(model, ax=Figure().subplots()).has_data()
    for show in ("std", "noise", "speed"):
        assert plots.surface(model, show=show, ax=Figure().subplots()).has_data()
    assert plots.slice(model, 0, Figure().subplots()).get_xlabel() == "frequency [Hz]"
    assert plots.prediction(one_input, Figure().subplots()).has_data()


@pytest.mark.parametrize("name", ["hermite", "legendre", "jacobi", "laguerre"])
def test_the_papers_bases(name, ax):
    assert len(plots.bases(name, 4, ax).lines) == 5


def test_the_papers_transforms_and_prior_draws(ax):
    assert len(plots.transformations(ax).lines) == 5
    for number, name in enumerate(BUILT_IN):
        drawn = plots.prior_draws(name, stationary=number == 0, ax=Figure().subplots())
        assert all(np.isfinite(line.get_ydata()).all() for line in drawn.lines)


def test_without_axes_a_new_figure_is_made(model):
    import matplotlib.pyplot as plt

    assert plots.qq(diagnose(model)).has_data()
    plt.close("all")


def test_pictures_refuse_what_they_cannot_show(model, ax):
    for call, words in (
        (lambda: plots.prediction(model, ax), r"plots\.slice"),
        (lambda: plots.slice(model, "speed", ax), "frequency"),
        (lambda: plots.slice(model, 5, ax), "there are 2"),
        (lambda: plots.slice(model, 0, ax, coverage=95), "between 0 and 1"),
        (lambda: plots.surface(model, (0, 0), ax), "two different"),
        (lambda: plots.surface(model, show="median", ax=ax), "mean, std, noise, speed"),
    ):
        with pytest.raises(SettingError, match=words):
            call()
    for call in (diagnose, explain, plots.history):
        with pytest.raises(NotFittedError):
            call(PCEGPRegressor())


class _Reader(HTMLParser):
    """Collects text outside of scripts, and what scripts and links there are."""

    def __init__(self):
        super().__init__()
        self.text, self.scripts, self.external, self._inside = "", 0, [], None

    def handle_starttag(self, tag, attrs):
        self._inside = tag
        self.scripts += tag == "script"
        self.external += [v for k, v in attrs if k in ("src", "href") and v != "data:,"]

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert report(model, path, target="level <dB>", n_refits=2) == path
    return path


def test_the_report_is_one_escaped_file_without_links(page):
    assert page.stat().st_size < 6e6
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.external == []
    assert reader.scripts == 3  # plotly, the figures, and the code that draws them
    for text in ("frequency [Hz]", ANGRY, "level <dB>", "per_input"):
        assert text in reader.text


@pytest.mark.skipif(BROWSER is None, reason="Chromium cannot be had here: apt install chromium")
@pytest.mark.parametrize("width", [1200, 390])
def test_a_browser_draws_every_picture_without_an_error(page, width):
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--window-size={width},900", "--virtual-time-budget=20000", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )
    assert "CONSOLE" not in done.stderr
    figures = re.findall(r'<div id="(\w+)" class="[^"]*js-plotly-plot', done.stdout)
    assert len(figures) == 12
    assert done.stdout.count('class="main-svg"') >= 12
    lead = re.search(r'class="lead">(.*?)</p>', done.stdout, re.DOTALL).group(1)
    assert "frequency [Hz]" in lead


@pytest.mark.parametrize("d", [1, 20])
def test_reports_on_few_and_many_features(d, tmp_path):
    X = RNG.uniform(size=(60, d))
    model = PCEGPRegressor(max_iter=5, degree=1).fit(X, X.sum(axis=1))
    path = report(model, tmp_path / "report.html", n_refits=0)
    assert path.stat().st_size < 6e6


def test_a_stationary_model_and_a_constant_target_have_a_report(tmp_path):
    x = np.linspace(0, 1, 12)[:, None]
    for name, said in (("linear", "The process is about the same everywhere"),
                       ("asinh", "changes its character only by the asinh map of the inputs")):
        model = PCEGPRegressor(max_iter=3, degree=0, input_map=name).fit(x, np.sin(x[:, 0]))
        text = report(model, tmp_path / "a.html", n_refits=0).read_text(encoding="utf-8")
        assert said in text
        assert "its local scale is constant" in text


def test_a_report_takes_an_explanation_of_its_own_model_only(model, tmp_path, monkeypatch):
    found = explain(model, n_refits=0)
    other = PCEGPRegressor(max_iter=2, degree=1).fit(RNG.uniform(size=(9, 2)), np.arange(9.0))
    with pytest.raises(SettingError, match="explanation is of another model or output"):
        report(other, tmp_path / "a.html", explanation=found)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("pcegp.inspection.report_page.explain",
                        lambda *_, **__: pytest.fail("it is there"))
    assert report(model, tmp_path / "a.html", explanation=found).exists()


def test_bad_reports_leave_nothing_behind(model, tmp_path):
    with pytest.raises(NotFittedError):
        report(PCEGPRegressor(), tmp_path / "a.html")
    with pytest.raises(FileError, match="is a folder"):
        report(model, tmp_path)
    X = RNG.uniform(size=(30, 21))
    many = PCEGPRegressor(max_iter=2, degree=1).fit(X, X[:, 0])
    with pytest.raises(SettingError, match="at most 20"):
        report(many, tmp_path / "a.html", n_refits=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="takes no files"):
        report(model, tmp_path / "file" / "a.html", n_refits=0)
    with pytest.raises(FileError, match=r"lies in the folder .*new, which does not exist"):
        report(model, tmp_path / "new" / "a.html", n_refits=0)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_read_only_folder_is_refused(model, tmp_path):
    folder = Path("/proc")  # nobody can write there, not even an administrator
    if not folder.is_dir():
        folder = tmp_path
        folder.chmod(0o500)
    with pytest.raises(FileError, match="cannot write"):
        report(model, folder / "a.html", n_refits=0)


def test_a_scaler_without_an_inverse_is_named():
    class Halve:
        def fit(self, X):
            return self

        def transform(self, X):
            return X / 2

        def get_params(self, deep=True):
            return {}

    x = np.linspace(0, 1, 12)[:, None]
    model = PCEGPRegressor(max_iter=2, input_scaler=Halve()).fit(x, x[:, 0])
    with pytest.raises(DataError, match=r"Halve.*inverse_transform"):
        model.model_.training_inputs()


ODD = (r"$\frac{a}{b$", "price $ and $", r"back\slash $")


def test_names_steer_neither_a_terminal_nor_the_page(tmp_path):
    names = ["a\x1b[2J", "b\u202egpj", "c" * 100]
    frame = pd.DataFrame(RNG.uniform(size=(30, 3)), columns=names)
    model = PCEGPRegressor(max_iter=3, penalty=1.0).fit(frame, frame.sum(axis=1))
    text = str(explain(model, n_refits=0))
    assert text.replace("\n", "").isprintable()
    assert r"a\x1b[2J" in text
    assert "c" * 100 in text
    page = report(model, tmp_path / "r.html", title=names[0], target=names[1], n_refits=0)
    html = page.read_text(encoding="utf-8")
    without_code = re.sub(r"<script>.*?</script>", "", html, count=1, flags=re.DOTALL)
    assert without_code.replace("\n", "").isprintable()
    assert r"<title>a\x1b[2J</title>" in html
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', html)[1])
    assert json.dumps(figures, ensure_ascii=False).isprintable()
    assert figures["slice0"]["layout"]["xaxis"]["title"]["text"] == r"a\x1b[2J"


def test_names_are_no_formulas_in_any_picture():
    frame = pd.DataFrame(RNG.uniform(size=(30, 3)), columns=list(ODD))
    model = PCEGPRegressor(max_iter=3).fit(frame, frame.sum(axis=1))
    found = explain(model, n_refits=0)
    for draw in (lambda ax: plots.shares(found, ax), lambda ax: plots.slice(model, 0, ax),
                 lambda ax: plots.surface(model, (0, 2), ax),
                 lambda ax: plots.scale_along(model, ax=ax)):
        ax = draw(Figure().subplots())
        ax.figure.canvas.draw()  # where a formula is read
    one = PCEGPRegressor(max_iter=3).fit(frame[[ODD[0]]], frame[ODD[0]])
    plots.prediction(one, Figure().subplots()).figure.canvas.draw()


def test_parameters_of_a_search_are_no_formulas_in_any_picture():
    from pcegp.inspection import search_plots

    def space(trial):
        penalty = trial.suggest_float(ODD[0], 0.1, 10.0, log=True)
        return {"penalty": penalty, "max_iter": 3, "degree": trial.suggest_int(ODD[1], 0, 1)}

    X = RNG.uniform(size=(30, 1))
    search = quick(space=space, n_trials=5, cv=2, refit=False).fit(X, X[:, 0])
    for figure in (search_plots.importance(search, Figure().subplots()).figure,
                   search_plots.parallel(search).figure, search_plots.tpe(search, ODD[0])):
        figure.canvas.draw()


def test_a_title_that_cannot_be_written_and_a_history_with_gaps(one_input, tmp_path):
    path = report(one_input, tmp_path / "r.html", title="a\ud800b", n_refits=0)
    assert r"a\ud800b" in path.read_text(encoding="utf-8")
    gaps = report_figures.history({"loo_rmse": np.array([1.0, np.nan]),
                                   "loo_nll": np.array([np.inf, 1.0])})
    assert gaps["data"][0]["y"] == [1.0, None]
