"""`python -m tests.reliability.runners`: play rounds, print what was counted and what was wrong."""

import sys
import time
from contextlib import ExitStack

import click

from tests.reliability.runners.job import FAKETIME
from tests.reliability.runners.team import play
from tests.reliability.shared import SERVERS, server


@click.command()
@click.option(
    "--state",
    "wanted",
    required=True,
    metavar="URL",
    help="A server of PostgreSQL, by its superuser, or an endpoint of S3. "
    f"{', '.join(SERVERS)}: one that is started for this.",
)
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--clocks", is_flag=True, help="Wall clocks of the runners differ by ten minutes (libfaketime)."
)
def command(wanted: str, rounds: int, seed: int, clocks: bool) -> None:
    """Let a team of runners die, stand still and lose the store. Exits with 1 when anything is wrong."""
    if clocks and not FAKETIME.exists():
        raise click.UsageError(f"there is no {FAKETIME}: install Debian's libfaketime")
    started = time.monotonic()
    with ExitStack() as stack:
        found = server(wanted, stack)
        assert found is not None
        tally = play(found, rounds, seed, clocks=clocks)
    sys.exit(tally.end(seconds=f"{time.monotonic() - started:.0f}"))


if __name__ == "__main__":
    command()
