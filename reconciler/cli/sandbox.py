"""`reconcile sandbox`: the emulated platform as a process of its own."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.signals import listening
from reconciler.cli.verb import verb
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.manifests.reading.compose import compose


@verb("sandbox", report=None)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 picks a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--db", type=options.FILE, help="File that keeps the world.")
@click.option("--clock", default="real", show_default=True, help="real, manual, or xN: N times faster.")
@click.option(
    "--profile", type=click.Choice(["documented", "extended"]), default="documented", show_default=True
)
@click.option("--seed", type=options.FOUND, help="World to start with, as YAML or JSON.")
@click.option("--faults", type=options.FOUND, help="Script of faults to start with, as YAML or JSON.")
@click.option("--switch", "switches", multiple=True, metavar="NAME=VALUE", help="See /_sandbox/switches.")
@click.option("--strict", is_flag=True, help="Refuse what the API document does not describe.")
@click.option(
    "--postgres",
    type=click.Choice(["none", "real"]),
    default="none",
    show_default=True,
    envvar="RECONCILE_SANDBOX_POSTGRES",
    help="real: each cluster is a PostgreSQL server on loopback, with real backups.",
)
@click.option("--token", default="sandbox", show_default=True, help="Bearer token that /v1 asks for.")
@click.option(
    "--org-token",
    "organization_tokens",
    multiple=True,
    metavar="SLUG=TOKEN",
    help="Token that may touch this organization only; repeatable, also for one token.",
)
@click.option(
    "--machine-socket",
    type=options.FILE,
    help="Unix socket at which a machine may suspend itself.",
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
def command(
    db: Path | None,
    seed: Path | None,
    faults: Path | None,
    switches: Sequence[str],
    organization_tokens: Sequence[str],
    **settings: Any,
) -> None:
    """Run the emulated platform. The first line on stdout is `listening on URL`; see also URL/."""
    require_extra("sandbox", "the emulated platform")
    from reconciler.sandbox import serve  # needs the extra

    if db is not None:  # where its folder does not exist: most likely a typing mistake; .reconcile is made
        folder = db.parent.parent if db.parent.name == ".reconcile" else db.parent
        if not folder.is_dir():
            raise click.UsageError(f"--db: the directory `{folder}` does not exist")
    world = None if seed is None else _read(seed)
    if world is not None and not isinstance(world, dict):
        raise ReconcilerError(f"{seed} is not a seed: it holds no mapping")
    slugs: dict[str, list[str]] = {}  # of organizations, by token
    for text in organization_tokens:
        slug, equals, token = text.partition("=")
        if not equals or not slug:
            raise click.UsageError("--org-token: expected SLUG=TOKEN")
        slugs.setdefault(token, []).append(slug)
    try:
        serve(
            **settings,
            db=db,
            seed=world,
            seed_name="" if seed is None else str(seed),
            script=None if faults is None else _script(faults),
            switch=dict(map(_setting, switches)),
            organization_tokens=slugs,
            ready=listening,
        )
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure


def _setting(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE. The value is read as JSON, else it is text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--switch: `{text}` is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _script(file: Path) -> Any:
    """The script of faults in `file`. Raises click.UsageError for any other document."""
    from reconciler.sandbox.exchange import Refusal
    from reconciler.sandbox.faults import read

    script = _read(file)
    try:
        read(script)
    except Refusal as refusal:
        raise click.UsageError(f"--faults: {file}: {refusal.message}") from None
    return script


def _read(file: Path) -> Any:
    """The one document in `file`. Raises ReconcilerError when it is neither YAML nor JSON."""
    data = file.read_bytes()
    if file.suffix == ".json":  # the world of a sandbox may be larger than any manifest
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as problem:
            raise ReconcilerError(f"{file} is not JSON: {problem}") from problem
    composed = compose(data, str(file))
    if composed.diagnostics:
        raise ManifestError(f"{file} cannot be read", composed.shown())
    if len(composed.documents) != 1:
        raise ReconcilerError(f"{file} holds {len(composed.documents)} documents instead of one")
    return composed.documents[0].value
