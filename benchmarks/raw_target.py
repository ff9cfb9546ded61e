"""Are the paper's GP and GP-ARD figures those of targets that were not standardised?

    python benchmarks/raw_target.py
    python benchmarks/raw_target.py --only yacht --folds 3

Trains both as the paper describes them (GPyTorch, squared exponential, Adam 0.1, 100 steps) on
a standardised target, on one that is only centred, and on one as it is, and prints RMSE / NLL
over the folds of KFold(10, shuffle=True, random_state=0) beside the paper's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import KFold
from sklearn.preprocessing import MinMaxScaler

from pcegp import datasets
from pcegp.benchmarks.baselines.gpytorch_gps import ExactGP, adam
from pcegp.benchmarks.summary import paper_value
from pcegp.metrics import scores

METHODS = {"gp": False, "gp_ard": True}
TARGETS = ("standardised", "centred", "as it is")


def fold_scores(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, ard: bool, target: str
) -> dict[str, float]:
    """Score one model on one fold, in the units of the target."""
    inputs = MinMaxScaler((-1.0, 1.0)).fit(X[train])
    centre = 0.0 if target == "as it is" else y[train].mean()
    unit = y[train].std() if target == "standardised" else 1.0
    model = ExactGP(torch.from_numpy(inputs.transform(X[train])),
                    torch.from_numpy((y[train] - centre) / unit), ard)
    adam(model, learning_rate=0.1, max_iter=100)
    mean, variance = model.predict(torch.from_numpy(inputs.transform(X[test])))
    return scores(y[test], centre + unit * mean.numpy(), unit * np.sqrt(variance.numpy()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of CSV files")
    parser.add_argument("--only", default="yacht,slump,boston,heating,concrete")
    parser.add_argument("--folds", type=int, default=10, help="the first that many folds")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.only.split(","):
        data = datasets.load(name, args.data)
        X, y = data.X.to_numpy(), data.y.to_numpy()
        folds = list(KFold(10, shuffle=True, random_state=0).split(X))[: args.folds]
        for method, ard in METHODS.items():
            text = f"{name:9s}{method:7s} paper {paper_value(name, 'RMSE', method):.3f} / " \
                   f"{paper_value(name, 'NLL', method):.2f}"
            for target in TARGETS:
                found = [fold_scores(X, y, *fold, ard, target) for fold in folds]
                rmse, nll = (np.mean([each[key] for each in found]) for key in ("RMSE", "NLL"))
                text += f"  {target} {rmse:.3f} / {nll:.2f}"
            print(text, flush=True)


if __name__ == "__main__":
    main()
