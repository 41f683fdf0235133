"""Options that several verbs share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

ENVIRONMENT = "reconcile.env"  # of click's context: the name of the chosen environment, or ""

Function = TypeVar("Function", bound=Callable[..., Any])

output = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format."
)
sandbox = click.option(
    "--sandbox", is_flag=True, help="Use an embedded emulated platform, kept under .reconcile/."
)
lock_timeout = click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long for a scope that somebody else applies.",
)
auto_approve = click.option("--auto-approve", is_flag=True, help="Do not ask.")
_state = click.option("--state", "state_url", metavar="URL", help="State to use, such as sqlite:PATH.")


def _environments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from reconciler.cli.addresses import complete_environment

    return complete_environment(ctx, param, incomplete)


def _refs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from reconciler.cli.addresses import complete_ref

    return complete_ref(ctx, param, incomplete)


ref = click.option(
    "--ref",
    metavar="REF",
    shell_complete=_refs,
    help="Read manifests and overlays as they are at this git revision.",
)
changed_since = click.option(
    "--changed-since",
    metavar="REF",
    shell_complete=_refs,
    help="Only what differs from where this branch left REF, and what depends on it.",
)


def environment(function: Function) -> Function:
    """`--env`, which `sources.settings_here` asks for: no verb needs to hand it on."""

    def remember(context: click.Context, _: click.Parameter, value: str | None) -> None:
        context.meta[ENVIRONMENT] = value or ""

    return click.option(
        "--env",
        metavar="NAME",
        envvar="RECONCILE_ENV",
        expose_value=False,
        callback=remember,
        shell_complete=_environments,
        help="Environment: overlays/NAME is laid over the manifests, and the state is its own.",
    )(function)


def state(function: Function) -> Function:
    """What every verb that opens the state takes."""
    return _state(environment(function))


def paths(function: Function) -> Function:
    # Whether it can be read, the manifests' own diagnostics say.
    path = click.Path(readable=False, allow_dash=True)
    return click.argument("paths", nargs=-1, metavar="[PATH]...", type=path)(function)


def platform(function: Function) -> Function:
    """What every verb that reads the platform takes."""
    return sandbox(state(output(function)))
