"""Folds of the benchmark on processes and on Dask clusters, also on those that break."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest
from typer.testing import CliRunner

from pcegp.benchmarks import executors, protocols, reproduce
from pcegp.benchmarks.results_file import ResultsFile, key_of
from pcegp.cli import app
from pcegp.errors import SettingError
from small_benchmark import plan_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own set-up


def cluster_of(n_workers: int, n_threads: int = 1):
    from distributed import LocalCluster

    return LocalCluster(n_workers=n_workers, threads_per_worker=n_threads, dashboard_address=None)


def test_a_process_that_was_killed_is_one_sentence(tmp_path, monkeypatch):
    this = os.getpid()

    def killed(*_):
        assert os.getpid() != this
        os.kill(os.getpid(), signal.SIGKILL)

    plan = plan_of(tmp_path, data=["slump", "yacht"])
    monkeypatch.setattr(protocols, "fold_row", killed)
    with pytest.raises(MemoryError, match="fewer --jobs; the same command goes on"):
        protocols.run(plan, ResultsFile(tmp_path / "results.jsonl"), jobs=2)


def test_folds_run_on_a_dask_cluster(tmp_path):
    """The same scores as here; a mixture's members are trained where its fold is."""
    from distributed import Client

    results = ResultsFile(tmp_path / "results.jsonl")
    alone = ResultsFile(tmp_path / "alone.jsonl")
    changes = {"methods": ["forest", "pcegp", "pcegp_mixture"], "data": ["slump", "yacht"]}
    with cluster_of(2) as cluster:
        protocols.run(plan_of(tmp_path, **changes, shares_folder=False), results, jobs=1,
                      dask=cluster.scheduler_address)
        with Client(cluster) as client:
            ran = client.run(lambda: "pcegp.benchmarks.protocols" in sys.modules)
    assert any(ran.values())
    protocols.run(plan_of(tmp_path, **changes), alone, jobs=1)
    assert len(alone.rows) == 6
    found = {key_of(row): row["RMSE"] for row in results.rows}
    assert found == {key_of(row): row["RMSE"] for row in alone.rows}


def test_a_worker_that_dask_gives_up_is_one_sentence():
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        cluster_of(1) as cluster,
        pytest.raises(MemoryError, match="give Dask's workers more; the same command goes on"),
        executors.workers(1, cluster.scheduler_address) as spread,
    ):
        list(spread(signal.raise_signal, [signal.SIGKILL]))


def test_a_scheduler_that_goes_away_is_one_sentence():
    cluster = cluster_of(1)

    def close_after_the_first() -> None:
        with executors.workers(1, cluster.scheduler_address) as spread:
            for _ in spread(time.sleep, [0.0, 60.0]):
                threading.Thread(target=cluster.close).start()

    with pytest.raises(ConnectionError, match="is gone: start it"):
        close_after_the_first()


@pytest.mark.parametrize(("n_workers", "n_threads", "what"), [
    (0, 1, "has no workers; start some"), (1, 2, "--nthreads 1"),
])
def test_a_cluster_that_cannot_work_is_refused(monkeypatch, n_workers, n_threads, what):
    if not n_workers:  # for those that will come, there is time
        monkeypatch.setattr(executors, "_SECONDS_TO_ANSWER", 2)
    with (
        cluster_of(n_workers, n_threads) as cluster,
        pytest.raises(SettingError, match=what),
        executors.workers(1, cluster.scheduler_address),
    ):
        pass


def test_workers_of_another_version_are_refused(monkeypatch):
    monkeypatch.setattr(executors, "__version__", "9.9")
    with (
        cluster_of(1) as cluster,
        pytest.raises(SettingError, match=r"has pcegp 0.* 9\.9 there"),
        executors.workers(1, cluster.scheduler_address),
    ):
        pass


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce.toy, "main", lambda *_: pytest.fail("too late"))
    monkeypatch.setattr(executors, "_SECONDS_TO_ANSWER", 0.5)
    for address in ("foo://bar", "tcp://127.0.0.1:9"):
        result = CliRunner().invoke(app, [
            "reproduce", "--budget", "smoke", "--only", "higdon", "--dask", address, "--out",
            str(tmp_path)])
        assert result.exit_code == 1
        assert f"--dask {address}: no scheduler answers" in result.output
