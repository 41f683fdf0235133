"""`reconcile demo`: a shop on an emulated platform, troubles that it may have, and famous accidents."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from reconciler.cli.event_loop import run
from reconciler.cli.options import make_reporter
from reconciler.cli.verb import DONE, FAILED, argument, option, verb
from reconciler.demo import shop, troubles
from reconciler.demo.accidents import ACCIDENTS, play_accidents


@click.group("demo", invoke_without_command=True)
@click.pass_context
def demo(ctx: click.Context) -> int | None:
    """Make this empty folder a small shop on an emulated platform, already applied.

    Nothing leaves this machine. `reconcile demo stop` ends the platform.
    """
    if ctx.invoked_subcommand:
        return None
    code: int = ctx.invoke(start, port=0)
    return code


@verb("start", of=demo, report=None)
def start(
    port: int = option(
        "--port", "Port of the platform; 0: a free one.", type=click.IntRange(0, 65535), default=0
    ),
) -> None:
    """The same as `reconcile demo`. A demo that was stopped goes on as it was."""
    url = run(lambda: shop.start(Path.cwd(), os.environ, port, make_reporter()))
    click.echo(f"The demo's platform listens on {url}; its clock runs 600 times faster.")
    click.echo("This folder holds its manifests and its state. Edit one, then: reconcile plan")
    click.echo("Troubles to try: reconcile demo play. The end: reconcile demo stop")


@verb("stop", of=demo, report=None)
def stop() -> None:
    """End the demo's platform. Manifests, state and the platform's objects stay for the next `demo`."""
    click.echo("The demo has ended." if shop.stop(Path.cwd()) else "No demo runs in this folder.")


@verb("play", of=demo, report=None)
def play(name: str | None = argument(required=False, metavar="[TROUBLE]")) -> None:
    """Let something happen to the demo's platform. Without TROUBLE: list what can happen."""
    if name is not None:
        click.echo(f"Played: {run(partial(troubles.play, Path.cwd(), name))}.")
        return
    width = max(map(len, troubles.TROUBLES))
    for name, trouble in troubles.TROUBLES.items():
        click.echo(f"{name:<{width}}  {trouble.happens}")


@verb("accident", of=demo, report=None)
def accident(
    names: Sequence[str] = argument(nargs=-1, metavar="[ACCIDENT]...", type=click.Choice(list(ACCIDENTS))),
) -> int:
    """Play famous accidents of this field, each in a demo of its own; without ACCIDENT, all of them.

    Exit code 1 if one of them happens.
    """
    happened = 0
    for played in play_accidents(names or list(ACCIDENTS), os.environ):
        told = played.accident
        mark = "HELD" if not played.problem else f"HAPPENED ({played.problem})"
        click.echo(f"{played.name}: {told.happened}\n  {told.source}")
        click.echo("".join(f"  $ {line}\n" for line in told.typed) + f"  {mark}: {told.held}\n")
        if played.problem:
            happened += 1
            click.echo(played.output, err=True)
    click.echo("To try one by hand: reconcile demo in an empty folder, then type its lines.")
    return FAILED if happened else DONE
