"""What can still be believed of a damaged state: journal rows whose hashes fit, and records that they prove.

Each change of a scope is a line, in the scope's head or in a segment. Its rows are believed where they follow
from the row before, as it stands there. Its records are believed where the line comes from an object that is
what was written and no change is missing since the backup; or where the records of the scope come to the sum
in its head, which they do although a row is damaged.
"""

import json
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state import rules
from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns, decode_record
from reconciler.state.contents import Body, Contents
from reconciler.state.log import head as heads
from reconciler.state.log import root as roots
from reconciler.state.log.bucket import Found
from reconciler.state.log.changes import Change, Stored
from reconciler.state.log.damage import Damaged, Newer
from reconciler.state.log.head import Head
from reconciler.state.log.keys import quoted
from reconciler.state.places.sqlite import older, schema, seen
from reconciler.state.places.sqlite.bucket import TableBucket, tag_of

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class SalvagedRow:
    """`proven`: what it says of records is known."""

    scope: str
    columns: EntryColumns
    proven: bool


@dataclass(slots=True)
class Salvage:
    """`rows`: after those of the backup. `records`: of each scope that was read, as far as they are proven.

    `serials`, `epochs`: the highest of a scope. `rows_known`: how many the journal had, and `changes` the
    state; None: that is not known. `key`: b"" where its root cannot be read.
    """

    rows: list[SalvagedRow] = field(default_factory=list)
    records: dict[Address, Body] = field(default_factory=dict)
    serials: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    lineage: str = ""
    key: bytes = b""
    rows_known: int | None = None

    @property
    def reopened(self) -> set[Address]:
        """Where a call changed something, and nothing proves its record."""
        return {
            Address.parse(row.columns[3])
            for row in self.rows
            if not row.proven and rules.changes_a_record(row.columns[1]) and row.columns[3] is not None
        }


def salvage(file: Path, base: Contents, version: int) -> Salvage:
    """Read `file`, a copy of the damaged database with its WAL next to it. Never raises for what it holds.

    `base`: the backup, after which rows are looked for; `version`: its newest change.
    """
    found = Salvage(records=dict(base.records))
    with suppress(sqlite3.Error), closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.text_factory = lambda text: text.decode(errors="replace")
        if (schema.version_of(connection) or schema.VERSION) < schema.VERSION:
            _of_older(connection, base, version, found)
        else:
            _of_objects(connection, base, found)
    return found


def _of_objects(connection: sqlite3.Connection, base: Contents, found: Salvage) -> None:
    objects = dict(_objects(connection))
    names, generation = set(base.heads), _generation(objects)
    with suppress(StoreError, KeyError):
        root = roots.decoded(TableBucket("of the copy"), Found(*objects["state.json"]))
        found.lineage, found.key, generation = root.lineage, root.key, root.generation
        names |= set(root.scopes)
    with suppress(sqlite3.Error, Damaged, TypeError):
        counted = seen.of(connection)
        found.changes, found.rows_known = counted.version, counted.rows
    for key, (body, _) in objects.items():
        with suppress(KeyError, ValueError):
            if key.startswith(f"{generation}/heads/"):
                names.add(json.loads(body.partition(b"\n")[0])["scope"])
    for scope in sorted(names):
        _Scope(scope, base, objects, generation).salvage(found)


class _Scope:
    """The changes of one scope, as far as they can be read."""

    def __init__(
        self, name: str, base: Contents, objects: Mapping[str, tuple[bytes, str]], generation: str
    ) -> None:
        self._name = name
        self._base = base
        self._changes: dict[int, Change] = {}
        self._sound: set[int] = set()
        self._head: Head | None = None
        for key in sorted(
            each for each in objects if each.startswith(f"{generation}/journal/{quoted(name)}/")
        ):
            body, tag = objects[key]
            self._take(_unpacked(body).splitlines(), sound=tag_of(body) == tag)
        body, tag = objects.get(f"{generation}/heads/{quoted(name)}", (b"", ""))
        with suppress(Damaged, Newer):
            self._head = heads.decode(body.partition(b"\n")[0] + b"\n", name, base.lineage)[0]
        self._take(body.decode(errors="replace").split("\n")[1:], sound=tag_of(body) == tag)

    def salvage(self, found: Salvage) -> None:
        head, begin = self._head, self._base.head(self._name)
        ends = self._ends()
        hashes = {0: self._base.lineage, begin.seq: begin.hash}
        for number, end in ends.items():
            rows = self._changes[number].rows
            hashes |= {end - len(rows) + place: row.hash for place, row in enumerate(rows, 1)}
        later = [
            number for number in sorted(ends) if _is_later(self._changes[number], ends[number], begin.seq)
        ]
        stored, proven = self._replayed(later)
        for number in later:
            change = self._changes[number]
            for seq, row in enumerate(change.rows, ends[number] - len(change.rows) + 1):
                if seq > begin.seq and _follows(hashes.get(seq - 1), seq, row.columns, row.hash, self._name):
                    found.rows.append(SalvagedRow(self._name, row.columns, number in proven))
        for address in [each for each, _ in _of_scope(self._base, self._name)]:
            del found.records[address]
        found.records |= {each.address: Body(each.serial, each.body) for each in stored.values()}
        found.serials[self._name] = max(
            [begin.serial, head.record_serial if head else 0, *(each.serial for each in stored.values())]
        )
        found.epochs[self._name] = max(begin.epoch, head.epoch if head else 0)

    def _take(self, lines: Iterable[str], *, sound: bool) -> None:
        for line in lines:
            with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
                change = Change.from_line(line)
                if sound or change.number not in self._changes:
                    self._changes[change.number] = change
                    self._sound |= {change.number} if sound else set()

    def _ends(self) -> dict[int, int]:
        """By number of a change, the place of its newest row: counted from the first on, and back."""
        ends: dict[int, int] = {}
        number, seq = 1, 0
        while number in self._changes:
            seq += len(self._changes[number].rows)
            ends[number] = seq
            number += 1
        if self._head is not None:
            number, seq = self._head.changes, self._head.seq
            while number in self._changes and number not in ends:
                ends[number] = seq
                seq -= len(self._changes[number].rows)
                number -= 1
        return ends

    def _replayed(self, later: Sequence[int]) -> tuple[Mapping[Address, Stored], set[int]]:
        """The records after all changes that are proven, and which these are."""
        stored = dict(_of_scope(self._base, self._name))
        after_all, proven = dict(stored), set[int]()
        for number in later:
            _apply(after_all, self._changes[number])
            if (
                number in self._sound
                and (not proven or number - 1 in proven)
                and number - later[0] == len(proven)
            ):
                proven.add(number)
                _apply(stored, self._changes[number])
        total = sum(each.digest for each in after_all.values()) % (1 << 256)
        if self._head is not None and (len(after_all), f"{total:x}") == (self._head.records, self._head.sum):
            return after_all, set(later)
        return stored, proven


