"""A fit that does not fit says so before it starts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import OutOfMemoryError
from pcegp.numerics import memory

LIMITED = """
import resource, sys, time
import numpy as np
from pcegp import PCEGPRegressor
from pcegp.errors import OutOfMemoryError
X = np.random.default_rng(0).uniform(size=(60, 2))
PCEGPRegressor(max_iter=1).fit(X, X[:, 0])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000, resource.RLIM_INFINITY))
X = np.random.default_rng(0).uniform(size=(5000, 2))
begin = time.perf_counter()
try:
    PCEGPRegressor(max_iter=1).fit(X, X[:, 0])
except OutOfMemoryError as error:
    print(time.perf_counter() - begin < 1.0, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process by ulimit -v")
def test_a_limit_of_the_process_is_seen_before_training():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True,
                          check=True)
    assert done.stdout.startswith("True a fit of 5,000 rows needs 0.6 GB of memory, but only")


def test_more_rows_than_any_machine_holds_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(memory, "bytes_available", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="use fewer rows"):
        PCEGPRegressor().fit(np.zeros((20, 1)), np.zeros(20))


def test_where_nothing_is_known_nothing_is_refused(monkeypatch):
    for name in ("_of_machine", "_of_container", "_of_process"):
        monkeypatch.setattr(memory, name, lambda: None)
    assert memory.bytes_available() is None
    memory.check_memory(10**6)


def test_this_machine_has_some_memory():
    assert memory.bytes_available() > 10**8
    assert memory._field(memory.Path("/nowhere"), "x") is None
