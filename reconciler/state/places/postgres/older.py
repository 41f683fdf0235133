"""What older programs left in tables for states, heads, records and journal, as the objects of today.

It is read until something is to be written. Then it is put in the one table, and the tables are dropped, so
that an older program finds no state any more: it says that it is not whole.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.clock import SystemClock
from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address
from reconciler.state.contents import Body, Head, Row, StateDump, unpacked
from reconciler.state.log import moving
from reconciler.state.log.bucket import Found, Layout
from reconciler.state.log.damage import damaged, newer_program
from reconciler.state.places.memory import MemoryBucket, MemoryState
from reconciler.state.places.postgres.connections import BEGIN_READING, COMMIT, LIMITS, Ask, Statement
from reconciler.state.places.postgres.connections import Row as Fields

MARK = "version"  # the table that each of them has
_VERSION = 3  # the last one; 2 added the table `archive`, and 3 dropped columns that are not read
_TABLES = ("states", "leases", "heads", "records", "journal", "lists", "archive", MARK)
# Who was granted something on the records has it on the objects, too.
GRANTS: Statement = (
    """DO $$ DECLARE granted record; BEGIN
        FOR granted IN SELECT privilege_type, is_grantable, pg_get_userbyid(grantee) AS role, grantee
            FROM pg_class, aclexplode(relacl) WHERE oid = 'reconcile.records'::regclass
            AND grantee <> relowner
        LOOP
            EXECUTE 'GRANT ' || granted.privilege_type || ' ON reconcile.objects TO '
                || CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(granted.role) END
                || CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
        END LOOP;
    END $$""",
    (),
)
_READ = (
    "SELECT version FROM reconcile.version",
    "SELECT id, environment, lineage, key, digest, moved_to FROM reconcile.states",
    # Of a scope that was leased and has no head, the columns of the head are empty.
    """SELECT coalesce(h.state, l.state), h.scope, h.seq, h.hash, h.serial, h.records, h.lists, h.digest,
        coalesce(l.epoch, 0) FROM reconcile.heads h
        FULL JOIN (SELECT * FROM reconcile.leases WHERE epoch > 0) l
        ON h.state = l.state AND h.scope = l.scope""",
    """SELECT state, kind, app, name, ordinal, serial, body, digest FROM reconcile.records""",
    """SELECT state, row, scope, seq, previous, hash, run, event, at, address, step, attempt, data
        FROM reconcile.journal""",
)
_PACKED = "SELECT state, body FROM reconcile.archive"
_HOLDERS = """SELECT scope, holder, extract(epoch FROM :now - since)::float8 FROM reconcile.leases
    WHERE NOT released AND expires_at > :now"""


def lock(tables: Collection[str]) -> Statement:
    """Nobody reads or changes them until the transaction ends."""
    return f"LOCK TABLE {_named(tables)} IN ACCESS EXCLUSIVE MODE", ()


def drop(tables: Collection[str]) -> Statement:
    """Drop the tables, whose content is in the new one."""
    return f"DROP TABLE {_named(tables)}", ()


def require_free(ask: Ask) -> None:
    """Raises Locked where an older program holds a scope."""
    for scope, holder, age_s in ask((_HOLDERS, ()))[0]:
        raise Locked(scope, holder, age_s)


def objects(ask: Ask, place: str, tables: Collection[str], *, begun: bool = False) -> Mapping[str, Found]:
    """By key, all objects of the states of all environments. Always the same ones for the same tables.

    `begun`: in the transaction of the caller. Raises StoreError.
    """
    wanted = [(text, ()) for text in (*_READ, *([_PACKED] if "archive" in tables else []))]
    found = ask(*wanted) if begun else ask(BEGIN_READING, LIMITS, *wanted, COMMIT)[2:-1]
    made = MemoryState(SystemClock())
    try:
        for contents in _states(place, *found):
            try:
                moving.write(MemoryBucket(made), Layout(contents.environment), contents, lambda: MARK)
            except StoreError as failure:  # says what is not what was written
                raise damaged(place, failure.message) from failure
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(place, "a row holds what was never written there") from error
    bodies = {key: found.body for key, (found, _) in made.objects.items()}
    return {key: Found(body, hashlib.sha256(body).hexdigest()) for key, body in bodies.items()}


def _states(
    place: str,
    version: Sequence[Fields],
    states: Sequence[Fields],
    heads: Sequence[Fields],
    records: Sequence[Fields],
    journal: Sequence[Fields],
    packed: Sequence[Fields] = (),
) -> Iterator[StateDump]:
    """Raises StoreError for what was not written so."""
    if not version:
        raise damaged(place, "table version is empty")
    if version[0][0] > _VERSION:
        raise newer_program(place)
    rows = [*journal, *((state, *row) for state, body in packed for row in unpacked(bytes(body)))]
    rows.sort(key=lambda row: row[1])
    for id, environment, lineage, key, digest, moved_to in states:
        parts = [lineage, hashlib.sha256(key).hexdigest(), 0, lineage, 0]
        if _digest(json.dumps(parts)) != digest:
            raise damaged(place, "its lineage or key is not what was written")
        ends = dict(_head(place, *row[1:]) for row in heads if row[0] == id)
        stored = dict(_record(place, *row[1:]) for row in records if row[0] == id)
        if len(stored) != (count := sum(row[5] for row in heads if row[0] == id)):
            raise damaged(place, f"there are {len(stored)} records, and not {count}")
        entries = tuple(Row(row[2], row[3], tuple(row[6:]), row[5]) for row in rows if row[0] == id)
        yield StateDump(lineage, bytes(key), environment, entries, stored, ends, moved_to)


def _head(place: str, scope: str | None, *columns: Any) -> tuple[str, Head]:
    seq, hash, serial, records, total, digest, epoch = columns
    if scope is None:
        raise damaged(place, "a scope that was leased has no head")
    if _digest(json.dumps([scope, seq, hash, serial, records, total])) != digest:
        raise damaged(place, "table heads is not what was written")
    return scope, Head(seq, hash, serial, epoch)


def _record(
    place: str, kind: str, app: str, name: str, ordinal: int, serial: int, body: str, digest: str
) -> tuple[Address, Body]:
    address = Address(kind, name, app or None, ordinal)
    if _digest(f"{kind}\n{app or None}\n{name}\n{ordinal}\n{serial}\n{body}") != digest:
        raise damaged(place, f"the record of {address} is not what was written")
    return address, Body(serial, body)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _named(tables: Collection[str]) -> str:
    return ", ".join(f"reconcile.{table}" for table in _TABLES if table in tables)
