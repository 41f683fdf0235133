"""Where the state of a disaster lies, and what people do to it: lose it, copy it, put an older copy back."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from reconciler.state.places.objects.bucket import open_bucket
from tests.cli.harness import Project
from tests.forking import apart
from tests.providers.postgres import Postgres, running_postgres
from tests.reliability import shared
from tests.state.objects import servers
from tests.state.objects.doubles import objects_of
from tests.state.postgres.pooler import pooled

FILE, POSTGRESQL, POOLER, S3 = PLACES = ("file", "postgresql", "pooler", "s3")


class Place(Protocol):
    """One state. A project that `use` it finds it; a `copy` is what a backup or a second checkout holds."""

    @property
    def is_shared(self) -> bool: ...

    def use(self, project: Project) -> None: ...

    def copy(self) -> "Place": ...

    def put_back(self, older: "Place") -> None: ...


@dataclass
class Folder:
    """The folder `.reconcile` of the one project that uses it. `content`: what it begins with."""

    content: Path | None = None
    is_shared: bool = False
    _project: Project | None = None
    _copies: int = 0

    def use(self, project: Project) -> None:
        assert self._project is None, "a state in a file is that of one checkout"
        self._project = project
        if self.content is not None:
            shutil.copytree(self.content, self._state)

    @property
    def _state(self) -> Path:
        assert self._project is not None
        return self._project.root / ".reconcile"

    def copy(self) -> "Folder":
        self._copies += 1
        project = self._state.parent
        content = project.with_name(f"copy-{self._copies}-of-{project.name}")
        return Folder(shutil.copytree(self._state, content))

    def put_back(self, older: Place) -> None:
        assert isinstance(older, Folder)
        assert older.content is not None
        shutil.rmtree(self._state)
        shutil.copytree(older.content, self._state)


@dataclass
class Shared:
    """A place of a server; `through`: the URL that leads to it by a pooler."""

    place: shared.Place
    server: shared.Server
    through: str = ""
    is_shared: bool = True

    @property
    def url(self) -> str:
        return self.through or self.place.url

    def use(self, project: Project) -> None:
        project.env |= {**self.place.variables, "RECONCILE_STATE": self.url}

    def copy(self) -> "Shared":
        made = self.server.new()
        _copy(self.place, made)
        return replace(self, place=made, through=_named_like(self.through, made.url))

    def put_back(self, older: Place) -> None:
        assert isinstance(older, Shared)
        _copy(older.place, self.place)


def _named_like(url: str, other: str) -> str:
    """`url`, which names the database of `other`; "" stays."""
    return url and f"{url.rpartition('/')[0]}/{other.rpartition('/')[2]}"


def _copy(source: shared.Place, target: shared.Place) -> None:
    target.drop()
    if isinstance(source, shared.Database) and isinstance(target, shared.Database):
        server, _, name = target.whole.rpartition("/")
        template = source.whole.rpartition("/")[2]
        admin = Postgres(f"{server}/postgres")
        # A pooler keeps the connections of those who are gone, and nobody may use what is copied.
        admin.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", template)
        admin.rows(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return
    assert isinstance(source, shared.Prefix)
    assert isinstance(target, shared.Prefix)
    apart(partial(_copy_objects, source, target))


def _copy_objects(source: shared.Prefix, target: shared.Prefix) -> None:
    bucket, into = (open_bucket(each.url, each.variables) for each in (source, target))
    for key, body in objects_of(bucket).items():
        into.create(key, body)


@dataclass
class Places:
    """Makes places of one kind."""

    server: shared.Server | None = None
    pooler: str = ""

    def new(self) -> Place:
        if self.server is None:
            return Folder()
        place = self.server.new()
        return Shared(place, self.server, _named_like(self.pooler, place.url))


@contextmanager
def places(kind: str) -> Iterator[Places]:
    """Places of one of PLACES, whose server runs for the block."""
    with ExitStack() as stack:
        if kind == FILE:
            yield Places()
        elif kind == S3:
            yield Places(shared.S3Server(stack.enter_context(servers.running_moto())))
        else:
            running = stack.enter_context(running_postgres())
            pooler = stack.enter_context(pooled(running, "transaction")) if kind == POOLER else ""
            yield Places(shared.PostgresServer(running.url), pooler and shared.Database(pooler).url)


def variables(home: Path) -> Mapping[str, str]:
    """Of a machine whose user has this home."""
    return {"HOME": str(home), "XDG_STATE_HOME": ""}
