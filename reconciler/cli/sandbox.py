"""`reconcile sandbox`: the emulated platform as a process of its own."""

from pathlib import Path

import click

from reconciler.cli.failures import DONE, reports_failures


@click.command("sandbox", short_help="Run the emulated platform.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 picks a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--db", type=click.Path(dir_okay=False, path_type=Path), help="File that keeps the world.")
@click.option("--clock", default="real", show_default=True, help="real, manual, or xN: N times faster.")
@click.option(
    "--profile", type=click.Choice(["documented", "extended"]), default="documented", show_default=True
)
@click.option(
    "--seed", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="World to start with."
)
@click.option("--token", default="sandbox", show_default=True, help="Bearer token that /v1 asks for.")
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@reports_failures
def command(
    port: int,
    host: str,
    db: Path | None,
    clock: str,
    profile: str,
    seed: Path | None,
    token: str,
    until_stdin_closes: bool,
) -> int:
    """Run the emulated platform. The first line on stdout is `listening on URL`; see also /_sandbox/."""
    from reconciler.sandbox import serve

    if db is not None:
        _refuse_a_missing_folder(db.parent)
    try:
        serve(
            db=db,
            port=port,
            host=host,
            clock=clock,
            profile=profile,
            seed=seed,
            token=token,
            ready=lambda url: click.echo(f"listening on {url}"),
            until_stdin_closes=until_stdin_closes,
        )
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure
    return DONE


def _refuse_a_missing_folder(folder: Path) -> None:
    """The project's own `.reconcile` is made when it is missing; any other is more likely a slip."""
    needed = folder.parent if folder.name == ".reconcile" else folder
    if not needed.is_dir():
        raise click.UsageError(f"--db: the directory `{needed}` does not exist")
