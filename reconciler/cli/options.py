"""Options that several verbs share, and the manifests that they choose. `verb` adds them to a command."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import click

from reconciler.cli.addresses import ADDRESS, complete_ref
from reconciler.cli.command_line import UNTRUSTED, command_line, settings_here, texts_here
from reconciler.cli.group import ENV, LOCK_TIMEOUT, REASON, Shared
from reconciler.cli.progress import LogReporter, PlainReporter
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.planning.declared import Desired
from reconciler.project.desired import load_desired
from reconciler.project.settings import ProjectSettings

FILE = click.Path(dir_okay=False, path_type=Path)  # to read or to write; the verb says what is wrong with it
FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)

# Diagnostics of the manifests report a path that cannot be read, so click must not.
PATHS = click.Argument(
    ["paths"], nargs=-1, metavar="[PATH]...", type=click.Path(readable=False, allow_dash=True)
)
TARGET = click.Option(
    ["--target", "targets"],
    multiple=True,
    metavar="ADDRESS",
    type=ADDRESS,
    help="Only this resource, and what it needs; may be repeated.",
)
REF = click.Option(
    ["--ref"],
    metavar="REF",
    shell_complete=complete_ref,
    help="Read manifests and overlays as they are at this git revision.",
)
CHANGED_SINCE = click.Option(
    ["--changed-since"],
    metavar="REF",
    shell_complete=complete_ref,
    help="Only what changed since this branch left REF, and what depends on it.",
)
UNTRUSTED_REF = click.Option(
    ["--untrusted"],
    metavar="REF",
    envvar=UNTRUSTED,
    shell_complete=complete_ref,
    help="Treat the files as someone else's: take settings, providers and sources of secrets from this git "
    "revision, run no program, and read no file outside the project.",
)
SHOW_ALL = click.Option(
    ["--show-all"], is_flag=True, help="Name also what is unchanged, and what is retained as before."
)
AUTO_APPROVE = click.Option(["--auto-approve", "--yes"], is_flag=True, help="Do not ask.")


def _no_pager(context: click.Context, option: click.Parameter, value: bool) -> None:
    command_line().no_pager = value


NO_PAGER = click.Option(
    ["--no-pager"],
    is_flag=True,
    expose_value=False,
    callback=_no_pager,
    help="Print a long report at once, not through a pager.",
)

MANIFESTS = (PATHS, REF, CHANGED_SINCE, UNTRUSTED_REF)  # of verbs about manifests alone
OF_PLANS = (PATHS, TARGET, REF, SHOW_ALL)
DECIDES = (LOCK_TIMEOUT, REASON)  # of verbs that record a person's decision in the state


@dataclass  # mutable: settings and reporter are made when they are first asked for
class ChosenManifests:
    """Values of the shared options that choose manifests, and the settings and manifests that they lead to.

    `ref`: the git revision that manifests are read at. `untrusted`: the one that settings come from.
    """

    OPTIONS: ClassVar[Sequence[Shared]] = (ENV,)
    env: str = ""
    ref: str | None = None
    untrusted: str | None = None
    changed_since: str | None = None
    paths: Sequence[str] = ()
    targets: Sequence[Address] = ()

    @cached_property
    def config(self) -> ProjectSettings:
        """The settings of the chosen environment, or of the trusted revision."""
        return settings_here(self.env, ref=self.ref, untrusted=self.untrusted, manifests_only=True)

    @cached_property
    def reporter(self) -> Reporter:
        """The progress reporter of this command line, made once."""
        return make_reporter()

    def load_desired(self, paths: Sequence[str] | None = None) -> Desired:
        """The manifests at `paths` (None: those of the command line), else the configured ones."""
        return load_desired(
            self.paths if paths is None else paths,
            self.config,
            texts_here(),
            self.reporter,
            ref=self.ref,
            changed_since=self.changed_since,
            targets=self.targets,
        )


def make_reporter() -> Reporter:
    """The reporter for a terminal, for a log of CI or cron, or (with --verbose) for structured events."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("verbose"):
        return LogReporter()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from reconciler.cli.live import LiveReporter  # rich takes as long to import as a short verb runs

        return LiveReporter()
    return PlainReporter()


def empty_option(option: click.Parameter) -> click.UsageError:
    """The error for an empty value: often an unset variable of a script."""
    return click.UsageError(f"the value of {option.opts[0]} is empty: give one, or leave the option out")


def refuse_contradictions(context: click.Context) -> None:
    """Raises UsageError for an empty value, and when one option makes another meaningless."""
    for option in context.command.get_params(context):
        if not isinstance(option, click.Option):
            continue
        given: Any = context.params.get(option.name or "")
        if given != "" and not (option.multiple and "" in (given or ())):
            continue
        if context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE:
            raise empty_option(option)
    if context.params.get("sandbox") and context.params.get("state_url"):
        raise click.UsageError("--sandbox has a state of its own: run it without --state")


_SPAN = re.compile(r"(?P<number>\d{1,6})(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FURTHEST = timedelta(days=3660)


class Moment(click.ParamType[datetime]):
    """A time: a duration (30m, 12h, 7d, 2w) before now, or a date or time, in UTC where it says nothing else.

    `ahead`: the duration is after now, and the time within the next ten years.
    """

    name = "moment"

    def __init__(self, *, ahead: bool = False) -> None:
        self._ahead = ahead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from reconciler.core.clock import SystemClock  # it brings anyio, which few verbs need

        now, text = SystemClock().now(), value.removeprefix("+") if self._ahead else value
        try:
            if found := _SPAN.fullmatch(text):
                span = timedelta(**{_UNITS[found["unit"]]: int(found["number"])})
                at = now + span if self._ahead else now - span
            else:
                at = datetime.fromisoformat(text)
                at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            forms = "not a duration (30m, 12h, 7d, 2w) or a date (2026-11-22)"
            if self._ahead:
                forms = "neither a span from now (+12h, +30d, +2w) nor a time (2026-11-22T18:00Z)"
            self.fail(f"`{value}` is {forms}")
        if self._ahead and not now < at <= now + _FURTHEST:
            self.fail(f"`{value}` is not a time in the next ten years")
        return at
