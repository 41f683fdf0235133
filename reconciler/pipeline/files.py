"""Files that a person names: read whole, and written complete or not at all, never through a link."""

import os
import stat
from pathlib import Path

from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SUFFIXES
from reconciler.manifests.writing.replace import Replacement, mode_of_new, replace_files

_SQLITE = b"SQLite format 3\0"
_BESIDE_A_STATE = (".key", ".lock", ".seen", ".spool", "-wal", "-shm", "-journal")


def read_file(path: Path) -> bytes:
    """Raises ReconcilerError."""
    try:
        return path.read_bytes()
    except OSError as failure:
        raise ReconcilerError(f"cannot read {path}: {failure.strerror}") from failure


def write_output(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` in the place of `path`. `mode`: None gives it that of a new file. Raises ReconcilerError."""
    replace_files([Replacement(path, data)], mode=mode_of_new() if mode is None else mode)


def write_new(path: Path, data: bytes, *, help: str, mode: int | None = None) -> None:
    """Make `path`. Raises ReconcilerError, with `help`, where anything is there already."""
    if os.path.lexists(path):
        raise ReconcilerError(f"{path} exists already", help=help)
    replace_files([Replacement(path, data, new=True)], mode=mode)


def why_not_written(path: Path) -> str:
    """Why what stands at `path` must not be replaced by a report or a plan; "" where it may be."""
    if not os.path.lexists(path):
        return ""
    if not stat.S_ISREG(path.lstat().st_mode):
        return "is not a regular file"
    if path.suffix in SUFFIXES:
        return "has the name of a manifest, or of settings"
    bases = {path.name, *map(path.name.removesuffix, _BESIDE_A_STATE)}
    if any(_is_database(path.with_name(name)) for name in bases if name):
        return "belongs to a state"
    return ""


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False
