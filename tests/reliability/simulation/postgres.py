"""The real store in PostgreSQL, in a history: on a real server, over lines that lose messages."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import archive
from reconciler.state.postgres import commits, leases, line
from reconciler.state.postgres.commits import Request, Standing
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.store import JournalEntry, Lease
from tests.reliability.simulation.connections import Psycopg
from tests.reliability.simulation.runner import Landed, renewing_on

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process
    from tests.reliability.simulation.server import Server

KEPT_ROWS, SEGMENT_ROWS = 10, 5  # so that a short history packs rows, too


@contextmanager
def on_simulated_time(server: "Server") -> Iterator[None]:
    """Connections, threads and small limits, where this store uses them."""
    compute = commits._after

    def computed(before: Standing, batch: Sequence[Request]) -> Any:
        made = compute(before, batch)
        server.computed(batch, made)
        return made

    replaced: list[tuple[Any, str, Any]] = [
        (line, "psycopg", Psycopg(server)),
        (leases, "psycopg", Psycopg(server)),
        (commits, "_after", computed),
        (archive, "KEPT_ROWS", KEPT_ROWS),
        (archive, "SEGMENT_ROWS", SEGMENT_ROWS),
        *renewing_on(server.timeline),
    ]
    with ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        yield


class SimulatedPostgres(PostgresStore):
    """`landed`: hears of the next commit."""

    rate = 1.0  # its leases last as long as the server's clock says

    def __init__(self, process: "Process", server: "Server", rng: Random) -> None:
        self._process = process
        self._server = server
        self.landed: Landed | None = None
        super().__init__(server.address(process), process.store_clock, rng.randbytes)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """Who hears that a commit is stored is known by the list of what it removes."""
        landed, self.landed = self.landed, None
        removed, asked = list(remove), self._server.asked
        assert landed is not None
        asked[id(removed)] = (removed, landed)
        violate = self._process.ghost.violate
        try:
            stored = await super().commit(lease, entries, put, removed)
        except StoreError as failure:
            if id(removed) not in asked and failure.__cause__ is None:
                violate("what-landed-is-not-refused", f"{self._process.name}: {failure.message}")
            raise
        if id(removed) in asked:
            violate("what-is-acknowledged-is-stored", f"{self._process.name}: {entries[0].event}")
        return stored

    def bury(self) -> None:
        self._server.bury(self._process)
