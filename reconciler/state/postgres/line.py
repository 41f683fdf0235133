"""The line to PostgreSQL: one connection, opened when it is needed, and opened again when it was lost.

Nothing is kept in a session (no prepared statement, no setting), so that a pooler may give each transaction
another one. What a transaction needs, it sets for itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import psycopg

from reconciler.core.clock import Clock
from reconciler.state.postgres.place import Place
from reconciler.state.postgres.problems import explain, is_lost

T = TypeVar("T")
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]  # `:now` in the text stands for the server's time
Connection = psycopg.AsyncConnection[Row]

ANSWER_S = 60  # after that nobody waits for an answer any more
PATIENCE_S = 20  # how long a lost server is called again
_PAUSE_S = 0.5

# A process that is paused inside a transaction must not keep others out: the server ends it.
STATEMENT_S, LOCK_S, IDLE_S = 30, 20, 10

SERVER_TIME = "clock_timestamp()"

_LIMITS = """SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),
    set_config('idle_in_transaction_session_timeout', %s, true),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"""
LIMITS: Statement = (_LIMITS, [f"{seconds}s" for seconds in (STATEMENT_S, LOCK_S, IDLE_S)])
BEGIN: Statement = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ())
# One moment of the database, for a role that may only read, also on a standby.
BEGIN_READING: Statement = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
COMMIT: Statement = ("COMMIT", ())
ROLLBACK: Statement = ("ROLLBACK", ())


def message(statements: Sequence[Statement], now: str) -> tuple[bytes, list[Any]]:
    """All statements in one, with their values. `now`: the SQL for the server's time."""
    text = ";\n".join(text for text, _ in statements).replace(":now", now)
    return text.encode(), [value for _, values in statements for value in values]


class Line:
    """Does one piece of work at a time. `now`: the SQL for the server's time."""

    def __init__(self, place: Place, clock: Clock, now: Callable[[], str] = lambda: SERVER_TIME) -> None:
        self.place = place
        self.now = now
        self.clock = clock
        self._connection: Connection | None = None
        self._reached = False
        self._busy = anyio.Lock()

    async def run(self, work: Callable[[], Awaitable[T]], *, shield: bool = True) -> T:
        """`work`, with a connection for `ask`. It runs again, from its start, when the connection was lost.

        Raises StoreError for what PostgreSQL raises. `shield`: it is not cancelled half-way.
        """
        async with self._busy:
            with anyio.CancelScope(shield=shield):
                result = await self._run(work)
        return result

    async def ask(self, *statements: Statement) -> list[list[Row]]:
        """The rows of each statement, in one round trip; inside of `run` only.

        What comes after one that fails is not executed. All of it is one message: a process that is paused
        while it sends must not leave the server in an open transaction, where no timeout applies.
        """
        assert self._connection is not None
        cursor = psycopg.AsyncClientCursor(self._connection)
        await cursor.execute(*message(statements, self.now()))
        found = []
        while True:
            found.append(await cursor.fetchall() if cursor.description else [])
            if not cursor.nextset():
                return found

    async def close(self) -> None:
        async with self._busy:
            with anyio.CancelScope(shield=True):
                await self._hang_up()

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        ends_s = self.clock.monotonic() + PATIENCE_S
        while True:
            try:
                with anyio.fail_after(ANSWER_S):
                    await self._connect()
                    result = await work()
            except (psycopg.Error, TimeoutError) as error:
                await self._hang_up()
                lost = is_lost(error) and (self._reached or not isinstance(error, _Unreachable))
                if not lost or self.clock.monotonic() >= ends_s:
                    raise explain(error, self.place) from error
            except BaseException:
                await self._leave_transaction()
                raise
            else:
                self._reached = True
                return result
            await self.clock.sleep(_PAUSE_S)

    async def _connect(self) -> None:
        if self._connection is not None and not self._connection.closed:
            return
        try:
            self._connection = await psycopg.AsyncConnection.connect(
                self.place.conninfo, autocommit=True, prepare_threshold=None
            )
        except psycopg.OperationalError as error:
            raise _Unreachable(*error.args) from error

    async def _leave_transaction(self) -> None:
        """After an error of our own code: an open transaction would hold its locks."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        with anyio.CancelScope(shield=True):
            if connection.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS:
                with suppress(psycopg.Error):
                    await self.ask(ROLLBACK)
            if connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
                await self._hang_up()

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class _Unreachable(psycopg.OperationalError):
    """No connection could be made."""
