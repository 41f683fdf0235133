"""The ids that git gives bytes, as they are: no filter of git's runs, and no line ends are converted."""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_CHUNK = 1 << 20


def blob_id(data: bytes, commit: str) -> str:
    """The id of `data`, in the same kind of id as `commit`'s."""
    digest = _begun(len(data), commit)
    digest.update(data)
    return digest.hexdigest()


def blobs(contents: Iterable[bytes], commit: str) -> dict[str, bytes]:
    """`contents` by their ids."""
    return {blob_id(data, commit): data for data in contents}


def file_id(path: Path, commit: str) -> str | None:
    """The id of a file's bytes; None where there is none that can be read."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            digest = _begun(status.st_size, commit)
            while data := file.read(_CHUNK):
                digest.update(data)
    except (OSError, ValueError):
        return None
    return digest.hexdigest()


def _begun(size: int, commit: str) -> "hashlib._Hash":
    name = "sha1" if len(commit) == 40 else "sha256"
    return hashlib.new(name, b"blob %d\0" % size, usedforsecurity=False)


def _without_waiting(path: str, flags: int) -> int:
    """Nobody may ever write to a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
