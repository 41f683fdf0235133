"""Commits in SQLite: what is asked for at one moment, in one transaction. All of it blocks."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import EntryColumns
from reconciler.state.sqlite import checks, heads, journal, leases, records
from reconciler.state.sqlite.checks import Checks
from reconciler.state.store import Event, Lease, not_covered


@dataclass(eq=False, slots=True)
class Request:
    """One call of `Store.commit`, on its way to the worker thread and back."""

    lease: Lease
    scope: str
    entries: Sequence[EntryColumns]
    put: Sequence[tuple[StateRecord, str]]
    remove: Sequence[Address]
    outcome: Sequence[StateRecord] | StoreError


def store(
    connection: sqlite3.Connection, path: Path, batch: Sequence[Request]
) -> list[Sequence[StateRecord]]:
    """Store all of `batch`, or nothing; returns the stored records of each request."""
    with checks.writing(connection, path, _tables(batch)) as current:
        return [_store(connection, current, request) for request in batch]


def _store(connection: sqlite3.Connection, current: Checks, request: Request) -> Sequence[StateRecord]:
    leases.check(connection, request.lease)
    for record, _ in request.put:
        if record.scope != request.scope:
            raise not_covered(record.scope, record.address)
    return write(connection, current, request.scope, request.entries, request.put, request.remove)


def write(
    connection: sqlite3.Connection,
    current: Checks,
    scope: str,
    entries: Sequence[EntryColumns],
    put: Sequence[tuple[StateRecord, str]] = (),
    remove: Sequence[Address] = (),
) -> Sequence[StateRecord]:
    """In the caller's transaction, whether or not a lease covers it."""
    with heads.changing(connection, current, scope) as head:
        journal.append(connection, current, head, scope, entries)
        for address in remove:
            records.remove(connection, head, address, scope)
        return records.put(connection, head, put)


def _tables(batch: Iterable[Request]) -> set[str]:
    """The small tables, besides those of every commit, that the entries of `batch` change."""
    starts = any(columns[1] == Event.RUN_STARTED for request in batch for columns in request.entries)
    return {"plans_run"} if starts else set()
