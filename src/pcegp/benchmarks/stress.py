"""Random tables times random settings: every fit must end well or be refused for a reason.

A fit ends well if its means are finite, its variances positive and not above those before
any data, its likelihood finite in every step, and the same seed gives the same bits. It may
be refused by one of our own errors. Anything else, or more than a minute, is a fault.
"""

import signal
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.errors import PCEGPError, PCEGPWarning
from pcegp.estimators import ALL_COVARIANCES, PCEGPRegressor
from pcegp.kernels import SCALES

Generator = np.random.Generator

_SECONDS = 60  # for one fit
_REPEATED = 10  # every tenth fit is made twice


@dataclass(frozen=True)
class Problem:
    """A table that someone might have."""

    X: NDArray[Any]
    y: NDArray[Any]
    kinds: tuple[str, ...]


def _repeated(X: FloatArray, y: FloatArray, rng: Generator) -> tuple[FloatArray, FloatArray]:
    rows = rng.integers(0, len(X), len(X))
    return X[rows], y[rows] + rng.choice([0.0, 1.0]) * rng.normal(size=len(y))


def _constant_columns(X: FloatArray, rng: Generator) -> FloatArray:
    return np.where(rng.uniform(size=X.shape[1]) < 0.5, rng.normal(), X)


def _collinear(X: FloatArray, rng: Generator) -> FloatArray:
    return np.column_stack([X, X @ rng.normal(size=X.shape[1]), X[:, 0]])


def _scaled(X: FloatArray, rng: Generator, most: int) -> FloatArray:
    return np.asarray(X * 10.0 ** rng.integers(-most, most + 1, X.shape[1]))


def _shifted(X: FloatArray, rng: Generator) -> FloatArray:
    return np.asarray(X + 10.0 ** rng.integers(0, 10) * rng.choice([-1.0, 1.0]))


# What may be wrong with the inputs, and with the targets.
_INPUTS: dict[str, Callable[[FloatArray, Generator], NDArray[Any]]] = {
    "constant columns": _constant_columns,
    "collinear columns": _collinear,
    "scales": lambda X, rng: _scaled(X, rng, 6),
    "extreme scales": lambda X, rng: _scaled(X, rng, 290),
    "offset": _shifted,
    "integers": lambda X, _: np.round(3 * X).astype(np.int64),
    "booleans": lambda X, _: X > 0.5,
    "float32": lambda X, _: X.astype(np.float32),
    "one cluster": lambda X, _: 0.5 + 1e-12 * X,
    "heavy tails": lambda X, _: np.tan(np.pi * (0.999 * X - 0.4995)),
    "two values": lambda X, _: np.round(X),
}
_TARGETS: dict[str, Callable[[FloatArray, Generator], FloatArray]] = {
    "constant target": lambda y, rng: np.full_like(y, rng.normal()),
    "pure noise": lambda y, rng: rng.normal(size=y.shape),
    "no noise": lambda y, _: np.round(y, 12),
    "scale of y": lambda y, rng: y * 10.0 ** rng.integers(-12, 13),
    "extreme scale of y": lambda y, rng: y * 10.0 ** rng.integers(-290, 291),
    "offset of y": lambda y, _: y + 1e9,
    "outlier": lambda y, _: np.where(np.arange(len(y)) == 0, 1e9, y),
    "counts": lambda y, rng: rng.poisson(np.exp(np.clip(y, -3, 3))).astype(np.float64),
    "two classes": lambda y, _: (y > np.median(y)).astype(np.float64),
}


def problem(rng: Generator) -> Problem:
    """Make a random table; now and then several things are odd about it."""
    n, d = int(rng.integers(1, 61)), int(rng.integers(1, 7))
    X = rng.uniform(size=(n, d))
    y = np.sin(rng.uniform(1, 12) * X[:, 0]) + X @ rng.normal(size=d)
    y += rng.choice([0.0, 0.01, 0.3]) * rng.normal(size=n)
    kinds = []
    if rng.uniform() < 0.25:
        X, y = _repeated(X, y, rng)
        kinds.append("repeated rows")
    table: NDArray[Any] = X
    if rng.uniform() < 0.6:
        kind = str(rng.choice(list(_INPUTS)))
        table = _INPUTS[kind](X, rng)
        kinds.append(kind)
    if rng.uniform() < 0.5:
        kind = str(rng.choice(list(_TARGETS)))
        y = _TARGETS[kind](y, rng)
        kinds.append(kind)
    return Problem(table, y, tuple(kinds))


