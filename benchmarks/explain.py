"""What the explanation says on known ground, and how long a report takes.

    python benchmarks/explain.py --data FOLDER --json explain.json

Shares of the extended Higdon function, whose first input makes it non-stationary, for the
default model and the paper's setup, seeds 0 to 4 (paper: 0.922); then the report on Airfoil. The
default may choose a constant scale, which has no shares; the median is that of the others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from pcegp import PCEGPRegressor, explain, report
from pcegp.benchmarks import toy
from pcegp.io import write_figures


def higdon_shares(model: PCEGPRegressor, seed: int) -> tuple[float, float] | None:
    """Measure the share of the first input, and its spread; none where the scale is constant."""
    X, _ = toy.data(2, seed)
    found = explain(model.fit(X, toy.higdon(X)))
    if not found.shares.any():
        return None
    return float(found.shares[0]), float(found.share_spread[0])


def airfoil_report(folder: Path) -> dict[str, float]:
    """Measure the seconds to fit and to report, and the size of the file in MB."""
    table = pd.read_csv(folder / "airfoil.csv")
    begin = perf_counter()
    model = PCEGPRegressor().fit(table.iloc[:, :-1], table.iloc[:, -1])
    fitted = perf_counter()
    with tempfile.TemporaryDirectory() as place:
        path = report(model, Path(place) / "report.html", target=table.columns[-1])
        done = perf_counter()
        return {"fit_s": fitted - begin, "report_s": done - fitted,
                "size_mb": path.stat().st_size / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("PCEGP_DATA"),
                        help="folder with airfoil.csv; without it there is no report")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    out: dict[str, object] = {}
    for name, model in (("default", PCEGPRegressor()), ("toy", PCEGPRegressor.toy())):
        shares = [higdon_shares(model, seed) for seed in range(5)]
        out[name] = shares
        text = ", ".join("constant scale" if each is None else f"{each[0]:.3f} ± {each[1]:.3f}"
                         for each in shares)
        varying = [each[0] for each in shares if each is not None]
        middle = f"; median {np.median(varying):.3f}" if varying else ""
        print(f"share of x1, {name:8s} {text}{middle}")
    if args.data is not None:
        out["airfoil"] = airfoil_report(args.data)
        print("airfoil:", {name: round(value, 2) for name, value in out["airfoil"].items()})
    write_figures(args.json, out, print)


if __name__ == "__main__":
    main()
