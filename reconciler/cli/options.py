"""Options that several verbs share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

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
state = click.option("--state", "state_url", metavar="URL", help="State to use, such as sqlite:PATH.")


def paths(function: Function) -> Function:
    # Whether it can be read, the manifests' own diagnostics say.
    path = click.Path(readable=False, allow_dash=True)
    return click.argument("paths", nargs=-1, metavar="[PATH]...", type=path)(function)


def platform(function: Function) -> Function:
    """What every verb that reads the platform takes."""
    return sandbox(state(output(function)))
