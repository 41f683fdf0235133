"""The objects of a state as rows of two tables, which any thread may ask for. All of it blocks.

The lines of a head after its first one, which are changes, are rows of their own: a commit adds its lines and
writes none again, and a page that is damaged costs the lines in it.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from threading import RLock, local
from typing import Any, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from reconciler.state.log.bucket import Bucket, Found, PreconditionFailed
from reconciler.state.log.damage import Damaged
from reconciler.state.places.sqlite.database import transaction

T = TypeVar("T")
R = TypeVar("R")

CREATE = "INSERT INTO objects (tag, body, entries, serial, key) VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING"
REPLACE = "UPDATE objects SET tag = ?, body = ?, entries = ?, serial = ? WHERE key = ? AND tag = ?"


class _Counts(Struct):
    """How many journal entries and serials a scope has had, in the first line of its head."""

    seq: int
    record_serial: int


_counts_of = Decoder(_Counts).decode


class TableBucket(Bucket):
    """Over a connection that is in autocommit, or in a transaction of the caller.

    A file holds the state of one environment, so that keys stand there without its name.
    """

    is_sure = is_of_one_moment = reads_quickly = True
    at_once = 1

    def __init__(self, place: str, connection: sqlite3.Connection | None = None) -> None:
        self._place = place
        self._connection = connection
        self._lock = RLock()  # for reading, which waits for no write
        self._turn = RLock()
        self._own = local()

    @property
    def place(self) -> str:
        return self._place

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        """Raises Damaged for a body that is not what was written."""
        with self.reading() as connection:
            if connection is None:
                return [None for _ in keys]
            if len(keys) == 1 and not is_head(keys[0]):
                return [_found(connection, stored(keys[0]))]
            with _one_moment(connection):
                return [_found(connection, stored(key)) for key in keys]

    def in_parallel(self, work: Callable[[T], R], values: Sequence[T]) -> list[R]:
        """As in `Bucket`, one after another; all that they write is one transaction."""
        if hasattr(self._own, "exits"):
            return [work(value) for value in values]
        with self._explained(), ExitStack() as exits:
            self._own.exits = exits
            exits.callback(delattr, self._own, "exits")
            return [work(value) for value in values]

    def create(self, key: str, body: bytes) -> str:
        return self._written(CREATE, stored(key), body)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self._written(REPLACE, stored(key), body, tag)

    def delete(self, key: str) -> None:
        with self.writing() as connection:
            connection.execute("DELETE FROM objects WHERE key = ?", (stored(key),))
            if is_head(stored(key)):
                connection.execute("DELETE FROM lines WHERE head = ?", (stored(key),))

    def list(self, prefix: str) -> Mapping[str, str]:
        environment, _, rest = prefix.partition("/")
        query = "SELECT key, tag FROM objects WHERE key >= ? AND key < ?"
        with self.reading() as connection:
            if connection is None:
                return {}
            found = connection.execute(query, (rest, f"{rest[:-1]}0" if rest else "~"))
            return {f"{environment}/{key}": tag for key, tag in found}

    def _written(self, statement: str, key: str, body: bytes, *before: str) -> str:
        """Write where `before`, a tag, allows it; returns the new tag. Raises PreconditionFailed."""
        first, tail, counts = body, b"", (0, 0)
        if is_head(key):
            first, _, tail = body.partition(b"\n")
            with suppress(MsgspecError):  # it is sealed in the copy of an encrypted state
                found = _counts_of(first)
                counts = found.seq, found.record_serial
        tag = tag_of(first)
        with self.writing() as connection:
            if not connection.execute(statement, (tag, first, *counts, key, *before)).rowcount:
                raise PreconditionFailed
            if is_head(key):
                self._write_lines(connection, key, tail.split(b"\n")[:-1])
        return tag

    def _write_lines(self, connection: sqlite3.Connection, key: str, lines: Sequence[bytes]) -> None:
        """Bring the lines of a head to `lines`, which begin with those there, or have none of them."""
        query = "SELECT number, digest FROM lines WHERE head = ? ORDER BY number DESC LIMIT 1"
        count, *newest = connection.execute(query, (key,)).fetchone() or (0,)
        if [digest_of(line) for line in lines[max(0, count - 1) : count]] != newest:
            connection.execute("DELETE FROM lines WHERE head = ?", (key,))
            count = 0
        rows = [(key, number, digest_of(line), line) for number, line in enumerate(lines[count:], count + 1)]
        if rows:
            connection.executemany("INSERT INTO lines VALUES (?,?,?,?)", rows)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction, which ends with the block, or with that of `in_parallel`."""
        with ExitStack() as alone:
            exits = getattr(self._own, "exits", alone)
            if exits is alone:
                exits.enter_context(self._explained())
            exits.enter_context(self._turn)
            connection = self._writable()
            exits.enter_context(self._committing(connection))
            yield connection

    @contextmanager
    def _committing(self, connection: sqlite3.Connection) -> Iterator[None]:
        """A transaction that lands unless SQLite fails: who wrote in it takes that for stored."""
        if connection.in_transaction:
            yield
            return
        failure: BaseException | None = None
        with transaction(connection):
            try:
                yield
            except sqlite3.Error:
                raise
            except BaseException as raised:
                failure = raised
            changes = connection.execute("SELECT * FROM changes").fetchone()
        self._tell_seen(changes)
        if failure is not None:
            raise failure

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """The connection, for one reader at a time; None when there is no state yet. Creates nothing."""
        with self._explained(), self._lock:
            yield self._readable()

    def _explained(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _readable(self) -> sqlite3.Connection | None:
        return self._connection

    def _writable(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def _tell_seen(self, changes: tuple[Any, ...]) -> None:
        """Note the newest change outside of the database."""


def stored(key: str) -> str:
    """A key as it stands in the table."""
    return key.partition("/")[2]


def is_head(key: str) -> bool:
    return "/heads/" in key


def digest_of(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def tag_of(body: bytes) -> str:
    """Of a head, this is asked about its first line, which no two heads share."""
    return hashlib.sha256(body).hexdigest()


def _one_moment(connection: sqlite3.Connection) -> AbstractContextManager[None]:
    return nullcontext() if connection.in_transaction else transaction(connection, "DEFERRED")


def _found(connection: sqlite3.Connection, key: str) -> Found | None:
    row = connection.execute("SELECT CAST(body AS BLOB), tag FROM objects WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    body, tag = row
    if tag_of(body) != tag:
        raise Damaged(f"{key} is not what was written")
    if is_head(key):
        lines = _lines(connection, key)
        if any(digest_of(line) != digest for line, digest in lines):
            raise Damaged(f"{key} is not what was written")
        body = b"\n".join([body, *(line for line, _ in lines), b""])
    return Found(body, tag)


def _lines(connection: sqlite3.Connection, key: str) -> list[tuple[bytes, bytes]]:
    """The lines of a head after its first one, with their digests."""
    query = "SELECT CAST(line AS BLOB), digest FROM lines WHERE head = ? ORDER BY number"
    return connection.execute(query, (key,)).fetchall()
