"""`pcegp bench speed`: one training iteration and one prediction, beside LAPACK and peers.

Everything runs in turn in one process, several times, and the best time of each counts:
what is compared then had the same machine. Between two methods there is a short rest, so
that idle threads of the one before have gone to sleep.
"""

import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from pcegp._typing import FloatArray
from pcegp.errors import DataWarning
from pcegp.estimators import PCEGPRegressor
from pcegp.inference import Exact
from pcegp.numerics import threads_for

Step = Callable[[], object]

SIZES = (100, 500, 1000, 2000, 4400)
# Inputs and degree of the paper's three runtime experiments, by their number of terms.
PAPER = {120: (7, 3), 1001: (10, 4), 11440: (9, 7)}
_D, _DEGREE, _NEW = 8, 2, 100
_REST = 0.15  # seconds
_BURST = 3  # steps in a row


class Method(NamedTuple):
    """A method to be timed: a training step within its surroundings, and a prediction."""

    training: Callable[[], AbstractContextManager[Step]] | None = None
    predict: Step | None = None


def data(n: int, d: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Make inputs (n, d), targets (n,) and new inputs (100, d) of the paper's tanh(sum of x)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, d))
    return X, np.tanh(X.sum(axis=1)), rng.uniform(-0.3, 0.3, (_NEW, d))


def lapack_floor(n: int) -> Method:
    """Time potrf and potri: no exact Gaussian process can do without."""
    A = np.random.default_rng(0).normal(size=(n, n))
    matrix = np.asfortranarray(A @ A.T / n + np.eye(n))

    @contextmanager
    def training() -> Iterator[Step]:
        copies = iter([matrix.copy(order="F") for _ in range(_BURST)])

        def step() -> object:
            factor, _ = lapack.dpotrf(next(copies), lower=1, clean=0, overwrite_a=1)
            return lapack.dpotri(factor, lower=1, overwrite_c=1)

        yield step

    return Method(training)


def pcegp(n: int, d: int, **params: Any) -> Method:
    """Time likelihood with gradient, and the estimator's prediction with deviations."""
    X, y, X_new = data(n, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # many terms for few rows: on purpose
        model = PCEGPRegressor(max_iter=1, **params).fit(X, y)
    base = model.model_.outputs[0].base
    likelihood = Exact().bind(base.process, base.data)

    @contextmanager
    def training() -> Iterator[Step]:
        with threads_for(n) as likelihood.threads:
            yield lambda: likelihood(base.theta)

    return Method(training, lambda: model.predict(X_new, return_std=True))


def sklearn_gp(n: int) -> Method:
    """Time scikit-learn's GP: log marginal likelihood with gradient, and prediction."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, y, X_new = data(n, _D)
    kernel = ConstantKernel() * RBF() + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    theta = model.kernel_.theta
    return Method(
        lambda: nullcontext(lambda: model.log_marginal_likelihood(theta, eval_gradient=True)),
        lambda: model.predict(X_new, return_std=True),
    )


def gpytorch_gp(n: int, kind: str) -> Method:
    """Time GPyTorch's exact GP in "float64" or "float32", or a "deep" one in float64.

    "cached" is the prediction of the first with `fast_pred_var`.
    """
    import torch

    from pcegp.benchmarks.baselines.gpytorch_gps import ExactGP, TwoLayerGP

    dtype = torch.float32 if kind == "float32" else torch.float64
    X, y, X_new = (torch.from_numpy(a).to(dtype) for a in data(n, _D))
    if kind == "cached":
        gp = ExactGP(X, y)
        return Method(predict=lambda: gp.predict(X_new, cached=True))
    model = TwoLayerGP(X, y) if kind == "deep" else ExactGP(X, y)
    return Method(lambda: nullcontext(model.loss), lambda: model.predict(X_new))


def has_gpytorch() -> bool:
    """Tell whether GPyTorch is installed."""
    return find_spec("gpytorch") is not None


def methods(n: int, peers: bool) -> dict[str, Method]:
    """Make everything to be timed at this size, by the first part of its JSON names."""
    out = {
        "lapack": lapack_floor(n),
        "pcegp1": pcegp(n, _D, degree=_DEGREE, covariance="squared_exponential"),
        "pcegp5": pcegp(n, _D, degree=_DEGREE),
    }
    for n_terms, (d, degree) in PAPER.items():
        out[f"pcegp_{n_terms}"] = pcegp(
            n, d, degree=degree, covariance="squared_exponential", scale="shared",
            scale_transform="identity",
        )
    out["sklearn"] = sklearn_gp(n)
    if peers:
        out |= {name: gpytorch_gp(n, kind) for name, kind in (
            ("gpytorch64", "float64"), ("gpytorch_cached", "cached"), ("gpytorch32", "float32"),
            ("deep", "deep"),
        )}
    return out


def _shortest(step: Step, times: int) -> float:
    """Measure the milliseconds of the shortest of several calls."""
    best = np.inf
    for _ in range(times):
        begin = perf_counter()
        step()
        best = min(best, perf_counter() - begin)
    return 1e3 * best


def measure(n: int, rounds: int, peers: bool) -> dict[str, float]:
    """Measure the best times in milliseconds at n points: training steps, then predictions."""
    todo = methods(n, peers)
    found: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        for name, method in todo.items():
            if method.training is not None:
                sleep(_REST)
                with method.training() as step:
                    found.setdefault(f"{name}_ms", []).append(_shortest(step, _BURST))
    # The first round compiles and fills caches.
    best = {name: min(times[1:]) for name, times in found.items()}
    for _ in range(rounds):
        for name, method in todo.items():
            if method.predict is not None:
                sleep(_REST)
                key = f"predict_{name}_ms"
                best[key] = min(best.get(key, np.inf), _shortest(method.predict, 2 * _BURST))
    return best


def _status_mb(name: str) -> float:
    """Read a line of Linux's account of this process, in megabytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split(f"{name}:")[1].split()[0]) / 1024.0


def _peak_mb(n: int) -> float:
    """Measure the peak memory of a fit and a prediction above what was in use before."""
    X, y, X_new = data(n, _D)
    # More draws than one take more time, but hardly more memory.
    model = PCEGPRegressor(optimizer="nadam", degree=_DEGREE, max_iter=3, n_draws=1)
    model.fit(X[:50], y[:50]).predict(X_new, return_std=True)  # loads the compiled code
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the old peak
    before = _status_mb("VmRSS")
    model.fit(X, y).predict(X_new, return_std=True)
    return _status_mb("VmHWM") - before


def peak_mb(n: int) -> float:
    """Measure the peak in a process of its own; Linux only."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_peak_mb, n).result()


def rows(sizes: Sequence[int], rounds: int | None, peers: bool) -> Iterator[dict[str, float]]:
    """Make one row of figures per size, as they come."""
    for n in sizes:
        times = rounds or int(np.clip(12_000 / n, 4, 20))
        best = measure(n, times, peers)
        row = {"n": n, **best, "predict_pcegp_ms": best["predict_pcegp5_ms"]}
        if peers:
            row["predict_gpytorch_ms"] = best["predict_gpytorch64_ms"]
        memory = {"peak_mb": peak_mb(n)} if sys.platform == "linux" else {}
        yield row | memory
