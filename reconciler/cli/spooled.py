"""Outcomes that the state could not take, for a runner that is thrown away: its last lines, and a file."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
import click

from reconciler.cli.options import of_this_run
from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.plural import counted
from reconciler.reports.escape import visible
from reconciler.state.spooling import Spooling


@asynccontextmanager
async def collected(left: list[bytes], store: Spooling) -> AsyncIterator[None]:
    """After the block, `left` holds what is spooled beside `store`."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), suppress(ReconcilerError):
            left += await store.spooled()


@contextmanager
def told_last(left: list[bytes], file: Path | None, *, shared: bool) -> Iterator[None]:
    """After the block, write `left` to `file`; where the state is `shared`, print it: no file may stay."""
    try:
        yield
    finally:
        if left and (file is not None or shared):
            _tell(left, file)


def _tell(left: list[bytes], file: Path | None) -> None:
    what = f"{counted(len(left), 'outcome')} could not be stored"
    ingest = command("state", "ingest", file or "FILE").with_options(of_this_run())
    if file is not None:
        try:
            _write(file, b"".join(left))
        except OSError as failure:
            click.echo(f"error: {file} cannot be written: {failure.strerror}", err=True)
        else:
            what += f"; {file} holds them"
    click.echo(f"{what}: keep these lines in a file, and run `{ingest}`", err=True)
    for line in left:
        click.echo(visible(line.decode().rstrip("\n")), err=True)


def _write(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(descriptor)
