"""The settings that a verb goes by."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.context import ENVIRONMENT
from reconciler.core.errors import ReconcilerError

if TYPE_CHECKING:  # models take long to import, and `--help` and completion need none
    from reconciler.pipeline.settings import ProjectSettings


def settings_here() -> "ProjectSettings":
    from reconciler.pipeline.settings import find_settings, refuse_unknown_environment

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
