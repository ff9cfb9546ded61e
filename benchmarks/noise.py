"""Does the default find how the noise depends on the input? Three noise functions.

    python benchmarks/noise.py
    python benchmarks/noise.py --only constant --seeds 2 --set noise=constant --json noise.json

y = sin(4 pi x) + s(x) e with e ~ N(0, 1) and x uniform on [0, 1], at 150 points:

bump      s(x) = 0.05 + 0.8 exp(-((x - 0.5) / 0.1)^2)
linear    s(x) = 0.2 + 0.6 x
constant  s(x) = 0.3

Prints by how much the NLL of 2,000 new points exceeds that of the true mean and deviation, as
mean and worst over the seeds, and how many models have an expanded noise.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from defaults import setting
from pcegp import PCEGPRegressor, __version__
from pcegp._typing import FloatArray
from pcegp.errors import PCEGPWarning
from pcegp.io import write_figures
from pcegp.metrics import scores

N_ROWS, N_NEW = 150, 2000
NOISES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "bump": lambda x: 0.05 + 0.8 * np.exp(-(((x - 0.5) / 0.1) ** 2)),
    "linear": lambda x: 0.2 + 0.6 * x,
    "constant": lambda x: np.full_like(x, 0.3),
}


def excess(name: str, seed: int, settings: dict[str, Any]) -> dict[str, float]:
    """Fit one sample, and measure the NLL above the truth's."""
    rng = np.random.default_rng(seed)

    def sample(n: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        x = rng.uniform(size=n)
        mean, deviation = np.sin(4.0 * np.pi * x), NOISES[name](x)
        return x[:, None], mean, deviation, mean + deviation * rng.standard_normal(n)

    X, _, _, y = sample(N_ROWS)
    new, mean, deviation, y_new = sample(N_NEW)
    model = PCEGPRegressor(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)  # new points outside the training box
        found = scores(y_new, *model.fit(X, y).predict(new, return_std=True))
    degree = model.model_.outputs[0].base.process.noise_basis.degree
    return {"excess": found["NLL"] - scores(y_new, mean, deviation)["NLL"],
            "noise_degree": float(degree)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(NOISES))
    parser.add_argument("--seeds", type=int, default=8, help="samples of each noise")
    parser.add_argument("--set", dest="settings", type=setting, action="append", default=[])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names = args.only.split(",")
    unknown = [name for name in names if name not in NOISES]
    if unknown:
        parser.error(f"unknown noise {', '.join(unknown)}: choose from {', '.join(NOISES)}")
    settings, results = dict(args.settings), {}
    print(f"pcegp {__version__}, {settings or 'default settings'}, {args.seeds} seeds: "
          "NLL above the truth's")
    for name in names:
        begin = perf_counter()
        rows = [excess(name, seed, settings) for seed in range(args.seeds)]
        values = [row["excess"] for row in rows]
        expanded = sum(row["noise_degree"] > 0 for row in rows)
        results[name] = rows
        print(f"  {name:9s} mean {np.mean(values):.3f}  worst {max(values):.3f}  "
              f"expanded noise in {expanded} of {len(rows)}  {perf_counter() - begin:.0f} s",
              flush=True)
    write_figures(args.json, {"version": __version__, "settings": settings, "results": results},
                  print)


if __name__ == "__main__":
    main()
