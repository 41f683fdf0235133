"""Source lines for excerpts: read again from the files, or from what came in by stdin."""

import re
import sys
from functools import lru_cache
from pathlib import Path

from reconciler.settings import project_root

STDIN = "<stdin>"


@lru_cache(maxsize=1)
def read_stdin() -> bytes:
    return sys.stdin.buffer.read()


@lru_cache(maxsize=64)
def _lines(file: str) -> list[str]:
    """File names in diagnostics are relative to the project's root."""
    try:
        data = read_stdin() if file == STDIN else (project_root(Path.cwd()) / file).read_bytes()
    except OSError:
        return []
    # Not splitlines(), which also breaks at form feeds and other characters that editors do not count.
    return re.split("\r\n|\r|\n", data.decode("utf-8-sig", errors="replace"))


def read_line(file: str, line: int) -> str | None:
    """Line `line` (from 1) of `file`, None when it cannot be had."""
    lines = _lines(file)
    return lines[line - 1] if 0 < line <= len(lines) else None
