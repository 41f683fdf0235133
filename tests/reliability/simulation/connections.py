"""A line from a simulated process to PostgreSQL: psycopg's own connections, over which messages get lost.

A connection has two ends. What breaks at the client's end, the server may notice at once, or only when the
limit ends that the transaction itself has set for being idle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen

from reconciler.rehearsal.timeline import TICK_S
from tests.reliability.simulation.database import Running
from tests.reliability.simulation.ghost import CANARY
from tests.reliability.simulation.session import Session
from tests.reliability.simulation.threads import Died, pause

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process
    from tests.reliability.simulation.server import Server

LATENCY_S = 0.02  # one way, at most
TIMEOUT_S = 20.0  # how long a packet is sent again (`tcp_user_timeout`)
CONNECT_S = 10.0
LATE_S = 50.0  # how late a message may arrive whose sender gave up
SLOW_S = (1.0, 20.0, 45.0, 70.0)  # the last one is longer than an answer is waited for

Row = tuple[Any, ...]
Sleep = Callable[[float, asyncio.Event | None], Awaitable[None]]


class Reached:
    """The client's end: it carries one message after the other, as its process can."""

    def __init__(self, server: "Server", process: "Process", sleep: Sleep) -> None:
        self._server = server
        self._process = process
        self._sleep = sleep
        self.session: Session
        self.text = ""
        self.values: Sequence[Any] = ()
        self.cut = False

    async def open(self) -> None:
        await self._go("connect")
        rng, down_s = self._server.rng, self._server.down_s
        if self._process.store_fault("connect"):
            await self._pass(rng.choice((0.05, CONNECT_S)))
            raise errors.ConnectionTimeout("connection timeout expired")
        if down_s:
            raise rng.choice(
                (
                    psycopg.OperationalError("connection refused"),
                    errors.CannotConnectNow("the database system is starting up"),
                )
            )
        self.session = Session(self._server, self._process)
        self._server.sessions.append(self.session)

    async def carry(self, gen: PQGen[None]) -> None:
        """One message, from its sending to its answer."""
        writes = self.session.is_open or "READ WRITE" in self.text
        what = "write" if writes else "read"
        await self._go(what)
        if self.session.gone is not None:
            self.cut = True
            raise self.session.gone
        fault = self._process.store_fault(what)
        if fault in ("unreachable", "request lost", "late"):
            await self._lose(gen, fault)
        if fault == "restarted":
            self._server.restart()
        if fault == "refused":
            self.session.end(errors.AdminShutdown("terminating connection due to administrator command"))
        if self.session.gone is not None:
            await self._fail(self.session.gone)
        running = self.session.start(gen, self.text)
        await self._wait(running)
        if self.session.gone is not None:  # while it waited
            await self._fail(self.session.gone)
        if fault == "answer lost":
            self._cut()
            await self._fail(psycopg.OperationalError("server closed the connection unexpectedly"))
        if fault == "slow":
            await self._pass(self._server.rng.choice(SLOW_S))
        self._process.pass_by_outside("store:answered")
        await self._pass(self._server.rng.uniform(0.001, LATENCY_S))
        if running.failure is not None:
            raise running.failure

    @property
    def is_closed(self) -> bool:
        return self.cut or not self._process.alive

    def hang_up(self) -> None:
        if not self.cut:
            self.cut = True
            self.session.leave()

    async def _wait(self, running: Running) -> None:
        """Where it waits for a lock. Who does not wait any more tells the server to stop, if it can."""
        try:
            while not running.ended.is_set():
                await self._pass(TIMEOUT_S, running.ended)
        except asyncio.CancelledError:
            if self._process.alive and not running.over:
                running.cancel()
                self._server.run()
            raise

    async def _lose(self, gen: PQGen[None], fault: str) -> None:
        session, rng = self.session, self._server.rng
        if fault == "late":
            self.cut = True
            later_s = rng.choice((0.1, 1.0, LATE_S)) * rng.random()
            self._server.timeline.call_later(later_s, self._arrive, session, gen, self.text)
        else:
            self._cut()
        await self._fail(psycopg.OperationalError("could not receive data from server"))

    def _arrive(self, session: Session, gen: PQGen[None], text: str) -> None:
        if session.gone is None:
            self._server.ghost.tally.note("store", "late write lands")
            session.left = True
            session.start(gen, text)

    def _cut(self) -> None:
        """The connection is lost; the server may not hear of it."""
        self.cut = True
        if self._server.rng.random() < 0.5 or not self.session.is_open:
            self.session.leave()

    async def _fail(self, error: psycopg.Error) -> None:
        self.cut = True
        await self._pass(self._server.rng.choice((0.05, 0.05, TIMEOUT_S)))
        raise error

    async def _go(self, what: str) -> None:
        """On the way to the server."""
        if not self._process.alive:
            raise Died
        if CANARY in str(self.values):
            self._server.ghost.violate("no-secret-leaves-memory", "a message holds a secret value")
        self._server.count(self._process)
        self._process.pass_by_outside(f"store:{what}")
        await self._pass(self._server.rng.uniform(0.001, LATENCY_S))

    async def _pass(self, seconds: float, until: asyncio.Event | None = None) -> None:
        await self._sleep(seconds, until)
        if not self._process.alive:
            raise Died


