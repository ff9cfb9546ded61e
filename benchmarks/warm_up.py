"""How many steps must see all rows of a long table, after a warm-up with some of them?

    python benchmarks/warm_up.py                              # Wine white: ten minutes on one core
    python benchmarks/warm_up.py --only airfoil --rows 450

Trains the earlier default (`optimizer="nadam"`) without draws on the first fold of KFold(10,
shuffle=True, random_state=0) and prints the scores that it would have if it ended earlier, from
the end of the warm-up on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import perf_counter

from sklearn.model_selection import KFold

from pcegp import PCEGPRegressor, datasets
from pcegp.errors import PCEGPWarning
from pcegp.metrics import scores

#: Steps in all; the warm-up has the first 300.
ENDS = (300, 310, 320, 330, 340, 360, 380, 400)


def compare(name: str, folder: Path | None, n_rows: int) -> None:
    """Train once, and score several ends."""
    data = datasets.load(name, folder)
    X, y = data.X.to_numpy(), data.y.to_numpy()
    train, test = next(KFold(10, shuffle=True, random_state=0).split(X))
    begin = perf_counter()
    model = PCEGPRegressor(optimizer="nadam", degree=2, max_interaction=None, warm_up_rows=n_rows,
                           checkpoints=ENDS).fit(X[train], y[train])
    print(f"{name}: {n_rows} of {len(train)} rows in the warm-up, {perf_counter() - begin:.0f} s")
    for end in ENDS:
        found = scores(y[test], *model.at_checkpoint(end).predict(X[test], return_std=True))
        print(f"  {end - ENDS[0]:3d} steps with all rows: RMSE {found['RMSE']:.3f}  "
              f"CRPS {found['CRPS']:.4f}  NLL {found['NLL']:6.3f}  "
              f"coverage {found['coverage95']:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of CSV files")
    parser.add_argument("--only", default="wine_white")
    parser.add_argument("--rows", type=int, default=2000, help="that the warm-up sees")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PCEGPWarning)  # test rows outside the training box
    for name in args.only.split(","):
        compare(name, args.data, args.rows)


if __name__ == "__main__":
    main()
