"""A session in PostgreSQL: the server's end of a connection, which may outlive the client's."""

import asyncio
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen

from reconciler.state.places.postgres.connections import LOCK_S
from tests.reliability.simulation.database import Running

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process
    from tests.reliability.simulation.server import Server


class Session:
    """`gone`: why its client finds it closed. `left`: nobody hears it any more."""

    def __init__(self, server: "Server", process: "Process") -> None:
        self._server = server
        self.process = process
        self.pgconn = server.database.open()
        self.running: Running | None = None
        self.gone: psycopg.Error | None = None
        self.left = False
        self.text = ""
        self.stores = False  # its message may end a transaction that changes something
        self._idles: asyncio.TimerHandle | None = None
        self._lock_s = 0.0

    def start(self, gen: PQGen[None], text: str) -> Running:
        self._stop_idling()
        running = self.running = Running(gen, self.pgconn)
        self.text, self.stores = text, text.endswith("COMMIT") and "READ ONLY" not in text
        self._server.run(running)
        if not running.over:
            self._server.ghost.tally.note("store", "waits for a lock")
            if self._lock_s or "lock_timeout" in text:
                self._server.timeline.call_later(self._lock_s or LOCK_S, self._time_out, running)
        return running

    def finish(self) -> None:
        """Its message is over: an open transaction may be idle only so long."""
        running, self.running = self.running, None
        assert running is not None
        if self.left:
            self.end()
        elif self.pgconn.transaction_status == pq.TransactionStatus.INTRANS:
            idle_s, self._lock_s = self._server.database.limits(self.pgconn, self.text)
            if idle_s:
                self._idles = self._server.timeline.call_later(idle_s, self._idle_too_long)
        else:
            self._lock_s = 0.0
        running.ended.set()

    def leave(self) -> None:
        """Its client has closed its end, and the server hears of it."""
        self.left = True
        if self.running is None:
            self.end()

    def end(self, because: psycopg.Error | None = None) -> None:
        """Whatever its transaction did is undone, and others get its locks."""
        if self not in self._server.sessions:
            return
        self._stop_idling()
        if self.running is not None:
            self.running.cancel()
            self._server.run()
            if self not in self._server.sessions:
                return
        self.gone = because or psycopg.OperationalError("server closed the connection unexpectedly")
        self._server.sessions.remove(self)
        self._server.database.give_back(self.pgconn)
        self._server.run()

    @property
    def is_open(self) -> bool:
        """Whether it has a transaction."""
        return bool(self.pgconn.transaction_status != pq.TransactionStatus.IDLE)

    def _idle_too_long(self) -> None:
        self._server.ghost.tally.note("store", "idle transaction ended")
        self.end(errors.IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction"))

    def _time_out(self, running: Running) -> None:
        if not running.over:
            self._server.ghost.tally.note("store", "lock not got")
            running.cancel()
            self._server.run()
            if isinstance(running.failure, errors.QueryCanceled):
                running.failure = errors.LockNotAvailable("canceling statement due to lock timeout")

    def _stop_idling(self) -> None:
        if self._idles is not None:
            self._idles.cancel()
            self._idles = None
