"""What can still be believed of a damaged state: each change whose line or file is what was written.

A line holds the journal rows of one commit and the records that it stored, so they are believed together. A
line that is lost costs its own rows and records only: what they were about stays as the backup has it, and a
call whose end stood there is open again.
"""

import gzip
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state import rules
from reconciler.state.codec import EntryColumns, decode_record
from reconciler.state.contents import Body, StateDump
from reconciler.state.log import head as heads
from reconciler.state.log import root as roots
from reconciler.state.log.bucket import Found, quoted
from reconciler.state.log.changes import Change
from reconciler.state.log.damage import Damaged, Newer
from reconciler.state.log.head import Head
from reconciler.state.places.sqlite import seen
from reconciler.state.places.sqlite.bucket import TableBucket, digest_of, tag_of
from reconciler.state.places.sqlite.seen import NOTHING, Seen
from reconciler.state.store import Event

_READ_AT_ONCE = 4096


@dataclass(slots=True)
class Salvage:
    """What a damaged state holds besides a backup.

    `rows`: of the journal after those of the backup, with their scopes, oldest first in each. `records`: all,
    as of the newest change that was read. `serials`, `epochs`: the highest of a scope. `reopened`: where a
    call was begun whose end may stand in a line that is lost. `seen`: what the file says of itself.
    `lineage`: "" where the root cannot be read.
    """

    records: dict[Address, Body]
    rows: list[tuple[str, EntryColumns]] = field(default_factory=list)
    serials: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    reopened: set[Address] = field(default_factory=set)
    seen: Seen = NOTHING
    lineage: str = ""


def salvage(connection: sqlite3.Connection, base: StateDump, found: Salvage) -> None:
    """Add to `found` what came after the backup, `base`."""
    objects = dict(_objects(connection))
    folders = [key.partition("/")[0] for key in objects if "/" in key]
    generation = max(folders, key=folders.count, default="")
    names = set(base.heads)
    with suppress(StoreError, KeyError):
        root = roots.decoded(TableBucket("of the copy"), Found(*objects["state.json"]))
        found.lineage, generation = root.lineage, root.generation
        names |= set(root.scopes)
    with suppress(sqlite3.Error, Damaged):
        found.seen = seen.of(connection)
    for key, (body, _) in objects.items():
        with suppress(ValueError, KeyError, TypeError):
            if key.startswith(f"{generation}/heads/"):
                names.add(json.loads(body)["scope"])
    arrived: dict[Address, Body] = {}
    for name in sorted(names):
        head, key_of_head = Head(name, base.lineage), f"{generation}/heads/{quoted(name)}"
        with suppress(Damaged, Newer, KeyError):
            head, _ = heads.decode(objects[key_of_head][0] + b"\n", name, base.lineage)
        lines = [*_lines(connection, key_of_head)]
        for key, (body, tag) in objects.items():
            if key.startswith(f"{generation}/journal/{quoted(name)}/") and tag_of(body) == tag:
                lines += gzip.decompress(body).splitlines()
        arrived |= _take_scope(name, head, _changes(lines), base, found)
    found.records |= arrived  # also where the line is lost by which the record left its former scope


def _take_scope(
    name: str, head: Head, changes: Sequence[Change], base: StateDump, found: Salvage
) -> dict[Address, Body]:
    """Add what came after the backup in one scope; returns the records that were stored then."""
    known = {row.hash for row in base.rows if row.scope == name}
    in_backup = [change.number for change in changes if any(row.hash in known for row in change.rows)]
    newest = max(in_backup, default=0)
    later = [change for change in changes if change.number > newest]
    arrived: dict[Address, Body] = {}
    for change in later:
        found.rows += [(name, row.columns) for row in change.rows]
        for address in change.remove:
            arrived.pop(address, None)
            body = found.records.get(address)
            if body is not None and decode_record(address, body.serial, body.text.encode()).scope == name:
                del found.records[address]
        arrived |= {stored.address: Body(stored.serial, stored.body) for stored in change.put}
    serials = [stored.serial for change in later for stored in change.put]
    found.serials[name] = max([base.head(name).serial, head.record_serial, *serials])
    found.epochs[name] = max(base.head(name).epoch, head.epoch)
    found.reopened |= _reopened(later, newest, head)
    return arrived


def _reopened(later: Sequence[Change], newest: int, head: Head) -> set[Address]:
    """Where calls are open whose end may stand in a line that is lost. `newest`: change in the backup."""
    numbers = {change.number for change in later}
    end = head.changes or max(numbers, default=newest) + 1
    lost = max((number for number in range(newest + 1, end + 1) if number not in numbers), default=0)
    opened: dict[tuple[str, str, int], Address] = {}
    for change in later:
        for run, event, _, address, step, attempt, _ in (row.columns for row in change.rows):
            if event == Event.INTENT and address is not None and change.number < lost:
                opened[run, step, attempt] = Address.parse(address)
            elif event in rules.CLOSING:
                opened.pop((run, step, attempt), None)
    return set(opened.values())


def _changes(lines: Iterable[bytes]) -> list[Change]:
    found: dict[int, Change] = {}
    for line in lines:
        with suppress(ValueError):
            change = Change.from_line(line.decode())
            found[change.number] = change
    return [found[number] for number in sorted(found)]


def _lines(connection: sqlite3.Connection, head: str) -> Iterator[bytes]:
    """The lines of a head that are what was written."""
    query = "SELECT CAST(line AS BLOB), digest FROM lines WHERE head = ? ORDER BY number"
    return (line for line, digest in _readable(connection, query, head) if digest_of(line) == digest)


def _objects(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[bytes, str]]]:
    """By key, what can be read of a body from its beginning, and its tag."""
    for rowid, key, tag in _readable(connection, "SELECT rowid, key, tag FROM objects ORDER BY rowid"):
        yield key, (_body(connection, rowid), tag)


def _body(connection: sqlite3.Connection, rowid: int) -> bytes:
    found = b""
    with suppress(sqlite3.Error), connection.blobopen("objects", "body", rowid, readonly=True) as blob:
        while chunk := blob.read(_READ_AT_ONCE):
            found += chunk
    return found


def _readable(connection: sqlite3.Connection, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
    """The rows up to the first that cannot be read, from both ends: a damaged page stops a walk."""
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error):
            yield from connection.execute(f"{query} {order}", values)
