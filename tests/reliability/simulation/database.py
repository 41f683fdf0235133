"""A real PostgreSQL server whose clock shows simulated time, and the sessions in which it does its work.

The server does each message at once, or waits for a lock: no simulated time passes while it works. A session
that waits really waits, behind whoever has the lock, until another message ends that one's transaction.
"""

import asyncio
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg import pq
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from reconciler.core.clock import SystemClock
from reconciler.execution.decisions import Actor
from reconciler.project.identity import create_state
from reconciler.state.log import writes
from reconciler.state.places.postgres.store import PostgresStore
from tests.providers.postgres import Postgres, running_postgres
from tests.reliability.simulation.scenario import State

ADDRESS = "SIMULATION_POSTGRES"  # the variable with the URL of the server that all processes share
SETTINGS = (
    *("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "wal_level=minimal", "max_wal_senders=0"),
    *("autovacuum=off", "jit=off", "track_commit_timestamp=on"),
)
_ANSWERS_S = 0.003  # so long an answer is waited for before it is asked who waits for a lock
# These stand before the server's own, for every session. The clock reads a file, so that a statement that
# waited for a lock sees the time after that, too; limits are kept aside, not to end anything in real time.
_FUNCTIONS = """CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT pg_read_file('{file}')::timestamptz $$;
CREATE FUNCTION simulated.set_config(name text, value text, of_transaction boolean) RETURNS text LANGUAGE sql
    AS $$ SELECT pg_catalog.set_config(
        CASE WHEN name LIKE '%_timeout' THEN 'simulated.' || name ELSE name END, value, of_transaction) $$;
ALTER DATABASE {name} SET search_path = simulated, pg_catalog"""
_LIMITS = b"""SELECT extract(epoch FROM coalesce(nullif(current_setting('simulated.' || name, true), ''), '0')
    ::interval) FROM unnest(ARRAY['idle_in_transaction_session_timeout', 'lock_timeout']) AS name"""


@contextmanager
def serving(state: State) -> Iterator[None]:
    """A server for the histories of this block, where they need one: also for processes that it starts."""
    if state != "postgresql" or ADDRESS in os.environ:
        yield
        return
    with running_postgres(SETTINGS) as server:
        os.environ[ADDRESS] = server.url
        try:
            yield
        finally:
            del os.environ[ADDRESS]


def database() -> "Database":
    """That of this process, on the server."""
    return _database(os.environ[ADDRESS], os.getpid())


@cache
def _database(server: str, process: int) -> "Database":
    return Database(Postgres(server).new().url)


@dataclass(eq=False)
class Running:
    """A message that the server does. `wants`: what its client waits for; `over`: it is done, or failed."""

    gen: PQGen[None]
    server: PGconn
    wants: int = 0
    over: bool = False
    cancelled: bool = False
    failure: BaseException | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def step(self, ready: int | None) -> None:
        try:
            self.wants = next(self.gen) if ready is None else self.gen.send(ready)
        except StopIteration:
            self.over = True
        except Exception as failure:
            self.over, self.failure = True, failure

    def cancel(self) -> None:
        """From now on it does not wait any more, though the server may need a moment to see that."""
        self.cancelled = True
        self.server.get_cancel().cancel()


class Database:
    """One history after the other plays here: each begins with the state of a new project."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._watching = psycopg.connect(url, autocommit=True)
        self._idle: list[PGconn] = []
        self._limits: dict[str, tuple[float, float]] = {}
        self._make_the_clock()
        self._make_the_state()

    # --- its time, and what is in it ---

    def _make_the_clock(self) -> None:
        ((folder, name),) = self._watching.execute(
            "SELECT current_setting('data_directory'), current_database()"
        )
        file = f"{name}.clock"
        self._clock = os.open(Path(folder) / file, os.O_CREAT | os.O_RDWR, 0o644)
        self._shown = ""
        self._watching.execute("CREATE SCHEMA simulated")
        self._watching.execute(_FUNCTIONS.format(file=file, name=name).encode())

    def _make_the_state(self) -> None:
        """Made by the product itself, and kept beside its tables."""
        self.show(SystemClock().now())

        async def make() -> None:
            store = PostgresStore(self.url, SystemClock(), Random("the state").randbytes)
            await create_state(store, Actor(SystemClock(), "the state"))
            await store.close()

        with patch.object(writes, "_INCREMENTS", 1):
            asyncio.run(make())
        self._watching.execute("CREATE TABLE simulated.objects AS SELECT * FROM reconcile.objects")
        self._begin = (
            b"TRUNCATE reconcile.objects;INSERT INTO reconcile.objects SELECT * FROM simulated.objects"
        )

    def begin(self) -> None:
        """A new history, of which nothing is stored yet."""
        self._watching.execute(self._begin)

    def show(self, now: datetime) -> None:
        """What the server takes for its time."""
        text = now.isoformat(timespec="microseconds")
        if text != self._shown:
            os.pwrite(self._clock, text.encode(), 0)  # always of one length
            self._shown = text

    def ask(self, query: str, *values: object) -> list[list[tuple[Any, ...]]]:
        """What is stored, as nobody in the history sees it: the rows of each statement."""
        cursor = psycopg.ClientCursor(self._watching)
        cursor.execute(query.encode(), values)
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        return found

    # --- its sessions ---

    def open(self) -> PGconn:
        if self._idle:
            return self._idle.pop()
        opened = pq.PGconn.connect(self.url.encode())
        if opened.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(opened.get_error_message())
        opened.nonblocking = 1
        return opened

    def give_back(self, session: PGconn) -> None:
        """Its transaction is given up. What it has set is left to the next one, as some poolers do."""
        if session.transaction_status != pq.TransactionStatus.IDLE:
            session.exec_(b"ROLLBACK")
        self._idle.append(session)

    def limits(self, session: PGconn, text: str) -> tuple[float, float]:
        """How many seconds its transaction may be idle, and wait for a lock; 0: for ever.

        `text`: of the message before, without the values. After the same text, they are the same.
        """
        if text not in self._limits:
            said = session.exec_(_LIMITS)
            idle, lock = said.get_value(0, 0), said.get_value(1, 0)
            assert idle is not None
            assert lock is not None
            self._limits[text] = float(idle), float(lock)
        return self._limits[text]

    def let_run(self, running: list[Running]) -> None:
        """Until each is over, or waits for a lock that none of them gives back by itself."""
        while going := [each for each in running if not each.over]:
            if not _step(going) and self._all_wait(going):
                return

    def _all_wait(self, going: list[Running]) -> bool:
        if any(each.cancelled for each in going):
            return False
        pids = [each.server.backend_pid for each in going]
        query = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid = ANY(%s)"
        ((waiting,),) = self._watching.execute(query, [pids])
        return bool(waiting == len(pids) and not _step(going, 0.0))


def _step(going: list[Running], patience_s: float = _ANSWERS_S) -> bool:
    """Take what the server has said to any of them; whether it has said anything."""
    reading = [each.server.socket for each in going]
    writing = [each.server.socket for each in going if each.wants & Wait.W]
    readable, writable, _ = select.select(reading, writing, [], patience_s)
    for each in going:
        ready = (each.server.socket in readable) * Ready.R
        ready |= (each.server.socket in writable) * Ready.W
        if ready:
            each.step(ready)
    return bool(readable or writable)
