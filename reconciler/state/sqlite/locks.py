"""Locks that die with their process: one byte of a file each, so that a thousand need one descriptor.

POSIX record locks exclude other processes but not other users of the same process, and closing
any descriptor of the file drops them all; so one process keeps one descriptor and its own list.
"""

import errno
import fcntl
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class _LockFile:
    descriptor: int
    held: set[int] = field(default_factory=set)


ALL = 0  # instead of a number: every byte at once, which excludes all other holders

_guard = threading.Lock()
_open: dict[Path, _LockFile] = {}


def try_lock(path: Path, number: int) -> bool:
    """Take byte `number` (from 1; or ALL) of the file, created when missing; False when anybody holds it.

    Raises OSError when the file system has no locks.
    """
    with _guard:
        file = _open.get(path)
        if file is None:
            file = _open[path] = _LockFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            taken = bool(file.held) if number == ALL else bool(file.held & {number, ALL})
            if taken or not _lock_byte(file.descriptor, number):
                return False
            file.held.add(number)
            return True
        finally:
            _close_if_unused(path, file)


def unlock(path: Path, number: int) -> None:
    """Give back a byte that `try_lock` took."""
    with _guard:
        file = _open[path]
        fcntl.lockf(file.descriptor, fcntl.LOCK_UN, _length(number), number)
        file.held.remove(number)
        _close_if_unused(path, file)


def _lock_byte(descriptor: int, number: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _length(number), number)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _length(number: int) -> int:
    return 0 if number == ALL else 1  # 0 means all the rest


def _close_if_unused(path: Path, file: _LockFile) -> None:
    if not file.held:
        del _open[path]
        os.close(file.descriptor)
