"""Holders that live as long as their process: an `Exclusion`, by a byte of the lock file for each lease."""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.core.errors import Locked
from reconciler.state.durable import make_private
from reconciler.state.log.lease_beats import Beat
from reconciler.state.places.sqlite import files, locks


class ByteHolders:
    """Those of one handle. `lock_file`: beside the state."""

    lease_s = math.inf
    poll_s = 0.2

    def __init__(self, lock_file: Path) -> None:
        self._lock_file = lock_file
        self._ours: set[str] = set()

    def begin(self, id: str) -> None:
        """Raises Locked where all bytes are taken: the state is being restored, or migrated."""
        if not locks.try_lock(self._lock_file, _byte(id)):
            raise Locked(self._lock_file.stem, "another process", 0)
        self._ours.add(id)

    def end(self, id: str) -> None:
        self._ours.remove(id)
        locks.unlock(self._lock_file, _byte(id))

    def rest_s(self, beat: Beat, tag: str) -> float | None:
        return None if locks.is_locked(self._lock_file, _byte(beat.id)) else 0.0

    def close(self) -> None:
        for id in list(self._ours):
            self.end(id)


@contextmanager
def nobody_else(path: Path) -> Iterator[None]:
    """Keep all leases of the state at `path` from being taken. Raises Locked while anybody has one."""
    lock_file = files.lock_path(path)
    make_private(lock_file.parent)
    if not locks.try_lock(lock_file, locks.ALL):
        raise Locked(path.name, "another process", 0)
    try:
        yield
    finally:
        locks.unlock(lock_file, locks.ALL)


def _byte(id: str) -> int:
    """One of so many that no two leases share it."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:7]) + 1
