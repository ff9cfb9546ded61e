"""`explain`: formulas that evaluate to the model, shares with their spread, diagnostics."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import mpmath
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
from pcegp.inspection import structure_text
from pcegp.inspection.formulas import identifiers
from small_models import BUILT_IN

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "Flow rate [m/s]": RNG.uniform(1e3, 2e3, 60),
    "<script>": RNG.uniform(-1, 1, 60),
    "lambda": RNG.uniform(0, 1e-6, 60),
})
Y = np.sin(FRAME["Flow rate [m/s]"] / 100) + FRAME["<script>"] ** 2


def fitted(**params):
    """A model of all covariance functions whose scale varies."""
    settings = {"covariance": BUILT_IN, "input_map": "linear", "noise": "expansion",
                "penalty": 1.0, "degree": 2, "max_iter": 30}
    return PCEGPRegressor(**{**settings, **params}).fit(FRAME, Y)


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
        # These data have no noise: log(1 + exp(-22)) is exact only with more digits.
        evaluate = sympy.lambdify(symbols, found.noise.sympy(), "mpmath")
        with mpmath.workdps(30):
            noise = [float(evaluate(*row)) for row in seen_by(model).tolist()]
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


@pytest.mark.parametrize("params", [
    {"input_scaler": QuantileTransformer(n_quantiles=20)}, {"input_map": "power"},
    {"input_map": "asinh"},
])
def test_a_scaling_or_a_map_that_is_no_line_is_left_in_place(params):
    model = fitted(**params)
    found = explain(model, n_refits=0)
    symbols = [sympy.Symbol(name) for name in FRAME]
    inputs = model.model_.inputs.transform(FRAME.to_numpy())
    inputs = model.model_.outputs[0].base.process.input_map.transform(inputs)
    scaled = sympy.lambdify(symbols, found.fields[0].formula.sympy())
    np.testing.assert_allclose(scaled(*inputs.T), model.local_scale(FRAME)[0, 0], rtol=1e-9)
    noise = sympy.lambdify(symbols, found.noise.sympy())
    np.testing.assert_allclose(noise(*inputs.T), model.noise_variance(FRAME), rtol=1e-9)


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


@pytest.mark.parametrize("params", [{}, {"optimizer": "nadam"}, {"input_map": "power"}])
def test_the_spread_is_reproducible_and_may_be_left_out(params):
    model = fitted(**params)
    first, second = (explain(model, n_refits=3).share_spread for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first >= 0).all()
    assert explain(model, n_refits=0).share_spread is None


@pytest.mark.parametrize(("params", "expected"), [
    ({}, r"squared_exponential \+ .*; linear input map; scale of degree 2 \(penalty 1\); "),
    ({"covariance": "matern52", "input_map": "power", "target_map": "linear"},
     "matern52; power input map; "),
    ({"optimizer": "nadam", "noise": "constant"},
     r".*; scale of degree 2; constant noise \(deviation [0-9.e-]+\)"),
    ({"penalty": "auto", "degree": 0}, ".*; constant scale; "),
    ({"noise": "none"}, ".*; next to no noise"),
])
def test_the_structure_is_said_in_words(params, expected):
    found = explain(fitted(**params), n_refits=0)
    assert re.match(expected, found.structure)
    assert "\n" not in found.structure
    assert found.structure in str(found)
    assert found.as_dict()["structure"] == found.structure


@pytest.mark.parametrize(("sign", "expected"), [
    (1.0, r"of log\(target \+ [67]\.[0-9]*\); "), (-1.0, r"of -log\([67]\.[0-9]* - target\); "),
])
def test_a_logarithm_of_the_target_is_named_with_its_origin(sign, expected):
    rng = np.random.default_rng(6)
    x = rng.uniform(size=(80, 1))
    y = np.exp(2.0 * np.sin(6.0 * x[:, 0]) + 0.2 * rng.normal(size=80)) - 7.0
    found = explain(PCEGPRegressor("matern52", degree=0).fit(x, sign * y), n_refits=0)
    assert re.match(expected, found.structure)
    assert "noise in proportion (deviation " in found.structure
    assert f"Noise variance of {found.describes}, standardised:" in str(found)


def test_noise_that_varies_is_given_with_its_range():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(150, 1))
    y = 50 * (np.sin(6 * x[:, 0]) + np.exp(3 * x[:, 0] - 4) * rng.normal(size=150))
    model = PCEGPRegressor("matern52", degree=1, penalty=1.0, noise="expansion",
                           input_map="linear").fit(x, y)
    low, high = re.search(r"noise of degree 1 \(deviation (.*) to (.*)\)",
                          explain(model, n_refits=0).structure).groups()
    deviations = np.sqrt(model.noise_variance(x))
    assert float(low) == pytest.approx(deviations.min(), rel=0.005)
    assert float(high) == pytest.approx(deviations.max(), rel=0.005)


@pytest.mark.parametrize(("penalties", "expected"), [
    ((1.0,), None),
    ((1.0, 3.0), "averaged with another model; this one weighs 60%"),
    ((None, None, None), "averaged with 2 other models; this one weighs 60%"),
    ((None, 3.0, None), "averaged with 2 other models; this one weighs 60%, those whose scale "
                        "varies 30%"),
])
def test_an_average_says_what_weighs_how_much(model, penalties, expected):
    out = model.model_.outputs[0]
    members = [{**out.info["members"][0], "penalty": penalty, "weight": weight}
               for penalty, weight in zip(penalties, (0.6, 0.3, 0.1), strict=False)]
    lines = structure_text(replace(out, info={**out.info, "members": members})).splitlines()
    assert lines[1:] == ([] if expected is None else [expected])


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
    found = explain(PCEGPRegressor(max_iter=20).fit(frame, Y), n_refits=2)
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


HIGDON = [
    {"penalty": 1.0, "input_map": "linear", "noise": "constant"},
    {"optimizer": "nadam", "degree": 2, "max_interaction": None},
    {},
]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("params", HIGDON, ids=["one strength", "nadam", "chosen"])
def test_the_first_input_of_the_extended_higdon_function_has_most_of_the_share(seed, params):
    """With a little noise: without any, rounding hides the optimum of a scale that varies."""
    X, _ = toy.data(2, seed)
    y = toy.higdon(X) + 0.01 * np.random.default_rng(seed).normal(size=200)
    assert explain(PCEGPRegressor(**params).fit(X, y), n_refits=0).shares[0] >= 0.85


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("params", HIGDON, ids=["one strength", "nadam", "chosen"])
@pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")
def test_the_extended_higdon_function_is_learned_without_noise(seed, params):
    """The first input has most of the share, unless the evidence chose a scale that is constant."""
    X, X_test = toy.data(2, seed)
    model = PCEGPRegressor(**params).fit(X, toy.higdon(X))
    found = explain(model, n_refits=0)
    is_constant = params == {} and "constant scale" in found.structure
    assert found.shares[0] >= 0.85 or is_constant
    assert ("its local scale is constant" in str(found)) == is_constant
    assert np.sqrt(np.mean((model.predict(X_test) - toy.higdon(X_test)) ** 2)) < 0.05
