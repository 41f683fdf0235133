"""What a verb reads: the settings, the manifests' paths, stdin, and source lines for excerpts."""

import os
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from reconciler.settings import Found, find_settings, project_root

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


def settings_here() -> Found:
    return find_settings(Path.cwd(), os.environ)


def given_paths(paths: Sequence[str], found: Found) -> list[str]:
    return list(paths) or [os.path.relpath(found.root / path) for path in found.settings.manifests]
