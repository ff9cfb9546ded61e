"""`explain`: formulas that evaluate to the model, shares with their spread, diagnostics."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import sympy
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from pcegp import PCEGPRegressor, explain
from pcegp.benchmarks import toy
from pcegp.errors import DataError, SettingError
from pcegp.inspection.formulas import identifiers

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "Flow rate [m/s]": RNG.uniform(1e3, 2e3, 60),
    "<script>": RNG.uniform(-1, 1, 60),
    "lambda": RNG.uniform(0, 1e-6, 60),
})
Y = np.sin(FRAME["Flow rate [m/s]"] / 100) + FRAME["<script>"] ** 2


def fitted(**params):
    return PCEGPRegressor(max_iter=30, **params).fit(FRAME, Y)


def seen_by(model):
    """The rows in their own units, rounded as the model rounds its inputs."""
    inputs = model.model_.inputs
    return inputs.inverse(inputs.transform(FRAME.to_numpy()))


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.mark.parametrize("transform", ["identity", "shift", "softplus", "sigmoid", "exponential"])
@pytest.mark.parametrize("basis", ["legendre", ["hermite", "laguerre"]])
def test_every_formula_evaluates_to_the_model(transform, basis):
    model = fitted(scale_transform=transform, noise_transform=transform, basis=basis,
                   input_scaler="standard", initial_scale=0.5)
    found = explain(model, n_refits=0)
    symbols = [sympy.Symbol(name) for name in found.names]
    scale = model.local_scale(FRAME).reshape(-1, len(FRAME))
    for part, values in zip(found.fields, scale, strict=True):
        evaluate = sympy.lambdify(symbols, part.formula.sympy())
        np.testing.assert_allclose(evaluate(*seen_by(model).T), values, rtol=1e-9, atol=1e-12)
    if transform not in ("identity", "shift"):  # which the floor may cut off
        noise = sympy.lambdify(symbols, found.noise.sympy())(*seen_by(model).T)
        np.testing.assert_allclose(noise, model.noise_variance(FRAME), rtol=1e-9)


def test_the_text_read_by_sympy_is_the_model(model):
    part = explain(model, n_refits=0).fields[0]
    symbols = {word: sympy.Symbol(word) for word in part.formula.identifiers}
    expression = sympy.sympify(part.formula.text(digits=17), locals=symbols)
    evaluate = sympy.lambdify(list(symbols.values()), expression)
    expected = model.local_scale(FRAME)[0, 0]
    np.testing.assert_allclose(evaluate(*seen_by(model).T), expected, rtol=1e-9)


def test_terms_stand_in_the_order_of_their_contribution():
    model = fitted(covariance="squared_exponential", degree=1, scale="shared")
    terms = explain(model, n_refits=0).fields[0].formula.terms
    varying = [abs(value) for value, powers in terms if any(powers)]
    assert varying == sorted(varying, reverse=True)


@pytest.mark.parametrize(("names", "expected"), [
    (["a b", "a-b", "a_b"], ["a_b", "a_b_2", "a_b_3"]),
    (["1st", "lambda", "E", "%%", "größe"], ["x_1st", "x_lambda", "x_E", "x", "gr_e"]),
])
def test_identifiers_are_words_and_all_different(names, expected):
    assert identifiers(names) == expected


def test_a_scaling_that_is_no_line_is_left_in_place():
    model = fitted(input_scaler=QuantileTransformer(n_quantiles=20))
    part = explain(model, n_refits=0).fields[0]
    scaled = sympy.lambdify([sympy.Symbol(n) for n in FRAME], part.formula.sympy())
    inputs = model.model_.inputs.transform(FRAME.to_numpy())
    np.testing.assert_allclose(scaled(*inputs.T), model.local_scale(FRAME)[0, 0], rtol=1e-9)


def test_identity_has_the_indices_of_its_polynomial():
    found = explain(fitted(scale_transform="identity"), n_refits=0)
    for part in found.fields:
        np.testing.assert_array_equal(part.sobol.first, part.polynomial_sobol.first)


def test_names_latex_text_and_json(model):
    found = explain(model, n_refits=2)
    assert found.names == tuple(FRAME)
    assert r"\mathrm" in found.fields[0].formula.latex()
    text = str(found)
    assert "Flow rate [m/s]" in text
    assert "±" in text
    plain = json.loads(json.dumps(found.as_dict()))
    assert set(plain["shares"]) == set(FRAME)
    assert sum(plain["shares"].values()) == pytest.approx(1.0)


def test_the_spread_is_reproducible_and_may_be_left_out(model):
    first, second = (explain(model, n_refits=3).share_spread for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first >= 0).all()
    assert explain(model, n_refits=0).share_spread is None


def test_relevance_of_a_stationary_model_is_its_scale_everywhere():
    model = fitted(degree=0, covariance="squared_exponential")
    found = explain(model, n_refits=0)
    relevance = found.relevance(FRAME)
    np.testing.assert_allclose(relevance, np.broadcast_to(relevance[0], relevance.shape), rtol=1e-6)
    scale = model.local_scale(FRAME)[0, :, 0]
    width = model.model_.inputs.upper - model.model_.inputs.lower
    np.testing.assert_allclose(relevance[0], scale * width, rtol=1e-6)
    np.testing.assert_allclose(found.speed(FRAME), np.linalg.norm(relevance, axis=1))
    assert found.folding.share == 0.0
    assert found.variation == pytest.approx(0.0, abs=1e-12)


def test_variation_is_the_deviation_of_the_scale_over_its_mean():
    model = fitted(covariance="squared_exponential", scale="shared")
    found = explain(model, n_refits=0)
    rows = pd.DataFrame({name: RNG.uniform(FRAME[name].min(), FRAME[name].max(), 20_000)
                         for name in FRAME})
    scale = model.local_scale(rows)[0, 0]
    assert found.variation == pytest.approx(scale.std() / scale.mean(), rel=0.03)


@pytest.mark.filterwarnings("ignore:constant column")
def test_constant_columns_are_left_out():
    frame = FRAME.assign(same=1.0)
    found = explain(PCEGPRegressor(max_iter=5).fit(frame, Y), n_refits=0)
    assert found.names == tuple(FRAME)
    assert found.relevance(frame).shape == (60, 3)


def test_several_outputs_are_explained_one_at_a_time():
    model = PCEGPRegressor(max_iter=5).fit(FRAME, np.column_stack([Y, -Y]))
    assert explain(model, output=1, n_refits=0).names == tuple(FRAME)
    with pytest.raises(SettingError, match="output=2"):
        explain(model, output=2)


def test_bad_calls_get_one_clear_sentence(model):
    with pytest.raises(NotFittedError):
        explain(PCEGPRegressor())
    with pytest.raises(SettingError, match="last step"):
        explain(make_pipeline(StandardScaler(), model))
    with pytest.raises(SettingError, match="n_refits"):
        explain(model, n_refits=-1)
    found = explain(model, n_refits=0)
    with pytest.raises(DataError, match=r"'lambda' holds 1 \(rows 2\)"):
        found.relevance(FRAME.assign(**{"lambda": np.where(FRAME.index == 2, np.nan, 0.0)}))
    with pytest.raises(ValueError, match="lambda"):
        found.speed(FRAME[["<script>"]])


@pytest.mark.parametrize("seed", range(5))
def test_the_first_input_of_the_extended_higdon_function_has_most_of_the_share(seed):
    X, _ = toy.data(2, seed)
    model = PCEGPRegressor().fit(X, toy.higdon(X))
    assert explain(model, n_refits=0).shares[0] >= 0.85
