"""A server of PostgreSQL with a role that only reads, and a database `app` of each test's own."""

from collections.abc import Iterator

import anyio
import pytest

from reconciler.drills.checks.model import Facts
from tests.drills.checks.restored import Restored
from tests.providers.postgres import running_postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Restored]:
    with running_postgres() as postgres:
        server = Restored(postgres)
        server.prepare()
        yield server


@pytest.fixture
def restored(server: Restored) -> Iterator[Restored]:
    """The server, with the database `app` as `SHOP` says."""
    server.begin()
    yield server
    server.end()


@pytest.fixture(scope="session")
def before(server: Restored) -> Facts:
    """Of a good drill, with the database `app` as it is for each test."""
    server.begin()
    looked = anyio.run(server.look)
    server.end()
    return looked.facts
