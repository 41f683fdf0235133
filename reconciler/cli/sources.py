"""What a verb goes by: the settings, and the texts that it reads and shows lines of."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconciler.cli.context import ROOT, SETTINGS, TEXTS, UNTRUSTED
from reconciler.cli.signals import blocking
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.reading.text import MOST_BYTES
from reconciler.pipeline.desired import environments_at
from reconciler.pipeline.settings import ProjectSettings, find_settings, project_root
from reconciler.pipeline.source_texts import SourceTexts
from reconciler.reports.places import NOWHERE, Places, places_of


def settings_here(
    env: str = "",
    *,
    ref: str | None = None,
    untrusted: str | None = None,
    sandbox: bool = False,
    manifests_only: bool = False,
) -> ProjectSettings:
    """The settings of the project around the working directory, for the environment `env`.

    `sandbox`: with the state of the embedded sandbox. `manifests_only`: neither a platform nor a state is
    touched; else somebody must have said which environment is meant, where there are any (Misused).

    `untrusted`: they are those of this revision (`--untrusted`). Raises ReconcilerError when there is no such
    environment; at a git revision `ref` there may be others. Also for a verb without that option, while the
    variable says that the files are somebody else's.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ReconcilerError("the working directory is gone", help="change to one that exists") from None
    if untrusted is None and os.environ.get(UNTRUSTED):
        raise ReconcilerError(
            f"{UNTRUSTED} is set: only validate, build, plan and graph work on untrusted files",
            help="unset it if you trust the branch",
        )
    config = find_settings(here, os.environ, env, trusted=untrusted)
    if ref is None or untrusted is not None:
        config.refuse_unknown_environment()
    if not manifests_only:
        elsewhere = ref is not None and untrusted is None
        config.refuse_forgotten_environment(partial(_environments, config, ref) if elsewhere else None)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[ROOT] = config.root
        context.meta[SETTINGS] = config
    return config.in_sandbox() if sandbox else config


def _environments(config: ProjectSettings, ref: str | None) -> list[str]:
    return environments_at(config, ref)


def texts_here() -> SourceTexts:
    """The texts of this command line: its verb reads them, and the messages about them show their lines."""
    meta = _meta()
    if TEXTS not in meta:
        meta[TEXTS] = SourceTexts(_root_here() or Path(), _read_stdin)
    texts: SourceTexts = meta[TEXTS]
    return texts


def places_here() -> Places:
    """Where the project's files are in their repository, as far as anything says."""
    root = _root_here()
    return places_of(root.absolute(), os.environ) if root is not None else NOWHERE


def _meta() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return context.meta if context is not None else {}


def _root_here() -> Path | None:
    """The project's; None where no file of it can be read."""
    try:
        root: Path = _meta().get(ROOT) or project_root(Path.cwd())
    except (OSError, ReconcilerError):
        return None
    return root


def _read_stdin() -> bytes:
    """Standard input, or the first bytes of it: enough to see that it is too large."""
    with blocking():
        return sys.stdin.buffer.read(MOST_BYTES + 1)
