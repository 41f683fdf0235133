"""Where new manifests go: into files of their own, or behind what a file holds already.

Every byte of an existing file stays, and all it declared is read as before. A file is replaced by a
complete one, or not at all.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.reading.compose import compose

_MOST_FILES = 1000  # of one stem: beyond, something else is wrong


@dataclass(frozen=True, slots=True)
class Change:
    """One file to write. `before`: what it held, None for a new file; `added`: the text that is new."""

    path: Path
    before: bytes | None
    after: bytes
    added: str


def prepare(
    folder: Path, stem: str, compose_text: Callable[[bytes | None], str], reserved: set[str]
) -> Change:
    """The file `STEM.yaml` in `folder` with new documents, or STEM-2.yaml, … where that one cannot have them.

    `compose_text` gives them from what the file holds (None: a new file). `reserved`: names that are used
    already, in lower case; the one that is chosen is added.
    """
    present = {path.name.casefold(): path.name for path in folder.iterdir()} if folder.is_dir() else {}
    for number in range(1, _MOST_FILES):
        name = f"{stem}-{number}.yaml" if number > 1 else f"{stem}.yaml"
        folded = name.casefold()
        if name == SETTINGS_FILE or folded in reserved or present.get(folded, name) != name:
            continue  # on many disks, two names that differ in case only are one file
        path = folder / name
        before = path.read_bytes() if path.is_file() else None
        if before is None and os.path.lexists(path):
            continue
        added = compose_text(before)
        after = added.encode() if before is None else _appended(before, added)
        if _reads_as_before(before, after, added):
            reserved.add(folded)
            return Change(path, before, after, added)
    raise ReconcilerError(f"no file name for `{stem}` is free in {folder}", help="pass another --out DIR")


def _appended(before: bytes, added: str) -> bytes:
    """`before` with `added` behind it, in its own kind of line breaks."""
    newline = "\r\n" if b"\r\n" in before else "\n"
    gap = "" if not before or before.endswith((b"\n", b"\xef\xbb\xbf")) else newline
    return before + (gap + added.replace("\n", newline)).encode()


def _reads_as_before(before: bytes | None, after: bytes, added: str) -> bool:
    """Whether the file holds its old documents, unchanged, and then the new ones."""
    old, new, whole = compose(before or b"", ""), compose(added.encode(), ""), compose(after, "")
    values = [document.value for document in (*old.documents, *new.documents)]
    return whole.complete and [document.value for document in whole.documents] == values


def put(change: Change) -> None:
    """Write one file, complete or not at all. Raises ReconcilerError, also when it was changed meanwhile."""
    path = Path(os.path.realpath(change.path))  # a symbolic link stays one
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, change)
    except OSError as failure:
        raise ReconcilerError(
            f"cannot write {change.path}: {failure.strerror or failure}",
            help="files that were written before it are complete; when this is put right, run it again",
        ) from failure


def _put(path: Path, change: Change) -> None:
    # Hidden, so that nobody reads it as a manifest if this process is killed.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.new-", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(change.after)
            file.flush()
            os.fchmod(file.fileno(), _mode(path))
            os.fsync(file.fileno())
        if (path.read_bytes() if path.exists() else None) != change.before:
            raise OSError("it was changed while this command ran")
        new.replace(path)
        _sync(path.parent)
    finally:
        with suppress(FileNotFoundError):
            new.unlink()


def _mode(path: Path) -> int:
    """The permissions of the file that is there, or else those that a new file gets."""
    if path.exists():
        return path.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
