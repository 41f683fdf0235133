"""Texts that are read for a run: standard input, and the source lines of excerpts."""

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from reconciler.manifests.files import STDIN
from reconciler.manifests.reading.text import MOST_BYTES

_LONGEST_SHOWN = 10_000  # characters: clipping and measuring an excerpt takes time with its line


@lru_cache(maxsize=1)
def read_stdin() -> bytes:
    """Standard input, or the first bytes of it: enough to see that it is too large."""
    return sys.stdin.buffer.read(MOST_BYTES + 1)


_texts: dict[str, bytes] = {}  # of files that were not read from the working tree


def show_lines_of(texts: Mapping[str, bytes]) -> None:
    """Excerpts of these files come from these texts, from now on: such as from those at a git revision."""
    _texts.update(texts)
    _lines.cache_clear()


@lru_cache(maxsize=64)
def _lines(file: str) -> list[str]:
    """No lines of what cannot be read twice, or is too large to be a manifest.

    File names in diagnostics are relative to the project's root.
    """
    from reconciler.pipeline.settings import project_root

    try:
        if file in _texts:
            data = _texts[file]
        else:
            data = read_stdin() if file == STDIN else _read_file(project_root(Path.cwd()) / file)
    except OSError:
        return []
    if not data or len(data) > MOST_BYTES:
        return []
    # Not splitlines(), which also breaks at form feeds and other characters that editors do not count.
    return re.split("\r\n|\r|\n", data.decode("utf-8-sig", errors="replace"))


def _read_file(path: Path) -> bytes:
    if not path.is_file():  # a pipe is used up by now, and a device may have no end
        return b""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def read_line(file: str, line: int) -> str | None:
    """Line `line` (from 1) of `file`; None when it cannot be had, or is too long to be shown."""
    lines = _lines(file)
    found = lines[line - 1] if 0 < line <= len(lines) else None
    return found if found is None or len(found) <= _LONGEST_SHOWN else None
