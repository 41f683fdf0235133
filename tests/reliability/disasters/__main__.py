"""`python -m tests.reliability.disasters`: play them over each place, print which held."""

import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from pathlib import Path

import click

from tests.cli.harness import serving
from tests.reliability.disasters.places import PLACES, places
from tests.reliability.disasters.scenes import SCENES, Stage


@click.command()
@click.option("--state", "kinds", multiple=True, type=click.Choice(PLACES), help="All of them by default.")
@click.argument("names", nargs=-1, type=click.Choice(sorted(SCENES)))
def command(kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Play the disasters NAMES (all of them by default). Exits with 1 where one did not end as it must."""
    started, played, failed = time.monotonic(), 0, 0
    for kind in kinds or PLACES:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="disasters-")))
            sandbox = stack.enter_context(serving("--clock", "x600", "--profile", "extended"))
            made = stack.enter_context(places(kind))
            for number, name in enumerate(names or SCENES):
                app = sandbox.app(f"shop{number}")
                try:
                    SCENES[name](Stage(sandbox, made, folder / name, app))
                except AssertionError:
                    failed += 1
                    click.echo(f"{kind}: {name}\n{traceback.format_exc(limit=-2)[-3000:]}")
                finally:
                    sandbox.clear_faults()
                played += 1
    click.echo(f"played {played}, failed {failed}, {time.monotonic() - started:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    command()
