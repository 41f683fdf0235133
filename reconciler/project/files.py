"""Files that a person names, and their texts for excerpts in messages. They are read whole, and written
complete or not at all, never through a link.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import STDIN, SUFFIXES
from reconciler.manifests.reading.refusals import MOST_BYTES
from reconciler.manifests.writing.replace import Replacement, mode_of_new, replace_files

_SQLITE = b"SQLite format 3\0"
_BESIDE_A_STATE = (".key", ".lock", ".seen", ".spool", "-wal", "-shm", "-journal")


def read_file(path: Path, most: int = -1) -> bytes:
    """The content, at most the first `most` bytes of it. Raises ReconcilerError."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as failure:
        raise ReconcilerError(f"cannot read {path}: {failure.strerror}") from failure


def write_output(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` in the place of `path`. `mode`: None gives it that of a new file. Raises ReconcilerError."""
    replace_files([Replacement(path, data)], mode=mode_of_new() if mode is None else mode)


def write_new(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Make `path`. Raises ReconcilerError where anything is there already."""
    if os.path.lexists(path):
        raise ReconcilerError(f"{path} exists already", help="name another file, or remove it")
    replace_files([Replacement(path, data, new=True)], mode=mode)


def require_ours(path: Path, is_ours: Callable[[bytes], bool], what: str, help: str) -> None:
    """Raises ReconcilerError where anything stands at `path` that is not `what`: it would be lost."""
    try:
        ours = stat.S_ISREG(path.lstat().st_mode) and is_ours(path.read_bytes())
    except FileNotFoundError:
        return
    except OSError as failure:
        raise ReconcilerError(f"cannot write {path}: {failure.strerror}") from failure
    if not ours:
        raise ReconcilerError(f"{path} exists and is not {what}", help=help)


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
    """Whether the file is a SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


_LONGEST_SHOWN = 10_000  # characters: clipping and measuring an excerpt takes time with its line


class SourceTexts:
    """Each text is read once. One object belongs to one run: a later run may find other texts.

    Names are those of diagnostics, relative to `root`, the project's. `read_stdin` gives standard input, or
    at most `MOST_BYTES` + 1 bytes of it; None where a run has none.
    """

    def __init__(self, root: Path, read_stdin: Callable[[], bytes] | None = None) -> None:
        self._root = root
        self._read_stdin = read_stdin
        self._texts: dict[str, bytes] = {}  # of what cannot be read from the working tree (again)
        self._lines: dict[str, list[str]] = {}

    @property
    def stdin(self) -> Callable[[], bytes] | None:
        """A function that gives standard input, as often as it is called; None where there is none."""
        return self._stdin if self._read_stdin is not None else None

    def use(self, texts: Mapping[str, bytes]) -> None:
        """Excerpts of these files come from these texts from now on, such as those at a git revision."""
        self._texts.update(texts)
        self._lines.clear()

    def line(self, file: str, line: int) -> str | None:
        """Line `line` (from 1) of `file`; None when it cannot be had, or is too long to be shown."""
        if file not in self._lines:
            self._lines[file] = self._split(file)
        lines = self._lines[file]
        found = lines[line - 1] if 0 < line <= len(lines) else None
        return found if found is None or len(found) <= _LONGEST_SHOWN else None

    def _stdin(self) -> bytes:
        """Standard input, read once."""
        if STDIN not in self._texts and self._read_stdin is not None:
            self._texts[STDIN] = self._read_stdin()
        return self._texts.get(STDIN, b"")

    def _split(self, file: str) -> list[str]:
        """No lines of what cannot be read twice, or is too large to be a manifest."""
        try:
            if file == STDIN:
                data = self._stdin()
            else:
                data = self._texts[file] if file in self._texts else _read_file(self._root / file)
        except OSError:
            return []
        if not data or len(data) > MOST_BYTES:
            return []
        # Not splitlines(), which also breaks at form feeds and other characters that editors do not count.
        return re.split("\r\n|\r|\n", data.decode("utf-8-sig", errors="replace"))


def _read_file(path: Path) -> bytes:
    """The begin of a regular file: enough to tell that it is too large for a manifest."""
    if not path.is_file():  # a pipe has been used up, and a device may have no end
        return b""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)
