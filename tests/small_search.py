"""A search whose trials take milliseconds, for several test modules and their workers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from pcegp import PCEGPSearchCV
from pcegp.search import spaces

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (40, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * RNG.normal(size=40)


PAUSE = 0.0  # seconds


def small(trial):
    """A space whose trials take milliseconds."""
    time.sleep(PAUSE)
    return {
        "scale": trial.suggest_categorical("scale", ["shared", "per_input"]),
        "degree": trial.suggest_int("degree", 0, 2),
        "penalty": trial.suggest_float("penalty", 0.1, 10.0, log=True),
        "optimizer": "nadam",
        "max_iter": 8,
        "checkpoints": (4, 8),
    }


SMALL = spaces.Space(small, n_random=4)  # so that TPE gets to work


def quick(**changes):
    return PCEGPSearchCV(**{"space": SMALL, "n_trials": 10, "cv": 6, **changes})


def outcome(search):
    """What must not depend on jobs, kills or pauses."""
    table = search.cv_results_
    names = ["state", "n_folds", "steps", "mean_test_crps", "pilot_crps"]
    return [table["params"], *(np.asarray(table[name]).tolist() for name in names)]


def same(one, other):
    return repr(one) == repr(other)  # NaN equals NaN


WORKER = """
import sys, time, warnings
sys.path.insert(0, sys.argv[1])
from pcegp.search import storage
from small_search import X, Y, quick
import small_search
warnings.simplefilter("ignore")
storage.HEARTBEAT_INTERVAL, storage.HEARTBEAT_GRACE = 1, 5
small_search.PAUSE = float(sys.argv[5])
quick(storage=sys.argv[2], study=sys.argv[3], n_trials=int(sys.argv[4])).fit(X, Y)
"""


def start_worker(storage, n_trials=10, study="shared", pause=0.0):
    """A search in a process of its own; it sleeps a little at each suggestion, if asked to."""
    arguments = [Path(__file__).parent, storage, study, n_trials, pause]
    return subprocess.Popen([sys.executable, "-c", WORKER, *map(str, arguments)])


def wait_for(what, worker=None):
    """Wait until something is true; only a worker that has ended, or an hour, ends it early."""
    end = time.monotonic() + 3600.0
    while not what():
        assert time.monotonic() < end, "it did not happen"
        assert worker is None or worker.poll() is None or what(), "the worker has ended"
        time.sleep(0.005)
