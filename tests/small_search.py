"""A search whose trials take milliseconds, for several test modules and their workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from pcegp import PCEGPSearchCV
from pcegp.search import spaces

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (40, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * RNG.normal(size=40)


def small(trial):
    """A space whose trials take milliseconds."""
    return {
        "scale": trial.suggest_categorical("scale", ["shared", "per_input"]),
        "degree": trial.suggest_int("degree", 0, 2),
        "penalty": trial.suggest_float("penalty", 0.1, 10.0, log=True),
        "max_iter": 8,
        "checkpoints": (4, 8),
    }


SMALL = spaces.Space(small, n_random=4)  # so that TPE gets to work


def quick(**changes):
    return PCEGPSearchCV(**{"space": SMALL, "n_trials": 10, "cv": 6, **changes})


def outcome(search):
    """What must not depend on jobs, kills or pauses."""
    table = search.cv_results_
    names = ["state", "n_folds", "steps", "mean_test_crps", "screen_crps"]
    return [table["params"], *(np.asarray(table[name]).tolist() for name in names)]


def same(one, other):
    return repr(one) == repr(other)  # NaN equals NaN


WORKER = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
from small_search import X, Y, quick
warnings.simplefilter("ignore")
quick(storage=sys.argv[2], study="shared", n_trials=int(sys.argv[3])).fit(X, Y)
"""


def start_worker(storage, n_trials=10):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(Path(__file__).parent), str(storage), str(n_trials)]
    )
