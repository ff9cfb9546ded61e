"""Who computes folds: processes of this machine, or the workers of a Dask cluster."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from joblib import Parallel, delayed, parallel_config

from pcegp import __version__
from pcegp.errors import SettingError, needed

#: Calls a function for every item, many at the same time; results come as they are ready.
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

_SECONDS_TO_ANSWER = 10  # for a Dask scheduler and its first worker


@contextmanager
def workers(jobs: int, address: str | None) -> Iterator[Spread]:
    """Take so many processes, or the Dask cluster at an address; refused if it cannot work."""
    if address is None:
        try:
            yield _over_processes(jobs)
        except BrokenProcessPool as error:
            raise _killed("take fewer --jobs") from error
        return
    distributed = needed("distributed", "--dask")
    # Searches spread their own folds, by joblib.
    with _client(distributed, address) as client, parallel_config(backend="dask"):
        try:
            yield _over_cluster(distributed, client)
        except distributed.KilledWorker as error:
            raise _killed("give Dask's workers more") from error
        except CancelledError as error:
            raise ConnectionError(f"the Dask scheduler at {address} is gone: start it and its "
                                  "workers; the same command goes on") from error


def _over_processes(jobs: int) -> Spread:
    def spread(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        # One by one: a batch would keep its first results until its last one is there.
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from pool(delayed(function)(item) for item in items)

    return spread


def _over_cluster(distributed: Any, client: Any) -> Spread:
    """Use Dask's own futures: joblib never learns of a worker that was given up, and waits."""
    def spread(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        futures = client.map(function, list(items), pure=False)
        for future in distributed.as_completed(futures):
            yield future.result()

    return spread


def _client(distributed: Any, address: str) -> Any:
    """Connect to a cluster that has workers, and this package on all of them."""
    try:
        client = distributed.Client(address, timeout=_SECONDS_TO_ANSWER)
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SettingError(f"--dask {address}: no scheduler answers there ({reason}); give the "
                           "address that it prints, such as tcp://host:8786") from None
    try:
        _check(client, address)
    except BaseException:
        client.close()
        raise
    return client


def _check(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_SECONDS_TO_ANSWER)
    except TimeoutError:
        raise SettingError(f"--dask {address}: the scheduler has no workers; start some with "
                           f"dask worker {address} --nthreads 1") from None
    if max(client.nthreads().values()) > 1:
        raise SettingError(f"--dask {address}: a worker has several threads, whose folds would "
                           "disturb each other; start workers with --nthreads 1")
    versions = client.run(metadata.version, "pcegp", on_error="return")
    for worker, version in versions.items():
        if version != __version__:
            found = "no pcegp" if isinstance(version, Exception) else f"pcegp {version}"
            raise SettingError(f"--dask {address}: worker {worker} has {found}; install "
                               f"'pcegp[bench]' {__version__} there")


def _killed(remedy: str) -> MemoryError:
    return MemoryError(f"a worker was ended from outside, probably for its memory: {remedy}; the "
                       "same command goes on")
