"""Files of versions 1 to 6, read as `StateDump`, and brought to the newest version.

They had tables of rows, with a digest for each small table and each record. Versions 1 to 3 had one chain of
journal rows and one serial for all scopes; in files that versions 4 and 5 made of these, the chain of a scope
goes on from there. So a row may follow any row of the place before it. All rows get the hashes of a chain for
each scope; the copy that a migration makes keeps the old ones. From version 5 on, old rows are packed.
"""

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from reconciler.core.model import Address
from reconciler.state import rules
from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns, decode_record
from reconciler.state.contents import Body, Head, StateDump, chained, unpacked
from reconciler.state.contents import Row as ContentRow
from reconciler.state.log.damage import Damaged
from reconciler.state.places.sqlite import database, whole
from reconciler.state.places.sqlite.database import check_all_pages, transaction
from reconciler.state.places.sqlite.salvage import Salvage
from reconciler.state.places.sqlite.seen import Seen
from reconciler.state.store import Event

_NO_CHECKS, _NO_SCOPES, _NO_ARCHIVE, _ONE_SERIAL = 1, 2, 4, 5  # the newest versions like that
# The data as bytes: what a flipped bit made of the text need not be UTF-8.
_ROWS = (
    "SELECT run, event, at, address, step, attempt, CAST(data AS BLOB), hash, seq, scope, rowid FROM journal"
)
_RECORDS = "SELECT kind, name, app, ordinal, serial, CAST(body AS BLOB), digest FROM records"

Row = tuple[Any, ...]  # as `_ROWS` has it


class Checks(Struct):
    """What a file says of itself. `ends`: by scope, the end of its chain; of one chain for all, of "".

    `records`: how many there are. `rows`: of the journal. `key`: the digest of the fingerprint key.
    """

    lineage: str
    version: int = 0
    rows: int = 0
    serial: int = 0
    least_serial: int = 0
    records: int = 0
    key: str | None = None
    tables: dict[str, str] = field(default_factory=dict)
    ends: dict[str, tuple[int, str, int]] = field(default_factory=dict)


