"""Files of older versions, read as `Contents` and brought to the newest version.

Versions 1 to 3 had one chain of journal rows and one serial for all scopes; in files that versions 4 and 5
made of these, the chain of a scope goes on from there. So a row may follow any row of the place before it.
All rows get the hashes of a chain for each scope; the copy that a migration makes keeps the old ones.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns
from reconciler.state.contents import Contents, chained
from reconciler.state.sqlite import archive, checks, heads, moving, records, schema
from reconciler.state.sqlite.checks import LEASES, Checks, sha256
from reconciler.state.sqlite.database import Damaged, check_all_pages, transaction
from reconciler.state.sqlite.heads import Head

_NO_CHECKS, _NO_SCOPES, _NO_ARCHIVE = 1, 2, 4  # the newest versions without them


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an older state to the newest version, in one transaction. Raises Damaged, and changes nothing."""
    with transaction(connection):
        # Another process may have migrated it while we waited for the transaction.
        if schema.version_of(connection) == schema.VERSION:
            return
        current, contents = _read(connection)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            if table not in LEASES:
                connection.execute(f"DROP TABLE {table}")
        schema.make(connection, contents.lineage, contents.environment)
        # What was seen of the state before is older.
        moving.fill(connection, contents, current.version + 1, current.key)
        if contents.moved_to:
            moving.mark(connection, contents.lineage, contents.moved_to)


def checks_of(connection: sqlite3.Connection) -> tuple[Checks, Mapping[str, Head]]:
    """The check values of a file of any version, and the heads. Raises Damaged.

    Of a version with one chain for all scopes, its end is the head of the whole state.
    """
    try:
        current = checks.read(connection)
    except Damaged:
        return _older_checks(connection)
    return current, heads.read(connection, current)


def _older_checks(connection: sqlite3.Connection) -> tuple[Checks, Mapping[str, Head]]:
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    beside = {name: meta[name] for name in ("lineage", "serial") if name in meta}
    try:
        if schema.version_of(connection) == _NO_CHECKS:
            values = _unchecked(connection, meta["lineage"])
        else:
            values = json.loads(meta["checks"])
            if sha256({**beside, **values}) != meta["digest"]:
                raise ValueError
        known = {"rows": values.get("head_seq"), **beside, **values}
        current = Checks(**{name: known[name] for name in Checks.__slots__ if name in known})
    except (KeyError, TypeError, ValueError):
        raise Damaged("its lineage, serial or check values are not what was written") from None
    if "head_seq" not in values:
        return current, heads.read(connection, current)
    return current, {"": Head(current.rows, values["head_hash"], current.serial, values["records"])}


def _unchecked(connection: sqlite3.Connection, lineage: str) -> dict[str, Any]:
    newest = connection.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    seq, hash = newest or (0, lineage)
    (count,) = connection.execute("SELECT count(*) FROM records").fetchone()
    return {"head_seq": seq, "head_hash": hash, "records": count}


def _read(connection: sqlite3.Connection) -> tuple[Checks, Contents]:
    check_all_pages(connection)
    try:
        current, known = checks_of(connection)
        checks.verify_tables(connection, current, current.tables)
        stored = records.load(connection, heads.count(known))
        rows = chained(current.lineage, _rows(connection, current, known))
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a row contains data that was never written there") from error
    begin = Head(0, current.lineage, current.serial)
    ends = dict.fromkeys((*known, *(record.scope for record in stored.values())), begin)
    ends |= {row.scope: Head(row.seq, row.hash, current.serial) for row in rows}
    return current, moving.contents_of(connection, current.lineage, b"", rows, ends, begin)


def _rows(
    connection: sqlite3.Connection, current: Checks, ends: Mapping[str, Head]
) -> Iterator[tuple[str, EntryColumns]]:
    """Scope and columns of all rows, oldest first. Raises Damaged where one does not follow from another."""
    version = schema.version_of(connection) or 0
    query = archive.READ if version > _NO_SCOPES else archive.READ.replace(" scope,", " '',")
    packed = archive.rows(connection) if version > _NO_ARCHIVE else ()
    hashes: dict[int, dict[str, str]] = defaultdict(dict)  # by place in the chain, and scope
    hashes[0][""] = current.lineage
    number = 0
    for *columns, data, hash, seq, scope, row in (*packed, *connection.execute(f"{query} ORDER BY rowid")):
        number += 1
        if row != number:
            raise Damaged(f"journal row {number} is missing")
        before = hashes[seq - 1]
        own = [before[scope]] if scope in before else []
        if not any(row_hash(each, seq, columns, data, scope) == hash for each in (*own, *before.values())):
            raise Damaged(f"journal row {row} is not what was written")
        hashes[seq][scope] = hash
        yield scope, (*columns, data.decode())
    if number != current.rows or any(end.hash not in hashes[end.seq].values() for end in ends.values()):
        raise Damaged("the journal does not end where it should")
