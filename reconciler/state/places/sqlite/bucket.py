"""The objects of a state, as rows of one table. All of it blocks, for any thread."""

import hashlib
import json
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from threading import RLock, local
from typing import Any, TypeVar

from reconciler.state.log.bucket import Bucket, Found, Taken
from reconciler.state.log.damage import Damaged
from reconciler.state.places.sqlite.database import transaction

T = TypeVar("T")
R = TypeVar("R")

CREATE = "INSERT INTO objects (tag, body, entries, serial, key) VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING"
REPLACE = "UPDATE objects SET tag = ?, body = ?, entries = ?, serial = ? WHERE key = ? AND tag = ?"
DELETE = "DELETE FROM objects WHERE key = ?"


@dataclass(eq=False, slots=True)
class Write:
    """One statement on its way into a transaction. `changed`: how many rows; None: it was not tried yet."""

    statement: str
    values: Sequence[Any]
    changed: int | None = None
    failure: Exception | None = None


class TableBucket(Bucket):
    """Over a connection that is in autocommit, or in a transaction of the caller.

    A file holds the state of one environment, so that keys stand there without its name.
    """

    is_sure = True
    at_once = 1

    def __init__(self, place: str, connection: sqlite3.Connection | None = None) -> None:
        self._place = place
        self._connection = connection
        self._lock = RLock()  # for reading, which waits for no write
        self._turn = RLock()
        self._waiting: deque[Write] = deque()
        self._own = local()

    @property
    def place(self) -> str:
        return self._place

    def get(self, key: str) -> Found | None:
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        """Raises Damaged for a body that is not what was written."""

        def read(connection: sqlite3.Connection) -> list[Found | None]:
            return [_found(connection, stored(key)) for key in keys]

        return self._read(read) or [None for _ in keys]

    def in_parallel(self, work: Callable[[T], R], values: Sequence[T]) -> list[R]:
        """As in `Bucket`, one after another; all that they write is one transaction."""
        if self._joined is not None:
            return [work(value) for value in values]
        with self._explained(), ExitStack() as stack:
            self._own.joined = stack
            stack.callback(setattr, self._own, "joined", None)
            return [work(value) for value in values]

    def create(self, key: str, body: bytes) -> str:
        return self._written(CREATE, tag_of(body), body, *counts(key, body), stored(key))

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self._written(REPLACE, tag_of(body), body, *counts(key, body), stored(key), tag)

    def delete(self, key: str) -> None:
        self._write(Write(DELETE, [stored(key)]))

    def list(self, prefix: str) -> Mapping[str, str]:
        environment, _, rest = prefix.partition("/")

        def read(connection: sqlite3.Connection) -> Mapping[str, str]:
            query = "SELECT key, tag FROM objects WHERE key >= ? AND key < ?"
            found = connection.execute(query, (rest, f"{rest[:-1]}0" if rest else "~"))
            return {f"{environment}/{key}": tag for key, tag in found}

        return self._read(read) or {}

    def list_beside(self) -> tuple[str, ...]:
        return ()

    def _written(self, statement: str, tag: str, *values: Any) -> str:
        write = Write(statement, [tag, *values])
        self._write(write)
        if not write.changed:
            raise Taken
        return tag

    def _write(self, write: Write) -> None:
        """Carry it out, together with all that other threads ask for until its turn comes."""
        if self._joined is not None:
            write.changed = self._execute(self._begun(self._joined), write)
            return
        self._waiting.append(write)
        with self._explained(), self._turn:
            if write.changed is None and write.failure is None:
                batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self._carry_out(batch)
            if write.failure is not None:
                raise write.failure

    @property
    def _joined(self) -> ExitStack | None:
        """What ends the transaction of all that this thread writes now."""
        return getattr(self._own, "joined", None)

    def _begun(self, joined: ExitStack) -> sqlite3.Connection:
        joined.enter_context(self._turn)
        connection = self._writable()
        if not connection.in_transaction:
            joined.enter_context(self._committing(connection))
        return connection

    @contextmanager
    def _committing(self, connection: sqlite3.Connection) -> Iterator[None]:
        """A transaction that lands unless SQLite fails: who wrote in it takes that for stored."""
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

    def _carry_out(self, batch: Sequence[Write]) -> None:
        """One that fails takes its transaction with it, but must not fail its neighbours."""
        try:
            connection = self._writable()
            with nullcontext() if connection.in_transaction else transaction(connection):
                changed = [self._execute(connection, each) for each in batch]
                number = connection.execute("SELECT * FROM changes").fetchone()
        except Exception as failure:
            if len(batch) == 1:
                batch[0].failure = failure
                return
            for each in batch:
                self._carry_out([each])
            return
        for each, count in zip(batch, changed, strict=True):
            each.changed = count
        self._tell_seen(number)

    def _execute(self, connection: sqlite3.Connection, write: Write) -> int:
        return connection.execute(write.statement, write.values).rowcount

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """None where there is no file."""
        with self._explained(), self._lock:
            connection = self._readable()
            return work(connection) if connection is not None else None

    def _explained(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _readable(self) -> sqlite3.Connection | None:
        return self._connection

    def _writable(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def _tell_seen(self, changes: tuple[Any, ...]) -> None:
        """Note the newest change outside of the database."""


def tag_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def counts(key: str, body: bytes) -> tuple[int, int]:
    """How many journal entries and serials a scope has had; none where the object is not its head."""
    if stored(key).split("/")[1:2] != ["heads"]:
        return 0, 0
    try:
        head = json.loads(body[: body.index(b"\n")])
        return head["seq"], head["record_serial"]
    except (KeyError, TypeError, ValueError):  # of a copy that is encrypted
        return 0, 0


def _found(connection: sqlite3.Connection, key: str) -> Found | None:
    row = connection.execute("SELECT CAST(body AS BLOB), tag FROM objects WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    body, tag = row
    if tag_of(body) != tag:
        raise Damaged(f"{key.partition('/')[2] or key} is not what was written")
    return Found(body, tag)


def stored(key: str) -> str:
    """A key as it stands in the table."""
    return key.partition("/")[2]
