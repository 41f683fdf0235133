"""Shared states for the proofs: a place for each, on one server, which may begin with what a file holds."""

import shutil
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import anyio
from msgspec.structs import replace

from reconciler.core.clock import SystemClock
from reconciler.state.log import lease_beats
from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.bucket import open_bucket
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Store
from tests.forking import apart
from tests.providers.postgres import Postgres, running_postgres
from tests.state.objects import servers

# Stand for the URL of a server that is started for a proof.
NEW_SERVER = "postgresql:"
NEW_MOTO = "s3:"
NEW_SEAWEEDFS = "seaweedfs:"
SERVERS = (NEW_SERVER, NEW_MOTO, NEW_SEAWEEDFS)


class Place(Protocol):
    """Where one state is. `variables`: what a shell must have to reach it."""

    @property
    def url(self) -> str: ...

    @property
    def variables(self) -> Mapping[str, str]: ...

    def open(self) -> Store: ...

    def lease_over(self) -> None:
        """As much time passes for the store as the lease of a process that was killed lasts."""
        ...

    def drop(self) -> None:
        """Delete all that is there."""
        ...


class Server(Protocol):
    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        ...

    def new(self) -> Place:
        """A place without a state."""
        ...


@dataclass(frozen=True, slots=True)
class File:
    """On one machine, in a folder that the proof deletes."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:{self.path}"

    @property
    def variables(self) -> Mapping[str, str]:
        return {}

    def open(self) -> Store:
        return SqliteStore(self.path, SystemClock(), backups=False)

    def lease_over(self) -> None:
        """The operating system's lock ended with its process."""

    def drop(self) -> None:
        """It goes with its folder."""


@dataclass(frozen=True, slots=True)
class Database:
    """`whole`: the URL with the user and the password, which a shell has in variables."""

    whole: str

    @property
    def url(self) -> str:
        scheme, _, rest = self.whole.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    @property
    def variables(self) -> Mapping[str, str]:
        parts = urlsplit(self.whole)
        return {"PGUSER": parts.username or "", "PGPASSWORD": parts.password or ""}

    def open(self) -> Store:
        return PostgresStore(self.whole, SystemClock())

    def lease_over(self) -> None:
        ended = "UPDATE reconcile.objects SET written_at = 'epoch' WHERE key LIKE '%/leases/%'"
        Postgres(self.whole).rows(ended)

    def drop(self) -> None:
        server, _, name = self.whole.rpartition("/")
        Postgres(f"{server}/postgres").rows(f"DROP DATABASE {name} WITH (FORCE)")


@dataclass(frozen=True, slots=True)
class Prefix:
    url: str
    variables: Mapping[str, str]

    def open(self) -> Store:
        return LogStore(open_bucket(self.url, self.variables), SystemClock())

    def lease_over(self) -> None:
        apart(self._end_leases)

    def drop(self) -> None:
        apart(self._delete_all)

    def _end_leases(self) -> None:
        """Each lease says that it lasts no time, so that who sees it may take it away at once."""
        bucket = open_bucket(self.url, self.variables)
        for key, tag in bucket.list("").items():
            folder, _, _ = key.rpartition("/")
            if folder.endswith("/leases") and (found := bucket.get(key)) is not None:
                bucket.replace(key, replace(lease_beats.decoded(found.body), lease_s=0.0).encode(), tag)

    def _delete_all(self) -> None:
        bucket = open_bucket(self.url, self.variables)
        for key in bucket.list(""):
            bucket.delete(key)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """`url`: of its superuser."""

    url: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.rpartition("/")[0].rpartition("@")[2].partition(":")
        return host, int(port or 5432)

    def new(self) -> Place:
        return Database(Postgres(self.url).new().url)


@dataclass(frozen=True, slots=True)
class S3Server:
    endpoint: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.endpoint.rpartition("/")[2].partition(":")
        return host, int(port)

    def new(self) -> Place:
        url = f"s3://{servers.BUCKET}/case-{uuid.uuid4().hex}"
        return Prefix(url, servers.variables(self.endpoint))


def server(wanted: str, stack: ExitStack) -> Server | None:
    """What `wanted` says: "" none, one of `SERVERS` a new one for the stack, or the URL of one that runs."""
    if wanted == NEW_SERVER:
        return PostgresServer(stack.enter_context(running_postgres()).url)
    if wanted == NEW_MOTO:
        return S3Server(stack.enter_context(servers.running_moto()))
    if wanted == NEW_SEAWEEDFS:
        return S3Server(stack.enter_context(servers.running_seaweedfs()))
    if not wanted:
        return None
    return S3Server(wanted) if wanted.startswith("http") else PostgresServer(wanted)


def carried_in(server: Server, project: Path) -> Place:
    """Give the project's state a place on `server`."""
    place = server.new()
    _carry(_file(project).open(), place.open())
    return place


def carried_out(place: Place, project: Path) -> None:
    """Put what the place holds in the project's file."""
    for file in (project / ".reconcile").glob("state.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    _carry(place.open(), _file(project).open())


def _file(project: Path) -> File:
    return File(project / ".reconcile" / "state.db")


def _carry(source: Store, target: Store) -> None:
    async def carry() -> None:
        assert isinstance(source, LogStore)
        assert isinstance(target, LogStore)
        await target.import_(await source.export())
        await source.close()
        await target.close()

    apart(lambda: anyio.run(carry))
