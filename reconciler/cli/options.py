"""Options that several verbs share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reconciler.cli.addresses import complete_environment, complete_ref
from reconciler.cli.context import NO_PAGER, UNTRUSTED
from reconciler.core.advice import NO_OPTIONS, RunOptions
from reconciler.core.state_url import shown_url

Function = TypeVar("Function", bound=Callable[..., Any])

show_all = click.option(
    "--show-all",
    is_flag=True,
    help="Name also what is unchanged, and what is retained as before.",
)
sandbox = click.option(
    "--sandbox",
    is_flag=True,
    help="Use an embedded emulated platform, with a state of its own, kept under .reconcile/.",
)
lock_timeout = click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait up to SECONDS for a lock held by another run.",
)
reason = click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help="Why, for the journal: `history` shows it.",
)
base = click.option(
    "--base",
    metavar="REF",
    default="",
    help="The revision before the change, which says who has to approve it (default: from CI's variables).",
)
auto_approve = click.option("--auto-approve", is_flag=True, help="Do not ask.")
_state = click.option("--state", "state_url", metavar="URL", help="State to use, such as sqlite:PATH.")


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


def refuse_empty_options(context: click.Context) -> None:
    """Raises UsageError when an option of the command line has an empty value."""
    for each in context.command.params:
        if not isinstance(each, click.Option):
            continue
        given: Any = context.params.get(each.name or "")
        if given != "" and not (each.multiple and "" in (given or ())):
            continue
        if context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE:
            raise empty_option(each)


def refuse_contradictions(context: click.Context) -> None:
    """Raises UsageError when one option of the command line makes another meaningless."""
    if context.params.get("sandbox") and context.params.get("state_url"):
        raise click.UsageError("--sandbox has a state of its own: run it without --state")


class FolderPath(click.Path):
    """A folder's path. pathlib takes an empty one for the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "" and param is not None:
            raise empty_option(param)
        return super().convert(value, param, ctx)


ref = click.option(
    "--ref",
    metavar="REF",
    shell_complete=complete_ref,
    help="Read manifests and overlays as they are at this git revision.",
)
changed_since = click.option(
    "--changed-since",
    metavar="REF",
    shell_complete=complete_ref,
    help="Only what changed since this branch left REF, and what depends on it.",
)


untrusted = click.option(
    "--untrusted",
    metavar="REF",
    envvar=UNTRUSTED,
    shell_complete=complete_ref,
    help="Treat the files as someone else's: take settings, providers and sources of secrets from this git "
    "revision, run no program, and read no file outside the project.",
)
environment = click.option(
    "--env",
    metavar="NAME",
    envvar="RECONCILE_ENV",
    default="",
    shell_complete=complete_environment,
    help="Environment: overlays/NAME patches the manifests, with a state of its own; base for none.",
)


def no_pager(function: Function) -> Function:
    """`--no-pager`, which `pager.echo_report` asks for."""

    def remember(context: click.Context, option: click.Parameter, value: bool) -> None:
        context.meta[NO_PAGER] = value

    return click.option(
        "--no-pager",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Print a long report at once, not through a pager.",
    )(function)


def state(function: Function) -> Function:
    """What every verb that opens the state takes; those that read the platform, too."""
    return sandbox(_state(environment(function)))


def paths(function: Function) -> Function:
    # Whether it can be read, the manifests' own diagnostics say.
    path = click.Path(readable=False, allow_dash=True)
    return click.argument("paths", nargs=-1, metavar="[PATH]...", type=path)(function)
