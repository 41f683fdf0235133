"""Connections to PostgreSQL: opened when they are needed, and opened again when they were lost.

Nothing is kept in a session (no prepared statement, no setting), so that a pooler may give each transaction
another one. What a transaction needs, it sets for itself. And it is one message: a process that is paused
while it sends leaves no transaction open, which would lock others out. All of it blocks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Semaphore
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen

from reconciler.core.clock import Clock
from reconciler.state.log.bucket import NoAnswer
from reconciler.state.places.postgres.errors import explain, is_lost, said
from reconciler.state.places.postgres.url import DatabaseUrl

T = TypeVar("T")
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]  # `:now` in the text stands for the server's time
Ask = Callable[..., list[list[Row]]]  # sends statements as one message, and gives the rows of each

AT_MOST = 4  # how many connections one process has
ANSWER_S = 60  # after that nobody waits for an answer any more
PATIENCE_S = 20  # how long a lost server is called again
_PAUSE_S = 0.5
_LOOK_S = 1.0  # how often it is looked whether an answer is still waited for

SERVER_TIME = "clock_timestamp()"

# A statement ends by itself; so does a transaction of several messages, as migrations have.
STATEMENT_S, LOCK_S, IDLE_S = 30, 20, 60
_LIMITS = """SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),
    set_config('idle_in_transaction_session_timeout', %s, true),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"""
LIMITS: Statement = (_LIMITS, [f"{seconds}s" for seconds in (STATEMENT_S, LOCK_S, IDLE_S)])
BEGIN: Statement = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ())
# One moment of the database, for a role that may only read, also on a standby.
BEGIN_READING: Statement = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
COMMIT: Statement = ("COMMIT", ())

NoTable = (errors.UndefinedTable, errors.InvalidSchemaName)  # raised as they are: their caller knows why


class Connections:
    """A few connections for any number of threads. `now`: the SQL for the server's time.

    Raises StoreError for what PostgreSQL raises, but for `NoTable`.
    """

    def __init__(self, url: DatabaseUrl, clock: Clock, now: Callable[[], str] = lambda: SERVER_TIME) -> None:
        self.url = url
        self._clock = clock
        self._now = now
        self.pause: Callable[[float], None] = time.sleep
        self._turns = Semaphore(AT_MOST)
        self._idle: list[psycopg.Connection[Row]] = []
        self._reached = False

    def read(self, *statements: Statement) -> list[list[Row]]:
        """The rows of each statement, all as of one moment."""
        return self.repeat(lambda ask: ask(BEGIN_READING, LIMITS, *statements, COMMIT))[2:-1]

    def write(self, *statements: Statement) -> list[list[Row]]:
        """The rows of each statement, in a transaction that is sent once. Raises NoAnswer."""
        try:
            with self._connected() as ask:
                return ask(BEGIN, LIMITS, *statements, COMMIT)[2:-1]
        except (psycopg.Error, TimeoutError) as error:
            if is_lost(error) and not isinstance(error, _Unreachable):
                raise NoAnswer(said(error, self.url)) from error
            raise self._explained(error) from error

    def repeat(self, work: Callable[[Ask], T]) -> T:
        """`work`, from its start again when the connection was lost. It asks in transactions of its own."""
        ends_s = self._clock.monotonic() + PATIENCE_S
        while True:
            try:
                with self._connected() as ask:
                    return work(ask)
            except (psycopg.Error, TimeoutError) as error:
                if not is_lost(error) or isinstance(error, _Unreachable) or self._is_over(ends_s):
                    raise self._explained(error) from error
            self.pause(_PAUSE_S)

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _connected(self) -> Iterator[Ask]:
        """After an error, the connection is closed."""
        with self._turns:
            connection = self._idle.pop() if self._idle else self._open()
            try:
                yield lambda *statements: _send(connection, statements, self._now())
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    def _open(self) -> psycopg.Connection[Row]:
        """Calls a server again that was reached before. Raises _Unreachable."""
        ends_s = self._clock.monotonic() + PATIENCE_S
        while True:
            try:
                opened = _Connection.connect(self.url.conninfo, autocommit=True, prepare_threshold=None)
            except psycopg.OperationalError as error:
                if not (self._reached and is_lost(error)) or self._is_over(ends_s):
                    raise _Unreachable(*error.args) from error
            else:
                self._reached = True
                return opened
            self.pause(_PAUSE_S)

    def _is_over(self, ends_s: float) -> bool:
        return self._clock.monotonic() >= ends_s

    def _explained(self, error: psycopg.Error | TimeoutError) -> Exception:
        return error if isinstance(error, NoTable) else explain(error, self.url)


def _send(connection: psycopg.Connection[Row], statements: Sequence[Statement], now: str) -> list[list[Row]]:
    """The rows of each statement, in one round trip. What comes after one that fails is not executed."""
    text = ";\n".join(text for text, _ in statements).replace(":now", now)
    values = [value for _, values in statements for value in values]
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(text.encode(), values)
    found = []
    while True:
        found.append(cursor.fetchall() if cursor.description else [])
        if not cursor.nextset():
            return found


class _Connection(psycopg.Connection[Row]):
    def wait(self, gen: PQGen[T], *timing: Any, **more: Any) -> T:
        """Raises TimeoutError after `ANSWER_S`."""
        return super().wait(_limited(gen), _LOOK_S)


def _limited(gen: PQGen[T]) -> PQGen[T]:
    ends_s = time.monotonic() + ANSWER_S
    try:
        wants = next(gen)
        while True:
            ready = yield wants
            if time.monotonic() >= ends_s:
                raise TimeoutError
            wants = gen.send(ready)
    except StopIteration as ended:
        result: T = ended.value
        return result


class _Unreachable(psycopg.OperationalError):
    """No connection could be made, however often it was tried."""
