"""How much memory a fit needs, and how much there is; asked before anything is allocated."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pcegp.errors import OutOfMemoryError

# Matrices of n x n numbers that training holds at its peak (docs/speed.md).
_MATRICES = 3.2


def bytes_needed(n_rows: int) -> int:
    """Memory that a fit of that many rows takes, beside its polynomial basis."""
    return int(8 * _MATRICES * n_rows**2)


def bytes_available() -> int | None:
    """Memory this process may still take, or None where that cannot be known."""
    limits = (_of_machine(), _of_container(), _of_process())
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(n_rows: int) -> None:
    """Refuse a fit that does not fit."""
    needed, available = bytes_needed(n_rows), bytes_available()
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"a fit of {n_rows:,} rows needs {needed / 1e9:.1f} GB of memory, but only "
            f"{available / 1e9:.1f} GB are free: use fewer rows or another machine"
        )


def _field(path: Path, name: str) -> int | None:
    """A line such as "MemAvailable:  123 kB", in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text(encoding="ascii", errors="ignore").splitlines():
            if line.startswith(name):
                return 1024 * int(line.split()[1])
    return None


def _of_machine() -> int | None:
    return _field(Path("/proc/meminfo"), "MemAvailable")


def _of_container() -> int | None:
    """What the control group (version 2) of a container leaves."""
    folder = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        limit = (folder / "memory.max").read_text().strip()
        if limit != "max":
            return int(limit) - int((folder / "memory.current").read_text())
    return None


def _of_process() -> int | None:
    """What `ulimit -v` leaves."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    used = _field(Path("/proc/self/status"), "VmSize")
    return limit - used if used is not None else limit
