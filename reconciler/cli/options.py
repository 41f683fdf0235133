"""Options that several verbs share, as data: `verb` adds them to a command."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from reconciler.cli.addresses import ADDRESS, complete_environment, complete_ref
from reconciler.cli.command_line import UNTRUSTED, command_line
from reconciler.core.advice import NO_OPTIONS, RunOptions
from reconciler.core.state_url import shown_url
from reconciler.project.files import why_not_written

FILE = click.Path(dir_okay=False, path_type=Path)  # to read or to write; the verb says what is wrong with it
FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)

# Whether it can be read, the manifests' own diagnostics say.
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
ENV = click.Option(
    ["--env"],
    metavar="NAME",
    envvar="RECONCILE_ENV",
    default="",
    shell_complete=complete_environment,
    help="Environment: overlays/NAME patches the manifests, with a state of its own; base for none.",
)
_STATE = click.Option(["--state", "state_url"], metavar="URL", help="State to use, such as sqlite:PATH.")
_SANDBOX = click.Option(
    ["--sandbox"],
    is_flag=True,
    help="Use an embedded emulated platform, with a state of its own, kept under .reconcile/.",
)
LOCK_TIMEOUT = click.Option(
    ["--lock-timeout"],
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait up to SECONDS for a lock held by another run.",
)
REASON = click.Option(
    ["--reason"], default="", metavar="TEXT", help="Why, for the journal: `history` shows it."
)
SHOW_ALL = click.Option(
    ["--show-all"], is_flag=True, help="Name also what is unchanged, and what is retained as before."
)
AUTO_APPROVE = click.Option(["--auto-approve"], is_flag=True, help="Do not ask.")


def _no_pager(context: click.Context, option: click.Parameter, value: bool) -> None:
    command_line().no_pager = value


NO_PAGER = click.Option(
    ["--no-pager"],
    is_flag=True,
    expose_value=False,
    callback=_no_pager,
    help="Print a long report at once, not through a pager.",
)

MANIFESTS = (PATHS, REF, CHANGED_SINCE, UNTRUSTED_REF, ENV)  # of verbs about manifests alone
OF_PLANS = (PATHS, TARGET, REF, SHOW_ALL)
ON_STATE = (_SANDBOX, _STATE, ENV)  # of verbs that open the state, or read the platform
DECIDES = (LOCK_TIMEOUT, REASON, *ON_STATE)  # of verbs that write to the state what a person decides


def of_this_run() -> RunOptions:
    """What a command that a text advises must be given, too."""
    context = click.get_current_context(silent=True)
    if context is None:
        return NO_OPTIONS
    state = context.params.get("state_url") or ""
    return RunOptions(
        env=context.params.get("env", ""),
        state=state if shown_url(state) == state else "",  # it may hold a password
        sandbox=bool(context.params.get("sandbox")),
    )


def empty_option(option: click.Parameter) -> click.UsageError:
    """For a value such as an unset variable of a script, which would silently mean something else."""
    return click.UsageError(f"the value of {option.opts[0]} is empty: give one, or leave the option out")


def refuse_contradictions(context: click.Context) -> None:
    """Raises UsageError for an empty value, and when one option makes another meaningless."""
    for option in context.command.params:
        if not isinstance(option, click.Option):
            continue
        given: Any = context.params.get(option.name or "")
        if given != "" and not (option.multiple and "" in (given or ())):
            continue
        if context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE:
            raise empty_option(option)
    if context.params.get("sandbox") and context.params.get("state_url"):
        raise click.UsageError("--sandbox has a state of its own: run it without --state")


def refuse_output(option: str, path: Path) -> None:
    """Raises UsageError where the file that `option` names must not be replaced."""
    why = why_not_written(path)
    if why:
        raise click.UsageError(f"{option}: `{path}` {why}: name another file")


_SPAN = re.compile(r"(?P<number>\d{1,6})(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment_of(text: str, now: datetime, *, ahead: bool = False) -> datetime:
    """The moment so long before `now` (30m, 12h, 7d, 2w), or after it; or that of a date or a time.

    A time is in UTC if it does not say. Raises ValueError and OverflowError.
    """
    if found := _SPAN.fullmatch(text):
        span = timedelta(**{_UNITS[found["unit"]]: int(found["number"])})
        return now + span if ahead else now - span
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
