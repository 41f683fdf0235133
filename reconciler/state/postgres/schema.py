"""The tables of the state in PostgreSQL, as numbered migrations that are only ever added to.

They are in the schema `reconcile` of the database that the URL names. Each environment has a state of its
own, a row in `states`; the rows of other tables name theirs.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from psycopg import errors

from reconciler.core.errors import StateMoved, StoreError
from reconciler.state.contents import Contents, is_there
from reconciler.state.postgres.line import BEGIN, COMMIT, LIMITS, Line, Row, Statement
from reconciler.state.postgres.place import Place
from reconciler.state.postgres.problems import Damaged

# Entry n takes the schema from version n to n + 1.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE reconcile.states (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, environment text NOT NULL UNIQUE,
            lineage text NOT NULL, key bytea NOT NULL, trunk_seq bigint NOT NULL, trunk_hash text NOT NULL,
            trunk_serial bigint NOT NULL, digest text NOT NULL, moved_to text NOT NULL DEFAULT ''
        )""",
        """CREATE TABLE reconcile.leases (
            state integer NOT NULL, scope text NOT NULL, epoch bigint NOT NULL DEFAULT 0,
            holder text NOT NULL DEFAULT '', since timestamptz NOT NULL DEFAULT 'epoch',
            expires_at timestamptz NOT NULL DEFAULT 'epoch', released boolean NOT NULL DEFAULT true,
            token text NOT NULL DEFAULT '', PRIMARY KEY (state, scope)
        )""",
        # Where the chain of a scope ends; `lists` and `digest`: see `heads`.
        """CREATE TABLE reconcile.heads (
            state integer NOT NULL, scope text NOT NULL, seq bigint NOT NULL, hash text NOT NULL,
            serial bigint NOT NULL, records bigint NOT NULL, lists text NOT NULL, digest text NOT NULL,
            PRIMARY KEY (state, scope)
        )""",
        """CREATE TABLE reconcile.records (
            state integer NOT NULL, kind text NOT NULL, app text NOT NULL, name text NOT NULL,
            ordinal integer NOT NULL, scope text NOT NULL, id text NOT NULL, serial bigint NOT NULL,
            body text NOT NULL, digest text NOT NULL, PRIMARY KEY (state, kind, app, name, ordinal)
        )""",
        "CREATE INDEX ON reconcile.records (state, scope)",
        # `row` is the order in which rows came, `seq` a row's place in its chain.
        """CREATE TABLE reconcile.journal (
            state integer NOT NULL, scope text NOT NULL, seq bigint NOT NULL,
            row bigint GENERATED ALWAYS AS IDENTITY, run text NOT NULL, event text NOT NULL, at text NOT NULL,
            address text, step text NOT NULL, attempt integer NOT NULL, data text NOT NULL,
            previous text NOT NULL, hash text NOT NULL, PRIMARY KEY (state, scope, seq)
        )""",
        # What the journal amounts to, so that `load` never reads all of it.
        """CREATE TABLE reconcile.lists (
            state integer NOT NULL, list text NOT NULL, key text NOT NULL, scope text NOT NULL,
            seq bigint NOT NULL, value text NOT NULL, PRIMARY KEY (state, list, key)
        )""",
    ),
    (
        # Rows of the journal, packed: see `archive`.
        """CREATE TABLE reconcile.archive (
            state integer NOT NULL, scope text NOT NULL, first bigint NOT NULL, last bigint NOT NULL,
            body bytea NOT NULL, PRIMARY KEY (state, scope, first)
        )""",
        "ALTER TABLE reconcile.archive ALTER body SET STORAGE EXTERNAL",  # it is compressed already
        # Who was granted something on the journal has it on this part of it, too.
        """DO $$ DECLARE granted record; BEGIN
            FOR granted IN SELECT privilege_type, is_grantable, pg_get_userbyid(grantee) AS role, grantee
                FROM pg_class, aclexplode(relacl) WHERE oid = 'reconcile.journal'::regclass
                AND grantee <> relowner
            LOOP
                EXECUTE 'GRANT ' || granted.privilege_type || ' ON reconcile.archive TO '
                    || CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(granted.role) END
                    || CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
            END LOOP;
        END $$""",
    ),
)

VERSION = len(MIGRATIONS)

ALONE: Statement = ("SELECT pg_advisory_xact_lock(hashtext('reconcile'), hashtext('schema'))", ())
_EXISTS: Statement = ("SELECT to_regclass('reconcile.version') IS NOT NULL", ())
_TABLES: Statement = (
    """SELECT relname FROM pg_class
    WHERE relnamespace = to_regnamespace('reconcile') AND relkind IN ('r', 'v')""",
    (),
)
_VERSION: Statement = ("SELECT version FROM reconcile.version", ())
_HEADS = """SELECT encode(sha256(convert_to(
    string_agg(h.digest, ',' ORDER BY h.scope COLLATE "C"), 'UTF8')), 'hex')
    FROM reconcile.heads h WHERE h.state = s.id"""
_READ = f"""SELECT v.version, s.id, s.lineage, s.key, s.digest, s.moved_to, coalesce(({_HEADS}), '')
    FROM reconcile.version v LEFT JOIN reconcile.states s ON s.environment = %s"""
