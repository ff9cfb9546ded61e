"""Locks of the operating system on open files, which end with the process however that ends."""

import os
import sys

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FAR = 1 << 40  # bytes; Windows locks ranges, and this one holds no data


def lock(descriptor: int) -> None:
    """Lock a file until it is closed.

    Parameters
    ----------
    descriptor : int
        Of an open file.

    Raises
    ------
    BlockingIOError
        Another process has it.
    OSError
        There are no locks, as on some network disks.
    """
    if sys.platform == "win32":
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
