"""Simulations at 8 to 30 points: the default beside scikit-learn's Gaussian process.

    python benchmarks/small_designs.py
    python benchmarks/small_designs.py --only designs --seeds 2 --json small_designs.json

designs  Branin, Hartmann 3 and 6 and the borehole function on Latin hypercubes. RMSE and NLL at
         1,024 points, in units of the function's deviation: the geometric mean of the RMSE with
         its smallest and largest value, and the median of the NLL, over the seeds
learn    Branin from 8 points of a scrambled Sobol sequence and 15 more, one by one where the
         predicted deviation is largest: RMSE over a grid
minimise the same, where the expected improvement is largest: the least value found, 0.398 at best

The functions have no noise, and neither model is told so. The neighbour is scikit-learn's Matern
5/2 process with a scale for each input, a white kernel, a normalised target and two restarts. The
white kernel has scikit-learn's own start and bounds, which serve it better here than a noise that
begins at 1e-5. A fit may fail and take the function for noise. Then a model has no opinion where
to go, and may choose the same point again: `repeated` counts choices of a point that was there.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import norm, qmc
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from pcegp import PCEGPRegressor, __version__
from pcegp._typing import FloatArray
from pcegp.errors import PCEGPWarning
from pcegp.io import write_figures
from robustness import branin_function

N_FIRST, N_MORE, N_CANDIDATES = 8, 15, 1024
# Heights, widths and places of the four peaks of Hartmann's functions.
_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_WIDTHS = {
    3: np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    6: np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14],
                 [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]),
}
_PLACES = {
    3: 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547],
                        [381, 5743, 8828]]),
    6: 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                        [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]),
}
# Ranges of the borehole's inputs: radii, transmissivities and heads above and below, length,
# conductivity.
_BOREHOLE = np.array([[0.05, 0.15], [100, 50000], [63070, 115600], [990, 1110], [63.1, 116],
                      [700, 820], [1120, 1680], [9855, 12045]])


def hartmann(U: FloatArray) -> FloatArray:
    """Compute Hartmann's function of three or six inputs at points of the unit cube."""
    d = U.shape[1]
    exponents = (_WIDTHS[d] * (U[:, None] - _PLACES[d]) ** 2).sum(axis=-1)
    return np.asarray(-np.exp(-exponents) @ _HEIGHTS)


def borehole(U: FloatArray) -> FloatArray:
    """Compute the flow through a borehole at points of the unit cube."""
    low, high = _BOREHOLE.T
    r_w, r, t_u, h_u, t_l, h_l, length, k_w = (low + (high - low) * U).T
    log_ratio = np.log(r / r_w)
    leak = 2.0 * length * t_u / (log_ratio * r_w**2 * k_w)
    return np.asarray(2.0 * np.pi * t_u * (h_u - h_l) / (log_ratio * (1.0 + leak + t_u / t_l)))


Function = Callable[[FloatArray], FloatArray]
#: Name, function, inputs and sizes of the designs.
FUNCTIONS: tuple[tuple[str, Function, int, tuple[int, ...]], ...] = (
    ("Branin", branin_function, 2, (8, 15, 23, 30)),
    ("Hartmann 3", hartmann, 3, (15, 30)),
    ("Hartmann 6", hartmann, 6, (30,)),
    ("borehole", borehole, 8, (15, 30)),
)


def matern(d: int) -> GaussianProcessRegressor:
    """Make scikit-learn's process."""
    kernel = ConstantKernel() * Matern(np.ones(d), nu=2.5) + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2,
                                    random_state=0)


MODELS: dict[str, Callable[[int], Any]] = {
    "pcegp": lambda d: PCEGPRegressor(),  # noqa: ARG005  # as every model
    "scikit-learn": matern,
}


