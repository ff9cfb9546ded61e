"""The thread policy: never more than allowed, given back, safe beside and inside others."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident
from time import sleep

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from pcegp import PCEGPRegressor
from pcegp.numerics.threads import Workers, workers

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
Y = np.sin(5 * X[:, 0]) + 0.1 * RNG.normal(size=400)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def allowed():
    with workers(5000) as crew:
        return crew.count


def test_blas_keeps_to_one_thread_and_gets_its_own_back():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with workers(5000) as crew:
            assert crew.count == min(before)
            assert set(blas_threads()) == {1}
            with workers(5000) as inner:
                assert inner.count == crew.count
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


def test_small_matrices_and_n_jobs_limit_the_threads():
    with threadpool_limits(2, user_api="blas"):
        with workers(100) as crew:
            assert crew.count == 1
        with workers(5000, n_jobs=1) as crew:
            assert crew.count == 1
    with threadpool_limits(16, user_api="blas"):
        many = min(blas_threads())
        for n, most in ((299, 1), (300, 2), (1000, 6)):
            with workers(n) as crew:
                assert crew.count == min(many, most)


def test_a_limit_from_outside_is_kept():
    with threadpool_limits(1, user_api="blas"):
        assert allowed() == 1


def test_a_block_beside_another_thread_s_works_alone():
    with threadpool_limits(2, user_api="blas"), workers(5000), ThreadPoolExecutor(1) as pool:
        assert pool.submit(allowed).result() == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_task_runs_on_every_thread_at_once(count):
    crew, seen, barrier = Workers(count), set(), Barrier(count)

    def task():
        barrier.wait(10)
        seen.add(get_ident())

    crew.together(task)
    crew.close()
    assert len(seen) == count


def test_an_error_of_a_task_is_raised_and_the_crew_can_go_on():
    crew = Workers(2)
    with pytest.raises(ZeroDivisionError):
        crew.together(lambda: 1 / 0)
    crew.together(lambda: None)
    crew.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_an_interrupt_waits_for_the_helpers():
    """They write into arrays that are used again after the interrupt."""
    crew, main, done = Workers(2), get_ident(), []

    def task():
        if get_ident() != main:
            sleep(0.5)
            done.append(True)
        else:
            sleep(0.05)  # the helper has begun

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            crew.together(task)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == [True]
    crew.close()


def coefficients(n_jobs=None):
    model = PCEGPRegressor(max_iter=60, n_jobs=n_jobs).fit(X, Y)
    return model.posteriors_[0].theta


def test_one_and_two_threads_fit_the_same_coefficients():
    with threadpool_limits(2, user_api="blas"):
        two = coefficients(2)
    np.testing.assert_array_equal(coefficients(1), two)


def test_joblib_workers_keep_to_their_share_and_agree():
    counts = Parallel(n_jobs=2)(delayed(allowed)() for _ in range(2))
    assert max(counts) * 2 <= max(2, os.cpu_count() or 1)
    for theta in Parallel(n_jobs=2)(delayed(coefficients)() for _ in range(2)):
        np.testing.assert_array_equal(theta, coefficients())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_fit():
    coefficients()
    with workers(5000):
        child = os.fork()
        if child == 0:
            try:
                coefficients()
            except BaseException:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
