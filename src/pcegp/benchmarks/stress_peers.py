"""How other libraries fare on the tables of the stress run, as a user would call them.

They run in a process of their own, which is killed where a call does not come back: some
hang in compiled code that nothing else can stop.
"""

import multiprocessing
import os
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.benchmarks.stress import problem, rows_to_predict

Predict = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

_SECONDS = 20  # for one fit, after which it counts as hanging
_STEPS = 30


def _gpytorch(kind: str) -> Predict:
    def predict(X: FloatArray, y: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        import torch

        from pcegp.benchmarks.baselines.gpytorch_gps import ExactGP, adam

        dtype = getattr(torch, kind)
        model = ExactGP(torch.tensor(X, dtype=dtype), torch.tensor(y, dtype=dtype), ard=True)
        adam(model, 0.1, _STEPS)
        mean, variance = model.predict(torch.tensor(rows, dtype=dtype))
        return mean.numpy(), variance.numpy()

    return predict


def _scikit_learn(
    X: FloatArray, y: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    mean, std = GaussianProcessRegressor(kernel).fit(X, y).predict(rows, return_std=True)
    return mean, std**2


def _gpboost(X: FloatArray, y: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    import gpboost

    process = gpboost.GPModel(gp_coords=X, cov_function="exponential", likelihood="gaussian")
    booster = gpboost.train(params={"verbose": -1}, train_set=gpboost.Dataset(X, y),
                            gp_model=process, num_boost_round=10)
    out = booster.predict(data=rows, gp_coords_pred=rows, predict_var=True, pred_latent=False)
    return np.asarray(out["response_mean"]), np.asarray(out["response_var"])


#: Name, package and call of each peer.
PEERS: dict[str, tuple[str, Predict]] = {
    "scikit-learn": ("sklearn", _scikit_learn),
    "GPyTorch float64": ("gpytorch", _gpytorch("float64")),
    "GPyTorch float32": ("gpytorch", _gpytorch("float32")),
    "GPBoost": ("gpboost", _gpboost),
}


def outcome(predict: Predict, X: NDArray[Any], y: NDArray[Any]) -> str:
    """Tell what a fit of a peer comes to."""
    inputs, target = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    with warnings.catch_warnings(action="ignore"):
        try:
            mean, variance = predict(inputs, target, rows_to_predict(inputs))
        except Exception:  # what other libraries raise is counted, not judged
            return "exception"
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        return "not finite"
    return "well" if (variance > 0.0).all() else "variance not positive"


class Child:
    """A process that fits peers, replaced by a new one when it hangs or dies."""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=_serve, args=(end,), daemon=True)
        self._process.start()
        end.close()

    def outcome(self, name: str, X: NDArray[Any], y: NDArray[Any]) -> str:
        """Tell what a fit comes to within its time."""
        try:
            self._pipe.send((name, X, y))
            if self._pipe.poll(_SECONDS):
                return str(self._pipe.recv())
            result = "hangs"
        except (EOFError, OSError):
            result = "crashes"
        self._process.kill()
        self._process.join()
        self._start()
        return result


def _serve(pipe: Connection) -> None:
    """Answer until the parent goes; what libraries print is not for the user."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    while True:
        name, X, y = pipe.recv()
        pipe.send(outcome(PEERS[name][1], X, y))


def run(fits: int, seed: int, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Give the first tables of the stress run to every peer that is installed."""
    counts: dict[str, Counter[str]] = {
        name: Counter() for name, (package, _) in PEERS.items() if find_spec(package)
    }
    with Child() as child:
        for number in range(fits):
            table = problem(np.random.default_rng([seed, number]))
            for name, found in counts.items():
                found[child.outcome(name, table.X, table.y)] += 1
            if progress is not None:
                progress(number + 1)
    return {name: dict(found) for name, found in counts.items()}