# --- as psycopg's own ---


class AsyncConnection(psycopg.AsyncConnection[Row]):
    reached: Reached

    @property
    def closed(self) -> bool:
        return self.reached.is_closed

    async def wait(self, gen: PQGen[Any], *timing: Any, **more: Any) -> Any:
        return await self.reached.carry(gen)

    async def close(self) -> None:
        self.reached.hang_up()


class AsyncClientCursor(psycopg.AsyncClientCursor[Row]):
    async def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        assert isinstance(self._conn, AsyncConnection)
        self._conn.reached.text, self._conn.reached.values = query.decode(), params
        return await super().execute(query, params)


class Connection(psycopg.Connection[Row]):
    """For a thread."""

    reached: Reached

    @property
    def closed(self) -> bool:
        return self.reached.is_closed

    def wait(self, gen: PQGen[Any], *timing: Any, **more: Any) -> Any:
        return _at_once(self.reached.carry(gen))

    def close(self) -> None:
        self.reached.hang_up()

    def __exit__(self, *failure: object) -> None:
        self.close()


class ClientCursor(psycopg.ClientCursor[Row]):
    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        assert isinstance(self._conn, Connection)
        self._conn.reached.text, self._conn.reached.values = query.decode(), params
        return super().execute(query, params)


class Psycopg:
    """Stands for `psycopg` where the product opens connections. The application's name says whose."""

    Error = psycopg.Error
    OperationalError = psycopg.OperationalError
    pq = pq
    AsyncClientCursor = AsyncClientCursor
    ClientCursor = ClientCursor

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.AsyncConnection = _Opening(server)

    def connect(self, conninfo: str, **options: Any) -> Connection:
        async def sleep(seconds: float, until: asyncio.Event | None = None) -> None:
            pause(seconds, until)

        reached = Reached(self._server, self._server.process(conninfo), sleep)
        _at_once(reached.open())
        return cast("Connection", _made(Connection(reached.session.pgconn), reached))


class _Opening:
    """Stands for the class `psycopg.AsyncConnection`."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    async def connect(self, conninfo: str, **options: Any) -> AsyncConnection:
        process = self._server.process(conninfo)

        async def sleep(seconds: float, until: asyncio.Event | None = None) -> None:
            if until is None:
                await asyncio.sleep(max(seconds, TICK_S))
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), seconds)
            await process.wake()

        reached = Reached(self._server, process, sleep)
        await reached.open()
        return cast("AsyncConnection", _made(AsyncConnection(reached.session.pgconn), reached))


def _made(connection: Any, reached: Reached) -> Any:
    connection.reached = reached
    connection._autocommit = True
    return connection


def _at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of `work` in a thread, where waiting blocks."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waited for the loop")
