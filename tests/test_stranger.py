"""What a stranger adds to the package: the blocks of docs/architecture.md, run as they stand.

A part obeys the laws of its kind, fits by its name and as an object, and survives a file.
"""

from __future__ import annotations

import pickle
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import pcegp
from inference.toy_engine import Toy, ToyLikelihood
from laws import covariance_laws, engine_laws, family_laws, prior_laws, transform_laws
from pcegp import PCEGPRegressor
from pcegp.errors import SettingError
from pcegp.inference import ENGINES
from pcegp.kernels import COVARIANCES, TRANSFORMS
from pcegp.polynomials import FAMILIES
from pcegp.training import PRIORS, ElasticNet

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
REGISTRIES = (COVARIANCES, TRANSFORMS, FAMILIES, PRIORS, ENGINES)


@pytest.fixture(scope="module", autouse=True)
def parts(tmp_path_factory):
    """The code of the page as a module; its registrations end with these tests."""
    before = [dict(known) for known in REGISTRIES]
    path = tmp_path_factory.mktemp("stranger") / "parts_of_a_stranger.py"
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path.write_text("\n".join(blocks), encoding="utf-8")
    spec = spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]
    for known, content in zip(REGISTRIES, before, strict=True):
        known.clear()
        known.update(content)


@covariance_laws.each()
def test_laws_of_a_new_covariance_function(law):
    law(COVARIANCES["cauchy"])


@transform_laws.each()
def test_laws_of_a_new_transform(law, parts):
    law(parts.Squareplus())


@family_laws.each()
def test_laws_of_a_new_family(law, parts):
    law(parts.Chebyshev())


@prior_laws.each()
def test_laws_of_a_new_prior(law, parts):
    law(parts.Cauchy())


@engine_laws.each()
def test_laws_of_a_new_engine(law):
    law(Toy(copies=7))


X = np.random.default_rng(0).uniform(size=(30, 2))
Y = np.sin(6 * X[:, 0]) + X[:, 1]
BY_NAME = {
    "covariance": "cauchy", "scale_transform": "squareplus", "noise_transform": "squareplus",
    "basis": "chebyshev", "prior": "cauchy", "inference": "toy",
}
NADAM = {"optimizer": "nadam", "max_iter": 60, "learning_rate": 0.1}
every_training = pytest.mark.parametrize(
    "quick", [{"max_iter": 60, "degree": 1}, NADAM], ids=["lbfgs", "nadam"])


@every_training
@pytest.mark.parametrize("name", BY_NAME)
def test_each_fits_by_its_name_as_by_its_object(name, parts, quick):
    by_object = {
        "covariance": COVARIANCES["cauchy"], "scale_transform": parts.Squareplus(),
        "noise_transform": parts.Squareplus(), "basis": parts.Chebyshev(),
        "prior": parts.Cauchy(), "inference": Toy(),
    }
    one, other = (PCEGPRegressor(**quick, **{name: part[name]}).fit(X, Y)
                  for part in (BY_NAME, by_object))
    assert one.score(X, Y) > 0.9
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


@every_training
def test_all_fit_together_and_survive_a_file_and_a_pickle(tmp_path, quick):
    model = PCEGPRegressor(**quick, **BY_NAME).fit(X, Y)
    assert isinstance(model.model_.outputs[0].base.engine, Toy)
    assert model.score(X, Y) > 0.9
    loaded = pcegp.load(model.save(tmp_path / "model.pcegp"))
    pickled = pickle.loads(pickle.dumps(model))  # noqa: S301
    for again in (loaded, pickled):
        np.testing.assert_array_equal(again.predict(X, return_std=True),
                                      model.predict(X, return_std=True))


@every_training
def test_another_engine_with_the_same_mathematics_trains_the_same_model(monkeypatch, quick):
    evaluated, evaluate = [], ToyLikelihood.__call__

    def counted(self, theta):
        evaluated.append(theta)
        return evaluate(self, theta)

    monkeypatch.setattr(ToyLikelihood, "__call__", counted)
    toy, exact = (PCEGPRegressor(inference=name, **quick).fit(X, Y) for name in ("toy", "exact"))
    assert len(evaluated) > 60  # steps, and what comes beside them
    np.testing.assert_allclose(toy.predict(X), exact.predict(X), atol=0.02)


@pytest.mark.parametrize(("settings", "named"), [({"patience": 5}, "patience=5"),
                                                 ({"n_draws": 4}, "n_draws=4")])
def test_what_an_engine_cannot_serve_is_refused_before_any_work(settings, named):
    with pytest.raises(SettingError, match=rf"{named} .*inference='toy'"):
        PCEGPRegressor(inference="toy", **NADAM, **settings).fit(X, Y)


@every_training
def test_what_an_engine_cannot_answer_is_refused_by_name(quick):
    model = PCEGPRegressor(inference="toy", **quick | {"max_iter": 2}).fit(X, Y)
    for question in (model.loo_predict, lambda: model.predict(X, return_cov=True)):
        with pytest.raises(SettingError, match="inference='toy' does not provide"):
            question()
    assert np.isnan(model.history_["loo_rmse"]).all()


def test_two_priors_with_a_kink_are_refused():
    with pytest.raises(SettingError, match="two priors have a kink"):
        PCEGPRegressor(prior=ElasticNet(1.0, 0.5), l1_ratio=0.5, **NADAM).fit(X, Y)
