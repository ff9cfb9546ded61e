"""Threads: never more than allowed, given back, safe beside others. Memory: asked for first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, get_ident
from time import sleep

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from pcegp import PCEGPRegressor
from pcegp.errors import OutOfMemoryError
from pcegp.numerics import Threads, resources, threads_for

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (310, 2))  # enough for two threads
Y = np.sin(5 * X[:, 0]) + 0.1 * RNG.normal(size=310)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def allowed():
    with threads_for(5000) as threads:
        return threads.count


def test_blas_keeps_to_one_thread_and_gets_its_own_back():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with threads_for(5000) as threads:
            assert threads.count == min(before)
            assert set(blas_threads()) == {1}
            with threads_for(5000) as inner:
                assert inner.count == threads.count
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


def test_small_matrices_and_n_jobs_limit_the_threads():
    with threadpool_limits(2, user_api="blas"):
        with threads_for(100) as threads:
            assert threads.count == 1
        with threads_for(5000, n_jobs=1) as threads:
            assert threads.count == 1
    with threadpool_limits(16, user_api="blas"):
        many = min(blas_threads())
        for n, most in ((299, 1), (300, 2), (1000, 6)):
            with threads_for(n) as threads:
                assert threads.count == min(many, most)


def test_a_limit_from_outside_is_kept():
    with threadpool_limits(1, user_api="blas"):
        assert allowed() == 1


def test_a_block_beside_another_thread_s_works_alone():
    with threadpool_limits(2, user_api="blas"), threads_for(5000), ThreadPoolExecutor(1) as pool:
        assert pool.submit(allowed).result() == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_task_runs_on_every_thread_at_once(count):
    threads, seen, barrier = Threads(count), set(), Barrier(count)

    def task():
        barrier.wait(60)
        seen.add(get_ident())

    threads.run_on_all(task)
    threads.close()
    assert len(seen) == count


def test_an_error_of_a_task_is_raised_and_the_threads_can_go_on():
    threads = Threads(2)
    with pytest.raises(ZeroDivisionError):
        threads.run_on_all(lambda: 1 / 0)
    threads.run_on_all(lambda: None)
    threads.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_an_interrupt_waits_for_the_helpers():
    """They write into arrays that are used again after the interrupt."""
    threads, main, done = Threads(2), get_ident(), []
    begun, interrupted = Event(), Event()

    def interrupt(*_):
        interrupted.set()
        raise KeyboardInterrupt

    def task():
        if get_ident() == main:
            assert begun.wait(60)
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # by then it waits for the helper
        else:
            begun.set()
            assert interrupted.wait(60)
            sleep(0.1)
            done.append(True)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run_on_all(task)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == [True]
    threads.close()


TRAININGS = {"lbfgs": {"degree": 1}, "nadam": {"n_draws": 1}}
every_training = pytest.mark.parametrize("optimizer", TRAININGS)


def coefficients(optimizer, n_jobs=None):
    settings = {"optimizer": optimizer, "max_iter": 5, "n_jobs": n_jobs, **TRAININGS[optimizer]}
    return PCEGPRegressor(**settings).fit(X, Y).model_.outputs[0].base.theta


@every_training
def test_one_and_two_threads_fit_the_same_coefficients(optimizer):
    with threadpool_limits(2, user_api="blas"):
        two = coefficients(optimizer, 2)
    np.testing.assert_array_equal(coefficients(optimizer, 1), two)


def test_joblib_workers_keep_to_their_share():
    counts = Parallel(n_jobs=2)(delayed(allowed)() for _ in range(2))
    assert max(counts) * 2 <= max(2, os.cpu_count() or 1)


@every_training
def test_joblib_workers_agree(optimizer):
    here = coefficients(optimizer)
    for theta in Parallel(n_jobs=2)(delayed(coefficients)(optimizer) for _ in range(2)):
        np.testing.assert_array_equal(theta, here)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@every_training
def test_a_forked_child_can_fit(optimizer):
    coefficients(optimizer)
    with threads_for(5000):
        child = os.fork()
        if child == 0:
            try:
                coefficients(optimizer)
            except BaseException:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# The kernel would refuse the allocation; the error is raised before it is asked.
LIMITED = """
import resource
import numpy as np
from pcegp import PCEGPRegressor
from pcegp.errors import OutOfMemoryError
X = np.random.default_rng(0).uniform(size=(60, 2))
PCEGPRegressor(max_iter=1).fit(X, X[:, 0])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000, resource.RLIM_INFINITY))
X = np.random.default_rng(0).uniform(size=(5000, 2))
try:
    PCEGPRegressor(max_iter=1, inference="exact").fit(X, X[:, 0])
except OutOfMemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process by ulimit -v")
def test_a_limit_of_the_process_is_seen_before_training():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True,
                          check=True)
    assert done.stdout.startswith("a fit of 5,000 rows needs 0.6 GB of memory, but only")


def test_more_rows_than_any_machine_holds_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(resources, "bytes_available", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="use fewer rows"):
        PCEGPRegressor().fit(np.zeros((20, 1)), np.zeros(20))


def test_where_nothing_is_known_nothing_is_refused(monkeypatch):
    for name in ("_of_machine", "_of_container", "_of_process"):
        monkeypatch.setattr(resources, name, lambda: None)
    assert resources.bytes_available() is None
    resources.check_memory(10**18, "a fit")


def test_this_machine_has_some_memory():
    assert resources.bytes_available() > 10**8
    assert resources._field(Path("/nowhere"), "x") is None
