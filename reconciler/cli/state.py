"""`reconcile state`: what is recorded, and forgetting it."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, echo_json, reports_failures
from reconciler.model import Address, StateRecord, owed_work
from reconciler.state.store import Store


@click.group("state", short_help="List, show and forget what is recorded.")
def command() -> None:
    """What is recorded of the objects that are ours."""


@command.command("list")
@options.output
@options.state
@reports_failures
def list_records(output: str, state_url: str | None) -> int:
    """One line a record: address, id, what is owed."""
    records = _records(state_url)
    if output == "json":
        echo_json({"format_version": "1", "records": [document(record) for record in records.values()]})
        return DONE
    for address, record in sorted(records.items(), key=lambda item: str(item[0])):
        owed = "".join(f"  owes {owed.work}" for owed in record.obligations)
        inferred = "  inferred" if record.inferred else ""
        click.echo(f"{address}  {record.id}{inferred}{owed}")
    if not records:
        click.echo("nothing is recorded yet", err=True)
    return DONE


@command.command("show")
@click.argument("address")
@options.output
@options.state
@reports_failures
def show(address: str, output: str, state_url: str | None) -> int:
    """All that is recorded of one address. Secrets stand there as keyed fingerprints only."""
    record = _records(state_url).get(parse_address(address))
    if record is None:
        raise _not_recorded(address)
    found = document(record)
    if output == "json":
        echo_json({"format_version": "1", "record": found})
    else:
        for name, value in found.items():
            click.echo(f"{name}: {value}")
    return DONE


@command.command("forget")
@click.argument("address")
@options.state
@options.lock_timeout
@reports_failures
def forget(address: str, state_url: str | None, lock_timeout: float) -> int:
    """Drop the record and leave the object alone. The next apply adopts or creates again."""
    from reconciler.pipeline.resolve import forget as forget_record

    parsed = parse_address(address)

    async def work(store: Store) -> bool:
        import uuid

        from reconciler.cli.project import holder
        from reconciler.clock import SystemClock

        return await forget_record(store, parsed, SystemClock(), holder(), uuid.uuid4().hex, lock_timeout)

    if not _with_store(state_url, work):
        raise _not_recorded(address)
    click.echo(f"forgotten: {address} (the object itself is left alone)")
    return DONE


def document(record: StateRecord) -> dict[str, Any]:
    return {
        "address": str(record.address),
        "id": record.id,
        "scope": record.scope,
        "applied": dict(record.applied),
        "lifecycle": {
            "deletion": record.lifecycle.deletion.value,
            "snapshot_before": list(record.lifecycle.snapshot_before),
            "timeout_s": record.lifecycle.timeout_s,
        },
        "created_at": record.created_at.isoformat(),
        "source": record.source,
        "inferred": record.inferred,
        "owed": [
            {"work": owed.work, "because": owed.because, "certainty": owed.certainty}
            for owed in owed_work({record.address: record})
        ],
        "serial": record.serial,
    }


def parse_address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure


def _records(state_url: str | None) -> Any:
    async def work(store: Store) -> Any:
        return (await store.load()).records

    return _with_store(state_url, work)


def _with_store(state_url: str | None, work: Callable[[Store], Awaitable[Any]]) -> Any:
    import anyio

    from reconciler.cli.sources import settings_here
    from reconciler.clock import SystemClock
    from reconciler.state import open_store

    found = settings_here()

    async def main() -> Any:
        store = open_store(state_url or found.settings.state, root=found.root, clock=SystemClock())
        try:
            return await work(store)
        finally:
            await store.close()

    return anyio.run(main)


def _not_recorded(address: str) -> Exception:
    from reconciler.errors import ReconcilerError

    return ReconcilerError(f"`{address}` is not recorded", help="`reconcile state list` shows what is")
