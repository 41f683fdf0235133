"""What a verb goes by: the settings, and the texts that it reads and shows lines of."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.context import TEXTS
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.reading.text import MOST_BYTES

if TYPE_CHECKING:  # models take long to import, and `--help` and completion need none
    from reconciler.pipeline.settings import ProjectSettings
    from reconciler.pipeline.source_texts import SourceTexts


def settings_here(env: str = "", *, ref: str | None = None) -> "ProjectSettings":
    """The settings of the project around the working directory, for the environment `env`.

    Raises ReconcilerError when there is no such environment; at a git revision `ref` there may be others.
    """
    from reconciler.pipeline.settings import find_settings

    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ReconcilerError("the working directory is gone", help="change to one that exists") from None
    found = find_settings(here, os.environ, env)
    if ref is None:
        found.refuse_unknown_environment()
    return found


def texts_here() -> "SourceTexts":
    """The texts of this command line: its verb reads them, and the messages about them show their lines."""
    from reconciler.pipeline.settings import project_root
    from reconciler.pipeline.source_texts import SourceTexts

    context = click.get_current_context(silent=True)
    meta = context.meta if context is not None else {}
    if TEXTS not in meta:
        try:
            root = project_root(Path.cwd())
        except (OSError, ReconcilerError):  # then no file of it can be read, either
            root = Path()
        meta[TEXTS] = SourceTexts(root, _read_stdin)
    texts: SourceTexts = meta[TEXTS]
    return texts


def _read_stdin() -> bytes:
    """Standard input, or the first bytes of it: enough to see that it is too large."""
    return sys.stdin.buffer.read(MOST_BYTES + 1)
