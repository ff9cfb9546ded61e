"""Several processes on one study, for real: PostgreSQL on loopback, a kill, a Dask cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import joblib
import optuna
import pytest

from pcegp.errors import StorageError
from pcegp.search import records_of, storage
from pcegp.search.racing import wanted
from small_search import X, Y, outcome, quick, same, start_worker, wait_for

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

def postgres_binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    command = shutil.which("initdb")
    return Path(command).resolve().parent if command else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server of its own in a temporary folder; its URL."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server here: install Debian's package postgresql")
    as_user = {"user": "postgres"} if os.geteuid() == 0 else {}  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="pcegp-pg-"))
    if as_user:
        shutil.chown(folder, "postgres")
    data, port = folder / "data", free_port()

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **as_user)

    try:
        run(str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "pcegp", "-E", "UTF8")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
        run(str(binaries / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"),
            "-o", options, "start")
        yield f"postgresql+psycopg://pcegp@127.0.0.1:{port}/postgres"
        run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def study_at(url: str, name: str) -> optuna.Study | None:
    """The study in a database, as it stands; None if it was not made yet."""
    with storage.quiet_optuna():
        database = storage._database(url)
        if name in optuna.get_all_study_names(database):
            return optuna.load_study(study_name=name, storage=database)
    return None


def check_whole(study, n_trials):
    """Nothing is lost, nothing is left running, and every finalist has its folds."""
    records = records_of(study)
    assert [record.position for record in records] == list(range(n_trials))
    assert all(trial.state.is_finished() for trial in study.trials)
    assert {record.outcome for record in records} == {"complete", "pruned"}
    rungs = study.user_attrs["pcegp"]["rungs"]
    assert not wanted(records, rungs, "crps", more_to_come=False)


@pytest.mark.parametrize("server", ["postgresql", "sqlite"])
def test_two_processes_share_a_study(server, request, tmp_path):
    if server == "postgresql":
        url = request.getfixturevalue("postgres")
    else:
        url = f"sqlite:///{tmp_path / 'study.db'}"
    workers = [start_worker(url, 14, pause=0.02) for _ in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    check_whole(study_at(url, "shared"), 14)


def test_a_killed_process_is_noticed_and_its_trials_are_carried_on(postgres):
    victim = start_worker(postgres, 8, "killed", pause=0.2)

    def running():
        """Its trials that have a result already."""
        study = study_at(postgres, "killed")
        found = study.trials if study is not None else []
        return [t for t in found if t.state.name == "RUNNING" and "fold 0" in t.user_attrs]

    def is_held_in_a_trial():
        victim.send_signal(signal.SIGSTOP)  # it would go on while it is looked at
        if running():
            return True
        victim.send_signal(signal.SIGCONT)
        time.sleep(0.2)  # it must come forward between two looks
        return False

    wait_for(is_held_in_a_trial, victim)
    left = running()
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert start_worker(postgres, 8, "killed").wait() == 0
    study = study_at(postgres, "killed")
    check_whole(study, 8)
    trials = study.trials
    for trial in left:
        assert trials[trial.number].state.name == "FAIL"
        retry = max((t for t in trials if trial.number in t.system_attrs.get("retry_history", ())),
                    key=lambda t: len(t.system_attrs["retry_history"]))
        assert retry.params == trial.params
        # With the seconds that each took: what is in the database is not computed again.
        assert trial.user_attrs.items() <= retry.user_attrs.items()


def test_a_wrong_database_is_refused_before_training(postgres):
    postgres = postgres.replace("+psycopg", "")  # the plain form works as well
    quick(storage=postgres, study="plain", n_trials=1).fit(X, Y)
    with pytest.raises(StorageError, match="does not exist"):
        quick(storage=postgres.replace("/postgres", "/nosuch"), study="x").fit(X, Y)


def test_sqlite_works_as_well(tmp_path):
    search = quick(storage=f"sqlite:///{tmp_path / 'study.db'}", study="s").fit(X, Y)
    assert same(outcome(search), outcome(quick().fit(X, Y)))


@pytest.mark.filterwarnings("ignore")  # of Dask's own set-up
def test_folds_run_on_a_dask_cluster():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        joblib.parallel_config("dask", wait_for_workers_timeout=60),
    ):
        search = quick(n_trials=6).fit(X, Y)
        ran = client.run(lambda: "pcegp.search.evaluation" in sys.modules)
    assert any(ran.values())
    assert same(outcome(search), outcome(quick(n_trials=6).fit(X, Y)))


def test_the_dashboard_shows_the_study(tmp_path):
    file = tmp_path / "study.journal"
    quick(storage=file, study="plant", n_trials=2).fit(X, Y)
    port = free_port()
    server = subprocess.Popen(
        [str(Path(sys.executable).parent / "optuna-dashboard"), str(file), "--port", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )

    def answer() -> str:
        try:
            address = f"http://127.0.0.1:{port}/api/studies"
            with urllib.request.urlopen(address) as reply:
                return str(reply.read().decode())
        except OSError:
            return ""

    try:
        wait_for(lambda: "plant" in answer())
    finally:
        server.kill()
        server.wait()