def predicted(model: Any, X: FloatArray, y: FloatArray, *new: FloatArray) -> list[Any]:
    """Fit, and predict mean and deviation at several sets of points."""
    with warnings.catch_warnings():
        for category in (PCEGPWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        model.fit(X, y)
        return [model.predict(points, return_std=True) for points in new]


def on_design(name: str, function: Function, d: int, n: int, seed: int) -> dict[str, float]:
    """Score one model on one Latin hypercube."""
    U = qmc.LatinHypercube(d, seed=seed).random(n)
    new = qmc.Sobol(d, seed=99).random(1024)
    truth = function(new)
    begin = perf_counter()
    ((mean, std),) = predicted(MODELS[name](d), U, function(U), new)
    seconds, unit = perf_counter() - begin, truth.std()
    away, width = (mean - truth) / unit, std / unit
    return {"rmse": float(np.sqrt(np.mean(away**2))),
            "nll": float(np.mean(0.5 * np.log(2.0 * np.pi * width**2) + 0.5 * (away / width) ** 2)),
            "seconds": seconds}


def designs(seeds: int) -> list[dict[str, Any]]:
    """Compare the models on all designs."""
    out = []
    for label, function, d, sizes in FUNCTIONS:
        for n in sizes:
            for name in MODELS:
                rows = [on_design(name, function, d, n, seed) for seed in range(seeds)]
                errors = np.array([row["rmse"] for row in rows])
                out.append({"function": label, "n": n, "model": name, "seeds": rows})
                print(f"  {label:10s} {n:3d}  {name:12s} RMSE {np.exp(np.log(errors).mean()):.3f} "
                      f"({errors.min():.3f} to {errors.max():.3f})  "
                      f"NLL {np.median([row['nll'] for row in rows]):6.2f}  "
                      f"{np.mean([row['seconds'] for row in rows]):.1f} s", flush=True)
    return out


def improvement(mean: FloatArray, std: FloatArray, least: float) -> FloatArray:
    """Compute the expected improvement on the least value so far."""
    std = np.maximum(std, 1e-12)
    z = (least - mean) / std
    return np.asarray(std * (z * norm.cdf(z) + norm.pdf(z)))


def loop(name: str, goal: str, seed: int) -> dict[str, float]:
    """Choose points one by one on the Branin function."""
    U = qmc.Sobol(2, seed=seed).random(N_FIRST)
    y = branin_function(U)
    candidates = qmc.Sobol(2, seed=1000 + seed).random(N_CANDIDATES)
    begin, repeated = perf_counter(), 0
    for _ in range(N_MORE):
        ((mean, std),) = predicted(MODELS[name](2), U, y, candidates)
        gain = std if goal == "learn" else improvement(mean, std, float(y.min()))
        chosen = candidates[[int(np.argmax(gain))]]
        repeated += int((chosen == U).all(axis=1).any())
        U, y = np.vstack([U, chosen]), np.append(y, branin_function(chosen))
    axis = np.linspace(0.0, 1.0, 50)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    ((mean, _),) = predicted(MODELS[name](2), U, y, grid)
    error = mean - branin_function(grid)
    return {"rmse": float(np.sqrt(np.mean(error**2))), "least": float(y.min()),
            "repeated": repeated, "seconds": perf_counter() - begin}


def loops(goal: str, seeds: int) -> list[dict[str, Any]]:
    """Compare the models in one kind of loop."""
    out, key = [], "rmse" if goal == "learn" else "least"
    for name in MODELS:
        rows = [loop(name, goal, seed) for seed in range(seeds)]
        values = [row[key] for row in rows]
        out.append({"model": name, "seeds": rows})
        print(f"  {name:12s} {'RMSE' if goal == 'learn' else 'least value'} median "
              f"{np.median(values):.3f}, largest {max(values):.3f}; repeated "
              f"{sum(row['repeated'] for row in rows)} of {N_MORE * len(rows)} choices; "
              f"{np.mean([row['seconds'] for row in rows]):.0f} s for a loop", flush=True)
    return out


PARTS: dict[str, tuple[Callable[[int], list[dict[str, Any]]], int]] = {
    "designs": (designs, 6),
    "learn": (lambda seeds: loops("learn", seeds), 5),
    "minimise": (lambda seeds: loops("minimise", seeds), 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--seeds", type=int, help="instead of 6, and of 5 for the loops")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names = args.only.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    figures: dict[str, Any] = {"version": __version__}
    for name in names:
        work, count = PARTS[name]
        count = args.seeds or count
        print(f"{name}, {count} seeds", flush=True)
        figures[name] = work(count)
    write_figures(args.json, figures, print)


if __name__ == "__main__":
    main()
