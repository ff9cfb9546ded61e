"""How long a fit takes: the default beside the earlier default.

    python benchmarks/fit_seconds.py
    python benchmarks/fit_seconds.py --sizes 200x8 --repeats 2 --json fit_seconds.json

The earlier default is `optimizer="nadam"` with 400 steps and four draws of the parameters. Both
are fitted in turn to the same rows, and the best time of each counts: other work on the machine
can only make a fit slower. The target is a smooth function of five of the inputs, with noise of
0.1. Prints seconds, Cholesky factorisations and the ratio of the seconds. Set
OPENBLAS_NUM_THREADS=1 to compare one core with one core.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from pcegp import PCEGPRegressor, __version__
from pcegp._typing import FloatArray
from pcegp.errors import PCEGPWarning
from pcegp.estimators import ALL_COVARIANCES
from pcegp.io import write_figures

MODELS: dict[str, dict[str, Any]] = {
    "earlier": {"optimizer": "nadam", "covariance": ALL_COVARIANCES, "degree": 2,
                "max_interaction": None, "n_draws": 4},
    "default": {},
}


def table(n: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Make n rows of d inputs, of which five matter."""
    rng = np.random.default_rng([n, d])
    X = rng.uniform(size=(n, d))
    y = np.sin(2.0 * np.pi * X[:, 0] * X[:, 1]) + 2.0 * (X[:, 2] - 0.5) ** 2
    return X, y + X[:, 3] + 0.5 * X[:, 4] + 0.1 * rng.standard_normal(n)


def timed(settings: dict[str, Any], X: FloatArray, y: FloatArray) -> dict[str, float]:
    """Fit one model, and count."""
    model = PCEGPRegressor(**settings)
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)
        model.fit(X, y)
    seconds = perf_counter() - begin
    return {"seconds": seconds, "factorisations": float(model.fit_info_["n_factorisations"]),
            "members": float(len(model.fit_info_.get("members", [None])))}


def compare(n: int, d: int, repeats: int) -> dict[str, Any]:
    """Fit both models in turn, several times."""
    X, y = table(n, d)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in MODELS}
    for _ in range(repeats):
        for name, settings in MODELS.items():
            runs[name].append(timed(settings, X, y))
    best = {name: min(each, key=lambda run: run["seconds"]) for name, each in runs.items()}
    ratio = best["default"]["seconds"] / best["earlier"]["seconds"]
    text = "  ".join(f"{name} {run['seconds']:7.2f} s, {run['factorisations']:5.0f} factorisations"
                     for name, run in best.items())
    print(f"  {f'{n} x {d}':>10s}  {text}, {best['default']['members']:.0f} members  "
          f"ratio {ratio:.2f}", flush=True)
    return {"runs": runs, "ratio": ratio}


def size(text: str) -> tuple[int, int]:
    """Read a size such as 200x8: rows and inputs."""
    n, _, d = text.partition("x")
    if not (n.isdigit() and d.isdigit() and int(n) > 1 and int(d) >= 5):
        raise argparse.ArgumentTypeError(f"{text!r} must be rows x inputs (5 or more), like 200x8")
    return int(n), int(d)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=size, nargs="+", default=[(200, 8), (1000, 8), (500, 128)])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warm_up = table(40, 5)
    for settings in MODELS.values():
        timed(settings, *warm_up)  # loads what is compiled
    print(f"pcegp {__version__}, best of {args.repeats}")
    results = {f"{n}x{d}": compare(n, d, args.repeats) for n, d in args.sizes}
    write_figures(args.json, {"version": __version__, "results": results}, print)


if __name__ == "__main__":
    main()
