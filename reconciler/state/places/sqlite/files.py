"""The files of a SQLite state: `state.db`, and next to it `state.db.key`, `state.db.lock`, `state.db.seen`.

New files appear complete or not at all, readable by their owner only; SQLite gives
its `-wal` and `-shm` the permissions of the database.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.durable import sync
from reconciler.state.encryption.older import is_older

KEY_BYTES = 32

_RESTORE = command("state", "restore")


def state_exists(path: Path) -> bool:
    """Raises StoreError when only the rest of a state is there: it holds commits that must not be lost."""
    if path.exists():
        return True
    wal = beside(path, "-wal")
    if wal.exists():
        raise StoreError(
            f"the state {path} is missing, but {wal} with its newest changes still exists",
            help=f"put {path.name} back, or remove {wal.name} to start without a state",
        )
    backups = beside(path, ".backups")
    if any(backups.glob("*.db")):
        raise StoreError(
            f"the state {path} is missing, but its backups in {backups} still exist",
            help=f"`{_RESTORE}` restores the newest good one; to start without a state, move the backups "
            "away",
            advice=(_RESTORE,),
        )
    return False


def traces_of(path: Path) -> list[Path]:
    """Files next to `path` that show that a state was there."""
    left = [key_path(path), spool_path(path), seen_path(path)]
    return [trace for trace in left if trace.exists()] + sorted(path.parent.glob(f"{path.name}.damaged-*"))


def read_key(path: Path, *, sealed: bool = False) -> bytes | None:
    """The fingerprint key of the state at `path`; None when there is none.

    `sealed`: it may be that of an encrypted state, too. Raises StoreError when it is not a key of 32 bytes.
    """
    file = key_path(path)
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        return None
    if is_older(key):
        if sealed:
            return key
        raise StoreError(
            f"{path} is the backup of an encrypted state, which cannot be used in a file",
            help=f"`{_RESTORE}` brings it to a shared place without a state",
            advice=(_RESTORE,),
        )
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"{file} does not contain a fingerprint key of {KEY_BYTES} bytes",
            help=f"`{_RESTORE}` restores it from a backup",
            advice=(_RESTORE,),
        )
    return key


def create_key(path: Path, key: bytes) -> bytes:
    """The key of the state at `path`: `key`, unless another process was faster."""
    with suppress(FileExistsError):
        create(key_path(path), lambda new: new.write_bytes(key))
    return read_key(path, sealed=True) or key


def key_digest(key: bytes | None) -> bytes:
    """What the root of the state says of its key, which is not in the same file; b"" for none."""
    return hashlib.sha256(key).digest() if key else b""


def create(path: Path, fill: Callable[[Path], object]) -> None:
    """A file at `path` that `fill` has filled. Raises FileExistsError where another process was faster."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.new-", dir=path.parent)  # mode 0600
    os.close(descriptor)
    new = Path(name)
    try:
        fill(new)
        sync(new)
        path.hardlink_to(new)  # not a rename: it never replaces what another process has created meanwhile
    finally:
        for leftover in (new, beside(new, "-journal")):
            leftover.unlink(missing_ok=True)
        sync(path.parent)


def key_path(path: Path) -> Path:
    return beside(path, ".key")


def seen_path(path: Path) -> Path:
    return beside(path, ".seen")


def spool_path(path: Path) -> Path:
    return beside(path, ".spool")


def lock_path(path: Path) -> Path:
    """Resolved, so that two spellings of one state's path exclude each other."""
    return beside(path.resolve(), ".lock")


@lru_cache(maxsize=64)
def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
