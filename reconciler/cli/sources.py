"""What a verb reads: the settings, the manifests' paths, stdin, and source lines for excerpts."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.context import ENVIRONMENT
from reconciler.core.errors import ReconcilerError
from reconciler.core.nearest import did_you_mean
from reconciler.manifests.reading.text import MOST_BYTES

if TYPE_CHECKING:  # models take long to import, and `--help` and completion need none
    from reconciler.settings import Found

STDIN = "<stdin>"
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
    from reconciler.settings import project_root

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


def settings_here() -> "Found":
    from reconciler.settings import find_settings

    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ReconcilerError("the working directory is gone", help="change to one that exists") from None
    context = click.get_current_context(silent=True)
    found = find_settings(here, os.environ, context.meta.get(ENVIRONMENT, "") if context is not None else "")
    asked = context.params.get("ref") if context is not None else None
    if found.env and asked is None:  # at a git revision there may be others
        refuse_unknown_environment(found.env, found.environments(), found.settings.overlays)
    return found


def refuse_unknown_environment(name: str, known: Sequence[str], overlays: str, where: str = "") -> None:
    """Raises ReconcilerError when `name` is not `known`. `overlays`: the folder that holds theirs."""
    if name in known:
        return
    hint = did_you_mean(name, known)
    there = f"environments are {', '.join(known)}" if known else "there are none"
    raise ReconcilerError(
        f"there is no environment `{name}`{where}",
        help=f"{f'{hint} ' if hint else ''}{there}; one is a folder such as "
        f"{overlays}/{name} beside reconcile.yaml, or a section of its `environments`",
    )


def overlay_path(found: "Found") -> str:
    """The folder of the environment's overlay, from the working directory."""
    return os.path.relpath(found.root / found.overlay)


def given_paths(paths: Sequence[str], found: "Found") -> list[str]:
    return list(paths) or [os.path.relpath(found.root / path) for path in found.settings.manifests]
