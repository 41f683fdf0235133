"""What a verb reads: the settings, the manifests' paths, stdin, and source lines for excerpts."""

import os
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import ReconcilerError
from reconciler.manifests.text import MOST_BYTES

if TYPE_CHECKING:  # models take long to import, and `--help` and completion need none
    from reconciler.settings import Found

STDIN = "<stdin>"
_LONGEST_SHOWN = 10_000  # characters: clipping and measuring an excerpt takes time with its line


@lru_cache(maxsize=1)
def read_stdin() -> bytes:
    """Standard input, or the first bytes of it: enough to see that it is too large."""
    return sys.stdin.buffer.read(MOST_BYTES + 1)


@lru_cache(maxsize=64)
def _lines(file: str) -> list[str]:
    """No lines of what cannot be read twice, or is too large to be a manifest.

    File names in diagnostics are relative to the project's root.
    """
    from reconciler.settings import project_root

    try:
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


def settings_here() -> "Found":
    from reconciler.settings import find_settings

    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ReconcilerError("the working directory is gone", help="change to one that exists") from None
    return find_settings(here, os.environ)


def given_paths(paths: Sequence[str], found: "Found") -> list[str]:
    return list(paths) or [os.path.relpath(found.root / path) for path in found.settings.manifests]
