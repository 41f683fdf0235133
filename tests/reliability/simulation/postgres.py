"""The real store in PostgreSQL, in a history: on a real server, over lines that lose messages."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from reconciler.state.places.postgres import bucket, connections
from reconciler.state.places.postgres.store import PostgresStore
from tests.reliability.simulation import objects
from tests.reliability.simulation.connections import Opening, Psycopg
from tests.reliability.simulation.runner import Telling
from tests.reliability.simulation.threads import pause

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process
    from tests.reliability.simulation.server import Server


@contextmanager
def on_simulated_time(server: "Server") -> Iterator[None]:
    """Connections beside what every store of objects has."""

    class Time:
        sleep = staticmethod(pause)

    class Tags:
        @staticmethod
        def token_hex(length: int) -> str:
            return server.rng.randbytes(length).hex()

    replaced: list[tuple[Any, str, Any]] = [
        (connections, "psycopg", Psycopg),
        (connections, "_Connection", Opening(server)),
        (connections, "Semaphore", lambda most: ExitStack()),
        (connections, "time", Time),
        (bucket, "secrets", Tags),
    ]
    with objects.on_simulated_time(server.timeline), ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        yield


class SimulatedPostgres(Telling, PostgresStore):
    rate = 1.0  # its leases last as long as the server's clock says

    def __init__(self, process: "Process", server: "Server", rng: Random) -> None:
        self._process = process
        self._server = server
        self.asked = server.asked
        super().__init__(server.address(process), process.store_clock, rng.randbytes)

    def die(self) -> None:
        self._server.bury(self._process)
