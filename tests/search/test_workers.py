"""Several workers on one study, for real: PostgreSQL on loopback, a kill, a Dask cluster."""

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
from dataclasses import replace
from pathlib import Path

import joblib
import optuna
import pytest

from pcegp.errors import StorageError
from pcegp.search.storage import open_storage
from pcegp.search.trials import records_of
from small_search import SMALL, WORKER, X, Y, outcome, quick, same, small, start_worker

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

HERE = Path(__file__).parents[1]


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


def trials(url: str, study: str = "shared") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=study, storage=open_storage(url)).trials


def wait_for(what, seconds=120.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_two_workers_on_one_study_in_postgresql(postgres):
    workers = [start_worker(postgres, 14) for _ in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    found = trials(postgres)
    assert 14 <= len(found) <= 16  # both may ask for the last one at the same moment
    assert all(trial.state.is_finished() for trial in found)
    assert len({trial.user_attrs["worker"] for trial in found}) == 2
    search = quick(storage=postgres, study="shared", n_trials=14).fit(X, Y)
    assert [record.slot for record in records_of(search.study_)] == list(range(14))


SLOW = WORKER.replace("quick(", "slow(").replace(
    "import X, Y, quick", "import X, Y\nfrom test_workers import slow"
)


def slow(**changes):
    """A search with folds that take long enough to be killed in."""

    def suggest(trial):
        time.sleep(0.05)
        return {**small(trial), "max_iter": 150, "checkpoints": (150,)}

    suggest.__qualname__ = "slow"
    return quick(space=replace(SMALL, suggest=suggest, batch_size=2), **changes)


def test_a_killed_worker_is_noticed_and_its_trial_repeated(postgres):
    study = "killed"
    command = [sys.executable, "-c", SLOW.replace('study="shared"', f'study="{study}"'), str(HERE),
               postgres]
    victim = subprocess.Popen([*command, "8"])

    def is_in_a_trial():
        return study in optuna.get_all_study_names(open_storage(postgres)) and any(
            trial.state.name == "RUNNING" and any(key.startswith(("screen", "fold"))
                                                  for key in trial.user_attrs)
            for trial in trials(postgres, study)
        )

    def is_held_in_a_trial():
        victim.send_signal(signal.SIGSTOP)  # it would go on while it is looked at
        if is_in_a_trial():
            return True
        victim.send_signal(signal.SIGCONT)
        return False

    wait_for(is_held_in_a_trial)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    before = trials(postgres, study)
    left = [trial for trial in before if trial.state.name == "RUNNING"]
    done = {t.number: t.values for t in before if t.state.is_finished()}
    assert left
    worker = subprocess.Popen([*command, "8"])
    assert worker.wait(timeout=120) == 0
    after = {trial.number: trial for trial in trials(postgres, study)}
    repeated = {trial.user_attrs.get("repeats"): trial for trial in after.values()}
    for trial in left:
        assert after[trial.number].state.name == "FAIL"
        if "settings" in trial.user_attrs:  # else it had only just been asked for
            assert repeated[trial.number].state.is_finished()
            assert repeated[trial.number].params == trial.params
    assert all(after[number].values == values for number, values in done.items())
    kept = [trial for number, trial in after.items() if number not in {t.number for t in left}]
    assert sorted(trial.user_attrs["slot"] for trial in kept) == list(range(8))


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