_READ_AGAIN = """SELECT v.version, s.lineage, s.moved_to
    FROM reconcile.version v JOIN reconcile.states s ON s.id = %s"""
# `trunk_*` is where each chain and serial begins: since version 0.2.0 at the lineage, and at 0.
_INSERT = """INSERT INTO reconcile.states
    (environment, lineage, key, trunk_seq, trunk_hash, trunk_serial, digest)
    VALUES (%s, %s, %s, 0, %s, 0, %s) ON CONFLICT DO NOTHING RETURNING id"""


@dataclass(frozen=True, slots=True)
class Identity:
    """One row of `states`."""

    id: int
    lineage: str
    key: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        key = hashlib.sha256(self.key).hexdigest()
        parts = [self.lineage, key, 0, self.lineage, 0]  # where chains and serials begin
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Known(Struct, frozen=True):
    """What one short query tells about a state. `identity`: None where this environment has none.

    `version`: of the schema, 0 for none; `heads`: a digest over all heads, which each commit changes.
    `moved_to`: where the state has moved; "" for not at all.
    """

    version: int
    identity: Identity | None = None
    heads: str = ""
    moved_to: str = ""


async def known(line: Line, environment: str) -> Known:
    """In one round trip, where there is a schema. Raises StoreError for a newer one, or a part of one."""
    try:
        (rows,) = await line.ask(look(environment))
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        (tables,) = await line.ask(_TABLES)
        if not tables:
            return Known(0)
        # Made since the first look, or else this raises: a part of a state, or another program's tables.
        (rows,) = await line.ask(look(environment))
    if not rows:
        raise Damaged("table version is empty")
    return read(rows[0], line.place)


def look(environment: str) -> Statement:
    """Asks for a row that `read` takes."""
    return _READ, [environment]


def read(row: Row, place: Place) -> Known:
    """Raises StoreError for a newer schema, and Damaged."""
    version, id, lineage, key, digest, moved_to, heads = row
    _refuse_newer(version, place)
    if id is None:
        return Known(version)
    identity = Identity(id, lineage, bytes(key))
    if identity.digest != digest:
        raise Damaged("its lineage or key is not what was written")
    return Known(version, identity, heads, moved_to)


def look_again(identity: Identity, *, shared: bool = False) -> Statement:
    """Asks for rows that `refuse_replaced` takes. `shared`: nobody moves the state in the meantime."""
    return f"{_READ_AGAIN}{' FOR SHARE OF s' if shared else ''}", [identity.id]


def refuse_replaced(rows: Sequence[Row], identity: Identity, place: Place) -> None:
    """Raises StoreError when the state was replaced, migrated by a newer program, or moved."""
    for version, lineage, moved_to in rows:
        _refuse_newer(version, place)
        if lineage == identity.lineage:
            if moved_to:
                raise StateMoved(place.shown, moved_to)
            return
    raise StoreError(f"the state {place.shown} was replaced by another during this run", help="run again")


def _refuse_newer(version: int, place: Place) -> None:
    if version > VERSION:
        raise StoreError(
            f"the state {place.shown} was written by a newer reconciler"
            f" (its version is {version}, this one knows {VERSION})",
            help="install that version or a newer one",
        )


async def migrate(line: Line) -> int:
    """Bring the schema to the newest version, and make it where there is none; the older version comes back.

    Two processes that do this at once take turns. Raises StoreError for a newer one.
    """
    _, _, _, ((exists,),) = await line.ask(BEGIN, LIMITS, ALONE, _EXISTS)
    if not exists:
        await line.ask(
            ("CREATE SCHEMA IF NOT EXISTS reconcile", ()),
            ("CREATE TABLE reconcile.version (version integer NOT NULL)", ()),
            ("INSERT INTO reconcile.version VALUES (0)", ()),
        )
    (((version,),),) = await line.ask(_VERSION)
    _refuse_newer(version, line.place)
    statements = [(statement, ()) for migration in MIGRATIONS[version:] for statement in migration]
    await line.ask(*statements, ("UPDATE reconcile.version SET version = %s", [VERSION]), COMMIT)
    return int(version)


async def insert_copy(line: Line, environment: str, contents: Contents) -> int:
    """The id of a new row, in the caller's transaction. Raises StoreError where there is one."""
    (made,) = await line.ask(_insertion(environment, Identity(0, contents.lineage, contents.key)))
    if not made:
        raise is_there(line.place.shown)
    ((id,),) = made
    await line.ask(mark_moved(id, contents.moved_to))
    return int(id)


def mark_moved(state: int, to: str) -> Statement:
    return "UPDATE reconcile.states SET moved_to = %s WHERE id = %s", [to, state]


def hold(state: int) -> Statement:
    """Nobody takes a lease, or moves the state, until the transaction ends."""
    return "SELECT FROM reconcile.states WHERE id = %s FOR UPDATE", [state]


async def insert(line: Line, environment: str, lineage: str, key: bytes) -> bool:
    """Make the state of `environment`, in a transaction of its own; False where there is one."""
    _, _, made, _ = await line.ask(BEGIN, LIMITS, _insertion(environment, Identity(0, lineage, key)), COMMIT)
    return bool(made)


def _insertion(environment: str, new: Identity) -> Statement:
    return _INSERT, [environment, new.lineage, new.key, new.lineage, new.digest]