def settings(rng: Generator) -> dict[str, Any]:
    """Draw settings: all kinds of scale, noise, basis, transform and covariance."""

    def one(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    transforms = ("identity", "shift", "softplus", "sigmoid", "exponential")
    chosen = tuple(rng.permutation(ALL_COVARIANCES)[: rng.integers(1, 6)].tolist())
    return {
        "optimizer": "nadam", "covariance": chosen, "scale": one(*SCALES),
        "degree": int(rng.integers(0, 5)), "scale_transform": one(*transforms),
        "basis": one("legendre", "hermite", "jacobi", "laguerre", ["legendre", "hermite"]),
        "hyperbolic": one(1.0, 0.6), "max_interaction": one(None, 1, 2),
        "noise": one("constant", "expansion"), "noise_degree": int(rng.integers(0, 3)),
        "noise_transform": one(*transforms), "noise_delay": one(None, 0),
        "noise_floor": one(0.0, 1e-12, 1e-6, 1e-2),
        "input_scaler": one("minmax", "standard"),
        "penalty": one(0.0, 0.1, 3.0, 100.0), "l1_ratio": one(0.0, 0.5, 1.0),
        "prior": one(0.0, 1.0), "learning_rate": one(0.001, 0.03, 0.3, 3.0, 100.0),
        "max_iter": int(rng.integers(1, 40)), "averaging": one(1, 5, 30),
        "n_restarts": one(0, 0, 0, 2), "n_draws": one(0, 0, 3), "patience": one(None, None, 5),
        "random_state": int(rng.integers(1000)), "n_jobs": 1,
    }


@contextmanager
def bounded(seconds: float) -> Any:
    """Raise a TimeoutError in the block after that time."""

    def stop(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def rows_to_predict(X: NDArray[Any]) -> FloatArray:
    """Take rows of the table, and others at twice and a million times their distance."""
    table = np.asarray(X, dtype=np.float64)[:10]
    center = np.median(table, axis=0)
    with np.errstate(over="ignore"):
        away = [center + factor * (table - center) for factor in (2.0, 1e6)]
    rows = np.concatenate([table, *away])
    return np.asarray(rows[np.isfinite(rows).all(axis=1)])


def faults_of(model: PCEGPRegressor, table: Problem) -> list[str]:
    """List what is wrong with a fitted model."""
    rows = rows_to_predict(table.X)
    mean, std = model.predict(rows, return_std=True)
    found = []
    if not np.isfinite(mean).all():
        found.append("mean not finite")
    if not np.isfinite(std).all() or not (std > 0).all():
        found.append("std not positive")
    output = model.model_.outputs[0]
    noise = output.base.noise_variance(model.model_.inputs.transform(rows))
    # In standardised units: a square may be too large for a float.
    prior = np.sqrt(output.base.prior_variance + noise)
    if (std > output.target.deviation(prior) * (1 + 1e-6)).any():
        found.append("variance above the prior")
    if not np.isfinite(model.history_["nll"]).all():
        found.append("likelihood not finite")
    return found


def outcome(table: Problem, chosen: dict[str, Any], twice: bool) -> str:
    """Tell what a fit comes to: well, refused, or its fault."""
    try:
        with bounded(_SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PCEGPWarning)
            model = PCEGPRegressor(**chosen).fit(table.X, table.y)
            found = faults_of(model, table)
            if twice:
                again = PCEGPRegressor(**chosen).fit(table.X, table.y)
                rows = rows_to_predict(table.X)
                both = (m.predict(rows, return_std=True) for m in (model, again))
                if any((one != other).any() for one, other in zip(*both, strict=True)):
                    found.append("another result for the same seed")
    except PCEGPError as error:
        return f"refused: {type(error).__name__}"
    except TimeoutError:
        return "fault: more than a minute"
    except Exception as error:  # any other kind is the fault that is looked for
        return f"fault: {type(error).__name__}: {error}"
    return "well" if not found else f"fault: {', '.join(found)}"


def run(fits: int, seed: int, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Make many fits; tell what they came to, and the faults with their numbers."""
    counts: Counter[str] = Counter()
    faults, begin, slowest = [], perf_counter(), 0.0
    for number in range(fits):
        rng = np.random.default_rng([seed, number])
        table, chosen = problem(rng), settings(rng)
        start = perf_counter()
        result = outcome(table, chosen, number % _REPEATED == 0)
        slowest = max(slowest, perf_counter() - start)
        counts[result.split(": ")[0] if result.startswith("fault") else result] += 1
        if result.startswith("fault"):
            faults.append({"number": number, "fault": result, "table": list(table.kinds),
                           "shape": list(table.X.shape), "settings": chosen})
        if progress is not None:
            progress(number + 1)
    return {"fits": fits, "seed": seed, "outcomes": dict(counts), "faults": faults,
            "seconds": perf_counter() - begin, "slowest_seconds": slowest}
