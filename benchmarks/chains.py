"""How long must the chain be that draws parameters?

    python benchmarks/chains.py
    python benchmarks/chains.py --only concrete --proposals 1,2,4

Trains the default model on the first fold of KFold(10, shuffle=True, random_state=0), and draws
four times from chains of different length. Prints what the draws usually leave open, in variances
of the process, and NLL and 95 % coverage of the fold. With up to 2,000 rows a fit takes eight
proposals for a draw, with more it takes two.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.model_selection import KFold

from pcegp import PCEGPRegressor, datasets
from pcegp.errors import PCEGPWarning
from pcegp.estimators import settings
from pcegp.inference.exact import with_draws
from pcegp.kernels.process import Likelihood
from pcegp.metrics import scores
from pcegp.numerics.threads import workers
from pcegp.training import hmc as draws
from pcegp.training import starts
from pcegp.training.optimiser import Run


def compare(name: str, folder: Path | None, proposals: list[int]) -> None:
    """One model, several chains."""
    data = datasets.load(name, folder)
    X, y = data.X.to_numpy(), data.y.to_numpy()
    train, test = next(KFold(10, shuffle=True, random_state=0).split(X))
    model = PCEGPRegressor(n_draws=0).fit(X[train], y[train])
    posterior = model.posteriors_[0]
    scales = starts.initial_scales(None, len(posterior.structure.covariances), X.shape[1])
    anchor = starts.start(posterior.structure, scales)
    options = settings.resolve(model.get_params()).training

    def tell(label: str) -> None:
        found = scores(y[test], *model.predict(X[test], return_std=True))
        print(f"{name:10s} {label}  NLL {found['NLL']:.3f}  coverage {found['coverage95']:.3f}",
              flush=True)

    tell(f"{len(train)} rows, no draws")
    with workers(len(train)) as crew:
        likelihood = Likelihood(posterior.structure, posterior.X, posterior.y, posterior.weights,
                                crew)
        run = Run(likelihood, options, posterior.theta, anchor)
        for count in proposals:
            draws._BETWEEN = draws._BETWEEN_WITH_MANY_ROWS = count
            begin = perf_counter()
            thetas = draws.draw(run, posterior.theta, 4, np.random.default_rng(0))
            spent = perf_counter() - begin
            model.posteriors_ = [with_draws(posterior, likelihood, thetas)]
            usual = model.posteriors_[0].draws.usual
            tell(f"{count:2d} proposals a draw, {spent:5.1f} s: usually {usual:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of CSV files")
    parser.add_argument("--only", default="concrete,airfoil,wine_red")
    parser.add_argument("--proposals", default="1,2,4,8,16")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PCEGPWarning)  # test rows outside the training box
    for name in args.only.split(","):
        compare(name, args.data, [int(count) for count in args.proposals.split(",")])


if __name__ == "__main__":
    main()
