"""The state of a case in PostgreSQL: a database of its own, which begins with what the file holds."""

import uuid
from pathlib import Path

import anyio

from reconciler.core.clock import SystemClock
from reconciler.state.contents import Movable
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import Store
from tests.providers.postgres import Postgres


def carried_in(server: str, project: Path) -> str:
    """Give the project's state a database on `server`; its URL."""
    name = f"case_{uuid.uuid4().hex}"
    Postgres(server).rows(f"CREATE DATABASE {name} STRATEGY file_copy")
    url = f"{server.rpartition('/')[0]}/{name}"
    _carry(_file(project), PostgresStore(url, SystemClock()))
    return url


def carried_out(url: str, project: Path) -> None:
    """Put what the database holds in the project's file."""
    for file in (project / ".reconcile").glob("state.db*"):
        file.unlink()
    _carry(PostgresStore(url, SystemClock()), _file(project))


def dropped(url: str) -> None:
    server, _, name = url.rpartition("/")
    Postgres(f"{server}/postgres").rows(f"DROP DATABASE {name} WITH (FORCE)")


def lease_over(url: str) -> None:
    """As much time passes for the server as the lease of a process that was killed lasts."""
    Postgres(url).rows("UPDATE reconcile.leases SET expires_at = clock_timestamp()")


def _file(project: Path) -> SqliteStore:
    return SqliteStore(project / ".reconcile" / "state.db", SystemClock(), backups=False)


def _carry(source: Store, target: Store) -> None:
    async def carry() -> None:
        assert isinstance(source, Movable)
        assert isinstance(target, Movable)
        await target.import_(await source.export())
        await source.close()
        await target.close()

    anyio.run(carry)
