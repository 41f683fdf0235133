"""A line from a simulated process to PostgreSQL: psycopg's own connections, over which messages get lost.

A connection has two ends. What breaks at the client's end, the server may notice at once, or only when the
limit ends that the transaction itself has set for being idle.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors
from psycopg.abc import PQGen

from reconciler.state.places.postgres.connections import ANSWER_S
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


class Reached:
    """The client's end: it carries one message after the other, as its process can."""

    def __init__(self, server: "Server", process: "Process") -> None:
        self._server = server
        self._process = process
        self.session: Session
        self.text = ""
        self.values: Sequence[Any] = ()
        self.cut = False

    def open(self) -> None:
        self._go("connect")
        rng, down_s = self._server.rng, self._server.down_s
        if self._process.store_fault("connect"):
            self._pass(rng.choice((0.05, CONNECT_S)))
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

    def carry(self, gen: PQGen[None]) -> None:
        """One message, from its sending to its answer."""
        writes = self.session.is_open or "READ WRITE" in self.text
        what = "write" if writes else "read"
        self._go(what)
        if self.session.gone is not None:
            self.cut = True
            raise self.session.gone
        fault = self._process.store_fault(what)
        if fault in ("unreachable", "request lost", "late"):
            self._lose(gen, fault)
        if fault == "restarted":
            self._server.restart()
        if fault == "refused":
            self.session.end(errors.AdminShutdown("terminating connection due to administrator command"))
        if self.session.gone is not None:
            self._fail(self.session.gone)
        running = self.session.start(gen, self.text)
        self._wait(running)
        if self.session.gone is not None:  # while it waited
            self._fail(self.session.gone)
        if fault == "answer lost":
            self._cut()
            self._fail(psycopg.OperationalError("server closed the connection unexpectedly"))
        if fault == "slow":
            self._pass(slow_s := self._server.rng.choice(SLOW_S))
            if slow_s > ANSWER_S:
                self._cut()
                raise TimeoutError
        self._process.pass_by_outside("store:answered")
        self._pass(self._server.rng.uniform(0.001, LATENCY_S))
        if running.failure is not None:
            raise running.failure

    @property
    def is_closed(self) -> bool:
        return self.cut or not self._process.alive

    def hang_up(self) -> None:
        if not self.cut:
            self.cut = True
            self.session.leave()

    def _wait(self, running: Running) -> None:
        """Where it waits for a lock."""
        while not running.ended.is_set():
            self._pass(TIMEOUT_S, running.ended)

    def _lose(self, gen: PQGen[None], fault: str) -> None:
        session, rng = self.session, self._server.rng
        if fault == "late":
            self.cut = True
            later_s = rng.choice((0.1, 1.0, LATE_S)) * rng.random()
            self._server.timeline.call_later(later_s, self._arrive, session, gen, self.text)
        else:
            self._cut()
        self._fail(psycopg.OperationalError("could not receive data from server"))

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

    def _fail(self, error: psycopg.Error) -> None:
        self.cut = True
        self._pass(self._server.rng.choice((0.05, 0.05, TIMEOUT_S)))
        raise error

    def _go(self, what: str) -> None:
        """On the way to the server."""
        if not self._process.alive:
            raise Died
        if CANARY in str(self.values):
            self._server.ghost.violate("no-secret-leaves-memory", "a message holds a secret value")
        self._server.count(self._process)
        self._process.pass_by_outside(f"store:{what}")
        self._pass(self._server.rng.uniform(0.001, LATENCY_S))

    def _pass(self, seconds: float, until: asyncio.Event | None = None) -> None:
        pause(seconds, until)
        if not self._process.alive:
            raise Died


# --- as psycopg's own ---


class Connection(psycopg.Connection[Row]):
    reached: Reached

    @property
    def closed(self) -> bool:
        return self.reached.is_closed

    def wait(self, gen: PQGen[Any], *timing: Any, **more: Any) -> Any:
        return self.reached.carry(gen)

    def close(self) -> None:
        self.reached.hang_up()


class ClientCursor(psycopg.ClientCursor[Row]):
    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        assert isinstance(self._conn, Connection)
        self._conn.reached.text, self._conn.reached.values = query.decode(), params
        return super().execute(query, params)


class Psycopg:
    """Stands for `psycopg` where the product sends its messages."""

    Connection = psycopg.Connection
    Error = psycopg.Error
    OperationalError = psycopg.OperationalError
    ClientCursor = ClientCursor


class Opening:
    """Stands for the product's class of connections. The application's name says whose one is."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def connect(self, conninfo: str, **options: Any) -> Connection:
        reached = Reached(self._server, self._server.process(conninfo))
        reached.open()
        connection = Connection(reached.session.pgconn)
        connection.reached = reached
        connection._autocommit = True
        return connection
