"""Files that a verb writes where somebody said: complete or not at all, and never through a link."""

import os
import stat
from pathlib import Path

import click

from reconciler.manifests.files import SUFFIXES

_SQLITE = b"SQLite format 3\0"
_BESIDE_A_STATE = (".key", ".lock", ".seen", ".spool", "-wal", "-shm", "-journal")


def write_output(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` in the place of `path`. `mode`: None gives it that of a new file. Raises ReconcilerError."""
    from reconciler.manifests.writing.replace import Replacement, mode_of_new, replace_files

    replace_files([Replacement(path, data)], mode=mode_of_new() if mode is None else mode)


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


def refuse_output(option: str, path: Path) -> None:
    """Raises UsageError where `path` must not be replaced."""
    why = why_not_written(path)
    if why:
        raise click.UsageError(f"{option}: `{path}` {why}: name another file")


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False
