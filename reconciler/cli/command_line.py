"""One command line: what it goes by (settings, texts, options), and what came of it (reports)."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from reconciler.cli.signals import blocking
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.reading.text import MOST_BYTES
from reconciler.project.files import SourceTexts
from reconciler.project.manifests import environments_at
from reconciler.project.settings import ProjectSettings, find_settings, project_root
from reconciler.reports.formats import Format
from reconciler.reports.links import NO_LINKS, Links, links_of
from reconciler.reports.report import Report

UNTRUSTED = "RECONCILE_UNTRUSTED"  # the variable of --untrusted, which verbs without that option refuse


class ReportFile(NamedTuple):
    """A file of --report."""

    format: Format
    path: Path


@dataclass  # filled as it becomes known
class CommandLine:
    """What belongs to one command line, for everything that runs below it.

    `report`: the last one that was shown, whole. `lost`: a report could not be written.
    """

    format: Format | None = None
    files: Sequence[ReportFile] = ()
    no_pager: bool = False
    settings: ProjectSettings | None = None
    texts: SourceTexts | None = None
    report: Report | None = None
    lost: bool = False


def command_line() -> CommandLine:
    """The one that runs now; an empty one outside of any."""
    context = click.get_current_context(silent=True)
    if context is None:
        return CommandLine()
    found: CommandLine = context.meta.setdefault("reconcile", CommandLine())
    return found


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
        config.refuse_forgotten_environment(partial(environments_at, config, ref) if elsewhere else None)
    command_line().settings = config
    return config.in_sandbox() if sandbox else config


def texts_here() -> SourceTexts:
    """The texts of this command line: its verb reads them, and the messages about them show their lines."""
    line = command_line()
    if line.texts is None:
        line.texts = SourceTexts(_root_here() or Path(), _read_stdin)
    return line.texts


def links_here() -> Links:
    """Where the project's files are in their repository, as far as anything says."""
    root = _root_here()
    return links_of(root.absolute(), os.environ) if root is not None else NO_LINKS


def _root_here() -> Path | None:
    """The project's; None where no file of it can be read."""
    settings = command_line().settings
    try:
        return settings.root if settings is not None else project_root(Path.cwd())
    except (OSError, ReconcilerError):
        return None


def _read_stdin() -> bytes:
    """Standard input, or the first bytes of it: enough to see that it is too large."""
    with blocking():
        return sys.stdin.buffer.read(MOST_BYTES + 1)