def _is_later(change: Change, end: int, known: int) -> bool:
    """Whether it may be none of a backup whose journal ends at `known`. To apply it twice changes nothing."""
    return end > known or (end == known and not change.rows)


def _apply(stored: dict[Address, Stored], change: Change) -> None:
    for address in change.remove:
        stored.pop(address, None)
    stored |= {each.address: each for each in change.put}


def _of_scope(base: Contents, scope: str) -> Iterator[tuple[Address, Stored]]:
    for address, body in base.records.items():
        if decode_record(address, body.serial, body.text.encode()).scope == scope:
            yield address, Stored(address, body.serial, body.text)


def _follows(before: str | None, seq: int, columns: EntryColumns, hash: str, scope: str) -> bool:
    with suppress(TypeError, ValueError, AttributeError):
        return before is not None and row_hash(before, seq, columns[:-1], columns[-1].encode(), scope) == hash
    return False


def _generation(objects: Iterable[str]) -> str:
    """The folder that most objects are in."""
    folders = [key.partition("/")[0] for key in objects if "/" in key]
    return max(folders, key=folders.count, default="")


def _objects(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[bytes, str]]]:
    """By key, what can be read of a body from its beginning, and its tag."""
    # From both ends: a damaged page stops a walk.
    for order in ("ASC", "DESC"):
        query = f"SELECT rowid, key, tag FROM objects ORDER BY rowid {order}"  # noqa: S608 - our own names
        for rowid, key, tag in _readable(connection, query):
            yield key, (_body(connection, rowid), tag)


def _body(connection: sqlite3.Connection, rowid: int) -> bytes:
    found = b""
    with suppress(sqlite3.Error), connection.blobopen("objects", "body", rowid, readonly=True) as blob:
        while chunk := blob.read(_CHUNK):
            found += chunk
    return found


def _unpacked(body: bytes) -> str:
    """What can be read of a segment from its beginning."""
    unpacking, found = zlib.decompressobj(wbits=31), b""
    with suppress(zlib.error):
        for at in range(0, len(body), 64):
            found += unpacking.decompress(body[at : at + 64])
    return found.decode(errors="replace")


def _readable(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows up to the first that cannot be read."""
    with suppress(sqlite3.Error):
        yield from connection.execute(query)


# --- files of older versions ---


def _of_older(connection: sqlite3.Connection, base: Contents, version: int, found: Salvage) -> None:
    known = None
    with suppress(sqlite3.Error, Damaged):
        known = older.checks_of(connection)
        found.changes, found.rows_known, found.lineage = known.version, known.rows, known.lineage
        found.serials = dict.fromkeys(base.heads, known.serial)
    if known is not None and known.version + 1 < version:
        return  # an older copy was put in its place: the backup knows all that it knows, and more
    records: dict[Address, Body] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error, ValueError):
            for address, body in older.records_of(connection, order):
                records[address] = body  # noqa: PERF403 - those before the first that cannot be read count
    is_whole = known is not None and len(records) == known.records
    if is_whole:
        found.records = records
    else:
        found.records |= {
            address: body
            for address, body in records.items()
            if address not in base.records or body.serial >= base.records[address].serial
        }
    rows: dict[int, older.Row] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error, ValueError, TypeError, AttributeError, zlib.error):
            for row in older.rows_of(connection, order):
                rows[row[-1]] = row
    # Hashes by place. The row before may be of another scope.
    hashes: dict[int, set[str]] = defaultdict(set, {0: {base.lineage}})
    for head in base.heads.values():
        hashes[head.seq].add(head.hash)
    for *_, hash, seq, _, _ in rows.values():
        hashes[seq].add(hash)
    known_rows = {row.columns for row in base.rows}
    for _, (*columns, data, hash, seq, scope, _) in sorted(rows.items()):
        if not any(row_hash(each, seq, columns, data, scope) == hash for each in hashes[seq - 1]):
            continue
        read: EntryColumns = (*columns, data.decode())
        if read in known_rows:
            found.rows.clear()  # all up to this one are in the backup
            continue
        proven = is_whole or read[3] is None or Address.parse(read[3]) in records
        found.rows.append(SalvagedRow(scope, read, proven))
