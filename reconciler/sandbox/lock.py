"""One process serves a world's file; another one that wants it finds its URL in the lock beside the file."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.core.errors import ReconcilerError

_LOCK_NAP_S = 0.05


def running_at(db: Path) -> str | None:
    """The URL of the process that serves `db`; None when there is none, or it is not ready yet."""
    try:
        with _lock_path(db).open() as lock:
            if _try_lock(lock.fileno(), fcntl.LOCK_SH):
                return None
            return lock.read().strip() or None
    except FileNotFoundError:
        return None


@contextmanager
def locked(db: Path | None) -> Iterator[Callable[[str], None]]:
    """Hold the lock next to `db`, and give a function that writes the URL into it."""
    if db is None:
        yield lambda url: None
        return
    db.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(_lock_path(db), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        if not _try_lock(lock.fileno(), fcntl.LOCK_EX, attempts=3):
            url = lock.read().strip()
            raise ReconcilerError(
                f"another sandbox serves {db}{f' at {url}' if url else ''}",
                help="use that one, or end it first",
            )

        def announce(url: str) -> None:
            lock.write(url)
            lock.flush()

        lock.truncate()
        try:
            yield announce
        finally:
            lock.truncate(0)


def _lock_path(db: Path) -> Path:
    return db.with_name(f"{db.name}.lock")


def _try_lock(descriptor: int, kind: int, attempts: int = 1) -> bool:
    """Several attempts outlast `running_at`, which holds the lock for an instant to see if it is free."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(_LOCK_NAP_S)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
    return False
