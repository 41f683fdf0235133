"""The context of one command line: settings, texts and options that it uses, and the report it made."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from reconciler.cli.signals import blocking
from reconciler.core.advice import NO_OPTIONS, RunOptions
from reconciler.core.errors import ReconcilerError
from reconciler.core.state_url import shown_url
from reconciler.manifests.reading.refusals import MOST_BYTES
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
    """The facts of one command line, for all code that runs below it.

    `report`: the last one that was shown, complete. `lost`: a report could not be written. `metrics`: the
    numbers of the run, where they are asked for.
    """

    format: Format | None = None
    files: Sequence[ReportFile] = ()
    no_pager: bool = False
    settings: ProjectSettings | None = None
    texts: SourceTexts | None = None
    report: Report | None = None
    lost: bool = False
    metrics: str = ""


def command_line() -> CommandLine:
    """The command line that runs now; an empty one outside of any."""
    context = click.get_current_context(silent=True)
    if context is None:
        return CommandLine()
    found: CommandLine = context.meta.setdefault("reconcile", CommandLine())
    return found


def of_this_run() -> RunOptions:
    """The options to repeat in commands that a message advises."""
    context = click.get_current_context(silent=True)
    if context is None:
        return NO_OPTIONS
    state = context.params.get("state_url") or ""
    return RunOptions(
        env=context.params.get("env", ""),
        state=state if shown_url(state) == state else "",  # it may hold a password
        sandbox=bool(context.params.get("sandbox")),
    )


def settings_here(
    env: str = "",
    *,
    ref: str | None = None,
    untrusted: str | None = None,
    sandbox: bool = False,
    manifests_only: bool = False,
) -> ProjectSettings:
    """The settings of the project around the working directory, for the environment `env`.

    `sandbox`: with the state of the embedded sandbox. `manifests_only`: the verb uses no platform and no
    state; for any other verb, a project with environments needs an explicit choice (Misused). `untrusted`:
    read the settings from this revision. `ref`: read the environments from it.

    Raises ReconcilerError for an unknown environment, and for a verb without --untrusted while its variable
    is set.
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
        at_revision = ref is not None and untrusted is None
        config.refuse_forgotten_environment(partial(environments_at, config, ref) if at_revision else None)
    command_line().settings = config
    return config.in_sandbox() if sandbox else config


def texts_here() -> SourceTexts:
    """The texts that this command line has read, for the excerpts in its messages."""
    line = command_line()
    if line.texts is None:
        line.texts = SourceTexts(_root_here() or Path(), _read_stdin)
    return line.texts


def links_here() -> Links:
    """Where the project's files are in their repository, as far as anything says."""
    root = _root_here()
    return links_of(root.absolute(), os.environ) if root is not None else NO_LINKS


def _root_here() -> Path | None:
    """The root of the project; None where its files cannot be read."""
    settings = command_line().settings
    try:
        return settings.root if settings is not None else project_root(Path.cwd())
    except (OSError, ReconcilerError):
        return None


def _read_stdin() -> bytes:
    """Standard input, one byte more than allowed at most: that is enough to see that it is too large."""
    with blocking():
        return sys.stdin.buffer.read(MOST_BYTES + 1)