def newest(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """`connection` to the state in `path`, or to a copy in memory that has the newest version.

    Raises StoreError or Damaged. What is not given back is closed.
    """
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        if database.require(connection, path) == database.VERSION:
            copy.close()
            return connection
        connection.backup(copy)
        migrate(copy)
    except BaseException:
        copy.close()
        connection.close()
        raise
    connection.close()
    return copy


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an older state to the newest version, in one transaction. Raises Damaged, and changes nothing."""
    with transaction(connection):
        # Another process may have migrated it while we waited for the transaction.
        if database.version_of(connection) == database.VERSION:
            return
        contents, version = read(connection)
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in connection.execute(tables).fetchall():
            connection.execute(f"DROP TABLE {table}")
        # What was seen of the state before is older. The same file always gives the same objects.
        whole.fill(connection, contents, version + 1, lambda n: b"migrated"[:n])


def read(connection: sqlite3.Connection) -> tuple[StateDump, int]:
    """All of a state, with the digest of its key, and how many transactions it has had. Raises Damaged."""
    check_all_pages(connection)
    try:
        current = checks_of(connection)
        for table, digest in current.tables.items():
            if _digest_of(connection, table) != digest:
                raise Damaged(f"table {table} is not what was written")
        records = dict(records_of(connection))
        if len(records) != current.records:
            raise Damaged(f"there are {len(records)} sound records, and not {current.records}")
        rows = tuple(chained(current.lineage, _in_their_scopes(_followed(connection, current))))
        epochs = dict(connection.execute("SELECT scope, epoch FROM leases WHERE epoch > 0"))
        heads = _heads(current, database.version_of(connection) or 0, rows, records, epochs)
        contents = StateDump(
            current.lineage,
            bytes.fromhex(current.key or ""),
            _signed(connection, current.lineage, "environment"),
            rows,
            records,
            heads,
            _signed(connection, current.lineage, "moved_to"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a row contains data that was never written there") from error
    return contents, current.version


def checks_of(connection: sqlite3.Connection) -> Checks:
    """Raises Damaged, or sqlite3.Error."""
    version = database.version_of(connection) or 0
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        outside = {name: meta[name] for name in ("lineage", "serial") if name in meta}
        if version == _NO_CHECKS:
            values = _unchecked(connection, meta["lineage"])
        else:
            values = json.loads(meta["checks"])
            if _json_digest({**outside, **values}) != meta["digest"]:
                raise ValueError
        known = {"rows": values.get("head_seq"), **outside, **values}
        current = Checks(**{name: known[name] for name in Checks.__struct_fields__ if name in known})
        if "head_seq" in values:
            current.ends = {"": (current.rows, values["head_hash"], current.serial)}
            return current
    except (KeyError, TypeError, ValueError):
        raise Damaged("its lineage, serial or check values are not what was written") from None
    total = 0
    for scope, seq, hash, serial, records, digest in connection.execute("SELECT * FROM heads"):
        if _json_digest([scope, seq, hash, serial, records]) != digest:
            raise Damaged("table heads is not what was written")
        current.ends[scope], current.records = (seq, hash, serial), current.records + records
        total += int(digest, 16)
    if f"{total % (1 << 256):064x}" != values["heads"]:
        raise Damaged("table heads is not what was written")
    return current


def records_of(connection: sqlite3.Connection, order: str = "ASC") -> Iterator[tuple[Address, Body]]:
    """Those that are what was written. `order`: from which end they are read."""
    query = f"{_RECORDS} ORDER BY kind {order}, app {order}, name {order}, ordinal {order}"
    for kind, name, app, ordinal, serial, body, digest in connection.execute(query):
        if _sha256(f"{kind}\n{app or None}\n{name}\n{ordinal}\n{serial}\n".encode() + body) == digest:
            yield Address(kind, name, app or None, ordinal), Body(serial, body.decode())


def rows_of(connection: sqlite3.Connection, order: str = "ASC") -> Iterator[Row]:
    """The rows of the journal, not verified, oldest first; or those that are not packed, newest first."""
    version = database.version_of(connection) or 0
    packed = connection.execute("SELECT body FROM archive ORDER BY first") if version > _NO_ARCHIVE else ()
    for (body,) in packed:
        for row, scope, seq, run, event, at, address, step, attempt, data, hash in unpacked(body):
            yield run, event, at, address, step, attempt, data.encode(), hash, seq, scope, row
    query = _ROWS if version > _NO_SCOPES else _ROWS.replace(" scope,", " '',")
    yield from connection.execute(f"{query} ORDER BY rowid {order}")


def _unchecked(connection: sqlite3.Connection, lineage: str) -> dict[str, Any]:
    newest = connection.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    seq, hash = newest or (0, lineage)
    (count,) = connection.execute("SELECT count(*) FROM records").fetchone()
    return {"head_seq": seq, "head_hash": hash, "records": count}


def _followed(connection: sqlite3.Connection, current: Checks) -> Iterator[tuple[str, EntryColumns]]:
    """Scope and columns of all rows, oldest first. Raises Damaged where one does not follow from another."""
    hashes: dict[int, dict[str, str]] = defaultdict(dict)  # by place in the chain, and scope
    hashes[0][""] = current.lineage
    number = 0
    for *columns, data, hash, seq, scope, row in rows_of(connection):
        number += 1
        if row != number:
            raise Damaged(f"journal row {number} is missing")
        before = hashes[seq - 1]
        own = [before[scope]] if scope in before else []
        if not any(row_hash(known, seq, columns, data, scope) == hash for known in (*own, *before.values())):
            raise Damaged(f"journal row {row} is not what was written")
        hashes[seq][scope] = hash
        yield scope, (*columns, data.decode())
    ends = current.ends.values()
    if number != current.rows or any(hash not in hashes[seq].values() for seq, hash, _ in ends):
        raise Damaged("the journal does not end where it should")


def _in_their_scopes(rows: Iterable[tuple[str, EntryColumns]]) -> Iterator[tuple[str, EntryColumns]]:
    """The rows, and at the end the intents of versions 1 and 2 that are open, where their scope closes them.

    These versions named no scope, and what became of a call may stand in any.
    """
    opened: dict[tuple[str, str, int], tuple[str, EntryColumns]] = {}
    for scope, columns in rows:
        run, event, _, _, step, attempt, _ = columns
        if event == Event.INTENT:
            opened[run, step, attempt] = scope, columns
        elif event in rules.CLOSING:
            opened.pop((run, step, attempt), None)
        yield scope, columns
    for scope, columns in opened.values():
        run, _, at, address, step, attempt, data = columns
        about = json.loads(data).get("scope", scope)
        if about != scope:
            note = json.dumps({"reopened_in": about})
            yield scope, (run, Event.SETTLED, at, address, step, attempt, note)
            yield about, columns


def _heads(
    current: Checks,
    version: int,
    rows: Sequence[ContentRow],
    records: Mapping[Address, Body],
    epochs: Mapping[str, int],
) -> dict[str, Head]:
    """By scope. Up to version 5, the serials of a scope go on from the highest of all."""
    of_scope = version > _ONE_SERIAL
    serials = {scope: serial for scope, (_, _, serial) in current.ends.items() if of_scope}
    least = current.least_serial if of_scope else current.serial
    ends = {row.scope: (row.seq, row.hash) for row in rows}
    kept = (decode_record(address, body.serial, body.text.encode()) for address, body in records.items())
    return {
        scope: Head(*ends.get(scope, (0, current.lineage)), serials.get(scope, least), epochs.get(scope, 0))
        for scope in {*current.ends, *epochs, *ends, *(record.scope for record in kept)}
    }


def _signed(connection: sqlite3.Connection, lineage: str, key: str) -> str:
    """A value with a digest of its own; "" where there is none. Raises Damaged."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if found is None:
        return ""
    row = json.loads(found[0])
    if row["check"] != _sha256(f"{lineage}:{row['name']}".encode()):
        raise Damaged(f"`{key}` in its table meta is not what was written")
    return str(row["name"])


def _digest_of(connection: sqlite3.Connection, table: str) -> str:
    rows = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own names
    return _sha256(repr(sorted(rows, key=repr)).encode())


def _json_digest(value: Any) -> str:
    return _sha256(json.dumps(value, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- damaged files ---


def salvage(connection: sqlite3.Connection, base: StateDump, version: int, found: Salvage) -> None:
    """Add to `found` the rows after the backup, `base`, whose hashes fit, and records whose digests do.

    `version`: the newest change of the backup.
    """
    known = None
    with suppress(sqlite3.Error, Damaged):
        known = checks_of(connection)
        found.seen, found.lineage = Seen(known.version, "", known.rows, known.serial), known.lineage
        found.serials = dict.fromkeys(base.heads, known.serial)
    if known is not None and known.version + 1 < version:
        return  # an older copy was put in its place: the backup knows all that it knows, and more
    records: dict[Address, Body] = {}
    rows: dict[int, Row] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error, ValueError):
            records.update(records_of(connection, order))  # up to the first that cannot be read
        with suppress(sqlite3.Error, ValueError, TypeError, AttributeError):
            rows.update((row[-1], row) for row in rows_of(connection, order))
    is_whole = known is not None and len(records) == known.records
    if is_whole:
        found.records = records
    for address, body in records.items():
        if address not in base.records or body.serial >= base.records[address].serial:
            found.records[address] = body
    for scope, columns in _following(rows, base):
        changed = Address.parse(columns[3]) if columns[3] and rules.changes_a_record(columns[1]) else None
        if is_whole or changed is None or changed in records:
            found.rows.append((scope, columns))
        else:
            found.reopened.add(changed)


def _following(rows: Mapping[int, Row], base: StateDump) -> list[tuple[str, EntryColumns]]:
    """The rows after the backup, with their scopes. The row before one may be of another scope."""
    hashes: dict[int, set[str]] = defaultdict(set, {0: {base.lineage}})
    for head in base.heads.values():
        hashes[head.seq].add(head.hash)
    for *_, hash, seq, _, _ in rows.values():
        hashes[seq].add(hash)
    in_backup, found = {row.columns for row in base.rows}, list[tuple[str, EntryColumns]]()
    for _, (*columns, data, hash, seq, scope, _) in sorted(rows.items()):
        if any(row_hash(before, seq, columns, data, scope) == hash for before in hashes[seq - 1]):
            read: EntryColumns = (*columns, data.decode())
            # All up to a row that is in the backup are.
            found = [] if read in in_backup else [*found, (scope, read)]
    return found
