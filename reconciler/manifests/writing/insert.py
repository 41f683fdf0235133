"""Where new manifests go: into files of their own, or behind what a file holds already.

Every byte of an existing file stays, and all it declared is read as before. One that cannot be replaced as
people expect it (`replaceable`) is left alone.
"""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from reconciler.core.errors import ReconcilerError
from reconciler.manifests.encrypted import is_of_sops
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.writing.replace import Replacement, replace_files, replaceable

_MOST_FILES = 1000  # of one stem: beyond, something else is wrong
_GO_ON = "files that were written before it are complete; when this is put right, run it again"


class Change(Struct, frozen=True):
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
        if os.path.lexists(path) and replaceable(path):
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
    """Whether the file holds its old documents, unchanged, and then the new ones.

    sops would refuse to decrypt a file of its own that is followed by something else.
    """
    old, new, whole = compose(before or b"", ""), compose(added.encode(), ""), compose(after, "")
    if any(is_of_sops(document.value) for document in old.documents):
        return False
    values = [document.value for document in (*old.documents, *new.documents)]
    return whole.complete and [document.value for document in whole.documents] == values


def put(change: Change) -> None:
    """Write one file, complete or not at all. Raises ReconcilerError, also when it was changed meanwhile."""
    try:
        change.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise ReconcilerError(f"cannot write {change.path}: {failure.strerror}", help=_GO_ON) from failure
    try:
        replace_files([Replacement(change.path, change.after, change.before, new=change.before is None)])
    except ReconcilerError as failure:
        raise ReconcilerError(failure.message, help=_GO_ON) from failure
