"""Leases that end with their process: a byte of a file each, so that a thousand need one descriptor.

POSIX record locks exclude other processes but not other users of the same process, and closing
any descriptor of the file drops them all; so one process keeps one descriptor and its own list.
"""

import fcntl
import hashlib
import math
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.core.errors import Locked
from reconciler.state.durable import make_private
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.places.sqlite import files


@dataclass
class _LockFile:
    descriptor: int
    held: set[int] = field(default_factory=set)


ALL = 0  # instead of a number: every byte at once, which excludes all other holders

# `struct flock`: its layout, and the order of its fields. Source: fcntl(2) of Linux, and of macOS and BSD.
_FLOCK = (
    ("hhqqi", ("type", "whence", "start", "len", "pid"))
    if sys.platform == "linux"
    else ("qqihh", ("start", "len", "pid", "type", "whence"))
)

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW

_guard = threading.Lock()
_open: dict[Path, _LockFile] = {}


class ByteHolders(Exclusion):
    """The holders of leases that one handle has taken: an `Exclusion`. `lock_file`: next to the state."""

    lease_s = math.inf

    def __init__(self, lock_file: Path) -> None:
        self._lock_file = lock_file
        self._ours: set[str] = set()

    def begin(self, id: str) -> None:
        """Raises Locked where all bytes are taken: the state is being restored, or migrated."""
        if not try_lock(self._lock_file, _byte(id)):
            raise Locked(self._lock_file.stem, "another process", 0)
        self._ours.add(id)

    def end(self, id: str) -> None:
        self._ours.remove(id)
        unlock(self._lock_file, _byte(id))

    def rest_s(self, beat: Beat, tag: str) -> float | None:
        return None if is_locked(self._lock_file, _byte(beat.id)) else 0.0

    def close(self) -> None:
        for id in list(self._ours):
            self.end(id)


@contextmanager
def nobody_else(path: Path) -> Iterator[None]:
    """Keep all leases of the state at `path` from being taken. Raises Locked while anybody has one."""
    lock_file = files.lock_path(path)
    make_private(lock_file.parent)
    if not try_lock(lock_file, ALL):
        raise Locked(path.name, "another process", 0)
    try:
        yield
    finally:
        unlock(lock_file, ALL)


def _byte(id: str) -> int:
    """One of so many that no two leases share it."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:7]) + 1


@contextmanager
def _opened(path: Path, create: int = 0) -> Iterator[_LockFile]:
    """The descriptor of this process, for one thread at a time; closed where it holds no byte in the end."""
    with _guard:
        file = _open.get(path)
        if file is None:
            file = _open[path] = _LockFile(os.open(path, _FLAGS | create, 0o600))
        try:
            yield file
        finally:
            if not file.held:
                del _open[path]
                os.close(file.descriptor)


def try_lock(path: Path, number: int) -> bool:
    """Take byte `number` (from 1; or ALL) of the file, created when missing; False when anybody holds it.

    Raises OSError when the file system has no locks.
    """
    with _opened(path, os.O_CREAT) as file:
        if not (file.held if number == ALL else file.held & {number, ALL}):
            with suppress(BlockingIOError, PermissionError):  # one of them says that another process holds it
                fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _length(number), number)
                file.held.add(number)
                return True
        return False


def is_locked(path: Path, number: int) -> bool:
    """Whether anybody holds byte `number`, this process included. Takes nothing: nobody is kept out by it."""
    with suppress(FileNotFoundError), _opened(path) as file:
        return bool(file.held & {number, ALL}) or _held_elsewhere(file.descriptor, number)
    return False


def _held_elsewhere(descriptor: int, number: int) -> bool:
    """Whether another process holds the byte."""
    form, names = _FLOCK
    asked = {"type": fcntl.F_WRLCK, "whence": os.SEEK_SET, "start": number, "len": 1, "pid": 0}
    packed = struct.pack(form, *(asked[name] for name in names))
    answer = struct.unpack(form, fcntl.fcntl(descriptor, fcntl.F_GETLK, packed))
    return bool(answer[names.index("type")] != fcntl.F_UNLCK)


def unlock(path: Path, number: int) -> None:
    """Give back a byte that `try_lock` took."""
    with _opened(path) as file:
        fcntl.lockf(file.descriptor, fcntl.LOCK_UN, _length(number), number)
        file.held.remove(number)


def _length(number: int) -> int:
    return 0 if number == ALL else 1  # 0 means all the rest
