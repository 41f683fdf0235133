"""The objects of a state in one table of PostgreSQL: a `Bucket`, and who is alive by the server's clock.

    reconcile.objects (key, part, tag, body, written_at)

An object is the bodies of its parts, one after another. Part 0 has its tag. Of a head, that is the first
line only: the changes after it become more with each commit, which adds a part instead of writing them again.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from reconciler.state.log.bucket import Bucket, Found, Layout, PreconditionFailed
from reconciler.state.log.damage import damaged
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.places.postgres import older
from reconciler.state.places.postgres.connections import (
    AT_MOST,
    BEGIN,
    BEGIN_READING,
    COMMIT,
    LIMITS,
    Ask,
    Connections,
    NoTable,
    Row,
    Statement,
)
from reconciler.state.places.postgres.errors import explain, not_whole

T = TypeVar("T")

SCHEMA = "reconcile"
_KEY = "PRIMARY KEY (key, part)"
# `key` sorts by its bytes, so that all keys under a prefix stand between two others.
_TABLE = f"""CREATE TABLE :schema.objects (
    key text COLLATE "C" NOT NULL, part integer NOT NULL, tag text NOT NULL, body bytea NOT NULL,
    written_at timestamptz NOT NULL, {_KEY}
)"""
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'v')"
_HAS_SCHEMA = "SELECT to_regnamespace(%s) IS NOT NULL"
_ALONE = "SELECT pg_advisory_xact_lock(hashtext('reconcile'), hashtext('schema'))"
_KEYS = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ':schema.objects'::regclass"

_GET = """SELECT key, max(tag), string_agg(body, ''::bytea ORDER BY part),
    extract(epoch FROM :now - min(written_at))::float8
    FROM :schema.objects WHERE key = ANY(%s) GROUP BY key HAVING min(part) = 0"""
_GET_UNDER = _GET.replace("key = ANY(%s)", "key >= %s AND key < %s")
_LIST = "SELECT key, tag FROM :schema.objects WHERE key >= %s AND key < %s AND part = 0"
_INSERT = """INSERT INTO :schema.objects (key, part, tag, body, written_at) VALUES (%s, 0, %s, %s, :now)
    ON CONFLICT DO NOTHING RETURNING tag"""
_REPLACE = """UPDATE :schema.objects SET tag = %s, body = %s, written_at = :now
    WHERE key = %s AND part = 0 AND tag = %s RETURNING tag"""
# What follows a write of part 0 in its transaction, where that has landed.
_LANDED = "EXISTS (SELECT FROM :schema.objects WHERE key = %s AND part = 0 AND tag = %s)"
_ADD = f"""INSERT INTO :schema.objects (key, part, tag, body, written_at)
    SELECT %s, %s, '', %s, :now WHERE {_LANDED}"""
_CLEAR = f"DELETE FROM :schema.objects WHERE key = %s AND part > 0 AND {_LANDED}"
_DELETE = "DELETE FROM :schema.objects WHERE key = %s"
_DELETE_UNDER = f"DELETE FROM :schema.objects WHERE key >= %s AND key < %s AND {_LANDED}"
_RENAME = f"""UPDATE :schema.objects SET key = %s || substr(key, %s)
    WHERE key >= %s AND key < %s AND {_LANDED}"""
_COPY = """INSERT INTO :schema.objects (key, part, tag, body, written_at)
    SELECT key, 0, tag, body, :now FROM unnest(%s::text[], %s::text[], %s::bytea[]) AS new(key, tag, body)"""


class TableBucket(Bucket):
    """The objects in the table of `schema`. `tell` gets a line about a migration."""

    is_of_one_moment = True
    at_once = AT_MOST

    def __init__(
        self,
        connections: Connections,
        tell: Callable[[str], None] = lambda message: None,
        schema: str = SCHEMA,
    ) -> None:
        self._connections = connections
        self._tell = tell
        self._schema = schema
        # Heads that this process wrote, by key: tag, what follows part 0, and in how many parts that stands.
        self._written: dict[str, tuple[str, bytes, int]] = {}
        self._ages: dict[str, float] = {}  # by lease, when it was read last
        self._before: Mapping[str, Found] = {}

    @property
    def place(self) -> str:
        return self._connections.url.shown

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        rows = self._rows(_GET, list(keys))
        if rows is None:
            return [self._before.get(key) for key in keys]
        found = {}
        for key, tag, body, age_s in rows:
            found[key] = Found(bytes(body), tag)
            if "/leases/" in key:
                self._ages[_last(key)] = age_s
        return [found.get(key) for key in keys]

    def get_under(self, prefix: str) -> Mapping[str, Found]:
        rows = self._rows(_GET_UNDER, *_under(prefix))
        if rows is None:
            return {key: found for key, found in self._before.items() if key.startswith(prefix)}
        return {key: Found(bytes(body), tag) for key, tag, body, _ in rows}

    def create(self, key: str, body: bytes) -> str:
        tag = _tag()
        return self._wrote(tag, [(_INSERT, [key, tag, body])])

    def replace(self, key: str, body: bytes, tag: str) -> str:
        new, (known, before, parts) = _tag(), self._written.pop(key, ("", b"", 0))
        first, rest = _in_parts(key, body)
        statements: list[Statement] = [(_REPLACE, [new, first, key, tag])]
        if known != tag or not rest.startswith(before):
            statements.append((_CLEAR, [key, key, new]))
            before, parts = b"", 0
        if added := rest[len(before) :]:
            parts += 1
            statements.append((_ADD, [key, parts, added, key, new]))
        self._wrote(new, statements)
        if rest:
            self._written[key] = new, rest, parts
        return new

    def delete(self, key: str) -> None:
        statement = self._statement(_DELETE, key)
        with suppress(*NoTable):
            self._connections.repeat(lambda ask: ask(BEGIN, LIMITS, statement, COMMIT))

    def list(self, prefix: str) -> Mapping[str, str]:
        rows = self._rows(_LIST, *_under(prefix))
        if rows is None:
            return {key: found.tag for key, found in self._before.items() if key.startswith(prefix)}
        return dict(rows)

    def close(self) -> None:
        """Close the connections; what was known of heads is forgotten."""
        self._connections.close()
        self._written.clear()

    # --- what no other place has ---

    def age_s(self, lease: str) -> float:
        """How old the newest beat of a lease was when it was read last, by the server's clock."""
        return self._ages.get(lease, 0.0)

    def require_key(self) -> None:
        """Raises StoreError where the table, which is made now at the latest, could hold an object twice."""
        try:
            found = self._read(_KEYS)
        except NoTable:
            self._make()
            found = self._read(_KEYS)
        if (_KEY,) not in found:
            raise damaged(self.place, f"the table {self._schema}.objects has lost its primary key")

    def rename(self, before: Layout, after: Layout, body: bytes, tag: str) -> bool:
        """Give all objects of one environment to another one, and drop its leases.

        The root, which must have this `tag`, gets a new `body`. False: it has another tag, and nothing was
        changed. Raises NoAnswer.
        """
        new, start = _tag(), len(before.prefix) + 1
        try:
            self._wrote(
                new,
                [
                    (_REPLACE, [new, body, before.root, tag]),
                    (_DELETE_UNDER, [*_under(before.leases), before.root, new]),
                    (_RENAME, [after.prefix, start, *_under(before.prefix), before.root, new]),
                ],
            )
        except PreconditionFailed:
            return False
        return True

    def proving(self, schema: str) -> "TableBucket":
        """A bucket like this one in a schema of its own, for `drop` in the end."""
        return TableBucket(self._connections, schema=schema)

    def drop(self) -> None:
        """Drop the schema with all that is in it."""
        statement = self._statement("DROP SCHEMA IF EXISTS :schema CASCADE")
        self._connections.repeat(lambda ask: ask(BEGIN, LIMITS, statement, COMMIT))

    def has_table(self) -> bool:
        """Whether there is a state, or was one, that this version has written."""
        return ("objects",) in self._connections.read((_TABLES, [self._schema]))[0]

    # --- the table ---

    def _read(self, text: str, *values: object) -> Sequence[Row]:
        return self._connections.read(self._statement(text, *values))[0]

    def _wrote(self, tag: str, statements: Sequence[Statement]) -> str:
        """Send the statements; returns the `tag` that the first one has written.

        Raises PreconditionFailed or NoAnswer.
        """
        ready = [self._statement(text, *values) for text, values in statements]
        try:
            first, *_ = self._connections.write(*ready)
        except NoTable:
            self._make()
            first, *_ = self._connections.write(*ready)
        if first != [(tag,)]:
            raise PreconditionFailed
        return tag

    def _statement(self, text: str, *values: object) -> Statement:
        return text.replace(":schema", self._schema), values

    def _rows(self, text: str, *values: object) -> Sequence[Row] | None:
        """The rows. None while there is no table: what an older program left is in `_before` then."""
        statement = self._statement(text, *values)
        try:
            return self._connections.read(statement)[0]
        except NoTable:
            with suppress(*NoTable):  # somebody migrates it while it is read
                if self._connections.repeat(self._look_before):
                    return None
        return self._settled(lambda ask: ask(BEGIN_READING, LIMITS, statement, COMMIT))[2]

    def _look_before(self, ask: Ask) -> bool:
        """Whether there is no table yet."""
        names = self._tables(ask)
        if "objects" in names:
            return False
        if older.MARK in names and not self._before:
            self._before = older.objects(ask, self.place, names)
        return True

    def _settled(self, work: Callable[[Ask], T]) -> T:
        """What comes of `work`. Raises StoreError for a table that is missing, too."""
        try:
            return self._connections.repeat(work)
        except NoTable as error:
            raise explain(error, self._connections.url) from error

    def _tables(self, ask: Ask) -> set[str]:
        """Raises StoreError where the schema is not ours."""
        names = {name for (name,) in ask((_TABLES, [self._schema]))[0]}
        if names and not names & {"objects", older.MARK}:
            raise not_whole(self.place, f"the schema {self._schema} holds no objects, but other tables")
        return names

    def _make(self) -> None:
        """Make the table, with what an older program left, and drop that one's tables: all of it or nothing.

        Two processes that do this at once take turns. Raises Locked while an older program holds a scope.
        """

        def make(ask: Ask) -> bool:
            ((has_schema,),) = ask(BEGIN, LIMITS, (_ALONE, ()), (_HAS_SCHEMA, [self._schema]))[-1]
            names = self._tables(ask)
            if "objects" in names:
                ask(("ROLLBACK", ()))
                return False
            statements = [] if has_schema else [self._statement("CREATE SCHEMA :schema")]
            statements.append(self._statement(_TABLE))
            if older.MARK in names:
                ask(older.lock(names))
                older.require_free(ask)
                found = older.objects(ask, self.place, names, begun=True)
                rows = [(key, item.tag, item.body) for key, item in found.items()]
                statements.append(self._statement(_COPY, *map(list, zip(*rows, strict=True))))
                statements += [older.GRANTS, older.drop(names)]
            ask(*statements, COMMIT)
            return older.MARK in names

        if self._settled(make):
            self._tell(f"the state {self.place} was migrated: it is in one table now, {self._schema}.objects")


class ServerTime(Exclusion):
    """An `Exclusion`: a holder is dead whose newest beat is older than its lease, by the server's clock."""

    def __init__(self, bucket: TableBucket, lease_s: float) -> None:
        self._bucket = bucket
        self.lease_s = lease_s

    def begin(self, id: str) -> None:
        self._bucket.require_key()

    def rest_s(self, beat: Beat, tag: str) -> float | None:
        return None if self._bucket.age_s(beat.id) < beat.lease_s else 0.0

    def close(self) -> None:
        self._bucket.close()


def _tag() -> str:
    """A text that never comes back, not even for an equal body."""
    return secrets.token_hex(8)


def _in_parts(key: str, body: bytes) -> tuple[bytes, bytes]:
    """Part 0, and the rest."""
    if "/heads/" not in key:
        return body, b""
    first, line, rest = body.partition(b"\n")
    return first + line, rest


def _under(prefix: str) -> tuple[str, str]:
    """The bounds of all keys that begin with `prefix`: from the first one on, and before the second one."""
    return prefix, f"{prefix[:-1]}0"  # "0" follows "/"


def _last(key: str) -> str:
    return key.rpartition("/")[2]
