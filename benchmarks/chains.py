"""How long must the chain be that draws parameters?

    python benchmarks/chains.py
    python benchmarks/chains.py --only concrete --proposals 1,2,4

Trains the earlier default (`optimizer="nadam"`) on the first fold of KFold(10, shuffle=True,
random_state=0), and draws four times from chains of different length. Prints what the draws
typically add, in variances of the process, and NLL and 95 % coverage of the fold. With up to 2,000
rows a fit takes eight proposals for a draw, with more it takes two.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.model_selection import KFold

from pcegp import PCEGPRegressor, datasets
from pcegp.errors import PCEGPWarning
from pcegp.estimators import resolve
from pcegp.inference import with_uncertainty
from pcegp.metrics import scores
from pcegp.numerics import threads_for
from pcegp.training import Objective, hmc

EARLIER = {"optimizer": "nadam", "degree": 2, "max_interaction": None}


def compare(name: str, folder: Path | None, proposals: list[int]) -> None:
    """Train one model, and draw from several chains."""
    data = datasets.load(name, folder)
    X, y = data.X.to_numpy(), data.y.to_numpy()
    train, test = next(KFold(10, shuffle=True, random_state=0).split(X))
    model = PCEGPRegressor(**EARLIER).fit(X[train], y[train])
    fitted = model.model_
    (output,) = fitted.outputs
    base, options = output.base, fitted.options
    scales = resolve(model.get_params()).scales(base.process.n_inputs)

    def tell(label: str) -> None:
        found = scores(y[test], *model.predict(X[test], return_std=True))
        print(f"{name:10s} {label}  NLL {found['NLL']:.3f}  coverage {found['coverage95']:.3f}",
              flush=True)

    tell(f"{len(train)} rows, no draws")
    with threads_for(len(train)) as threads:
        likelihood = options.inference.bind(base.process, base.data, threads)
        objective = Objective.of(likelihood, options.priors, base.process.initial(scales))
        for count in proposals:
            hmc._BETWEEN = hmc._BETWEEN_WITH_MANY_ROWS = count
            begin = perf_counter()
            thetas = hmc.draw(objective, base.theta, 4, np.random.default_rng(0))
            spent = perf_counter() - begin
            posterior = with_uncertainty(base, likelihood, thetas)
            model.model_ = replace(fitted, outputs=(replace(output, posterior=posterior),))
            tell(f"{count:2d} proposals a draw, {spent:5.1f} s: usually "
                 f"{posterior.typical_ratio:.4f}")


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
