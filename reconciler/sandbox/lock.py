"""One process serves a world's file; another one finds its URL and its pid in the lock beside it."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from reconciler.core.errors import ReconcilerError

_LOCK_NAP_S = 0.05


class Running(NamedTuple):
    """The process that serves a world's file."""

    url: str
    pid: int


def running_at(db: Path) -> Running | None:
    """The process that serves `db`; None when there is none, or it is not ready yet."""
    try:
        with os.fdopen(_opened(db, os.O_RDONLY)) as lock:
            if _try_lock(lock.fileno(), fcntl.LOCK_SH):
                return None
            url, _, pid = lock.read().partition(" ")
            return Running(url, int(pid)) if pid else None
    except FileNotFoundError:
        return None


@contextmanager
def locked(db: Path | None) -> Iterator[Callable[[str], None]]:
    """Hold the lock next to `db`, and give a function that writes the URL into it."""
    if db is None:
        yield lambda url: None
        return
    db.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(_opened(db, os.O_RDWR | os.O_CREAT), "r+") as lock:
        if not _try_lock(lock.fileno(), fcntl.LOCK_EX, attempts=3):
            url, _, _ = lock.read().partition(" ")
            raise ReconcilerError(
                f"another sandbox serves {db}{f' at {url}' if url else ''}",
                help="use that one, or stop it first",
            )

        def announce(url: str) -> None:
            lock.write(f"{url} {os.getpid()}")
            lock.flush()

        lock.truncate()
        try:
            yield announce
        finally:
            lock.truncate(0)


def _opened(db: Path, flags: int) -> int:
    """A descriptor of the lock. Raises FileNotFoundError, and ReconcilerError, also for a link."""
    path = db.with_name(f"{db.name}.lock")
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as failure:
        if failure.errno != errno.ELOOP:
            raise ReconcilerError(f"cannot open {path}: {failure.strerror}") from failure
        raise ReconcilerError(
            f"{path} is a symbolic link", help="remove it, or name another database"
        ) from None


def _try_lock(descriptor: int, kind: int, attempts: int = 1) -> bool:
    """Several attempts outlast `running_at`, which holds the lock for an instant to see if it is free."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(_LOCK_NAP_S)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
    return False
