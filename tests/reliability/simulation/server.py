"""The PostgreSQL server of one history: who has a session in it, and what their transactions have stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.postgres.commits import Request, Standing
from tests.reliability.simulation import invariants
from tests.reliability.simulation.database import Database, Running
from tests.reliability.simulation.ghost import Endless, Ghost
from tests.reliability.simulation.runner import Landed
from tests.reliability.simulation.session import Session

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

MOST_MESSAGES = 10_000  # a history that ends has some hundreds
DOWN_S = (0.5, 3.0, 15.0, 40.0)  # how long a restart takes
_LOOK = """SELECT scope, epoch, released, holder, pg_xact_commit_timestamp(xmin)::text FROM reconcile.leases
    ORDER BY scope; SELECT scope, seq FROM reconcile.heads ORDER BY scope"""
_ROWS = """SELECT seq, hash, pg_xact_commit_timestamp(xmin)::text FROM reconcile.journal
    WHERE scope = %s AND seq > %s ORDER BY seq"""

Event = tuple[str, int, Callable[[], None]]  # when it was stored, and what follows for the ghost


@dataclass(slots=True)
class _Sent:
    """The requests of a transaction that was computed, and what each gets where it lands."""

    batch: Sequence[Request]
    outcomes: Sequence[Sequence[StateRecord] | StoreError]
    landed: bool = False


class Server:
    """What lands is told to the ghost at that moment, whether or not its sender lives to hear of it.

    `asked`: by the list of what a request removes, who hears that it landed.
    """

    def __init__(self, database: Database, ghost: Ghost, rng: Random) -> None:
        database.begin()
        self.database = database
        self.ghost = ghost
        self.rng = rng
        self.timeline = ghost.timeline
        self.sessions: list[Session] = []
        self.asked: dict[int, tuple[list[Address], Landed]] = {}
        self._processes: list[Process] = []
        self._messages = 0
        self._down_until_s = 0.0
        self._sent: dict[tuple[str, int, str], _Sent] = {}
        leases, heads = database.ask(_LOOK)
        self._epochs: dict[Any, Any] = {scope: epoch for scope, epoch, *_ in leases}
        self._ends: dict[Any, Any] = dict(heads)
        ghost.leases |= {scope: (epoch, None) for scope, epoch in self._epochs.items()}

    # --- who is connected ---

    def address(self, process: "Process") -> str:
        """The URL as a process has it, always the same: the name of the application tells who asks."""
        self._processes.append(process)
        return f"postgresql://db.example/state?application_name={len(self._processes) - 1}"

    def process(self, conninfo: str) -> "Process":
        return self._processes[int(str(conninfo_to_dict(conninfo)["application_name"]))]

    def count(self, process: "Process") -> None:
        self._messages += 1
        if self._messages > MOST_MESSAGES:
            self.ghost.violate("nothing-goes-on-for-ever", f"{process.name} asks the store")
            raise Endless(f"more than {MOST_MESSAGES} messages to the store")

    @property
    def down_s(self) -> float:
        """How long nobody reaches it any more."""
        return max(0.0, self._down_until_s - self.timeline.time())

    def restart(self) -> None:
        self.ghost.note("the server restarts")
        self._down_until_s = self.timeline.time() + self.rng.choice(DOWN_S) * self.rng.random()
        for session in list(self.sessions):
            session.end(errors.AdminShutdown("terminating connection due to administrator command"))

    def bury(self, process: "Process") -> None:
        """A process died: where its machine died as well, nobody tells the server."""
        silent = self.rng.random() < 0.3
        for session in [each for each in self.sessions if each.process is process]:
            if not (silent and session.is_open):
                session.leave()

    def close(self) -> None:
        for session in list(self.sessions):
            session.end()

    # --- what it does ---

    def run(self, new: Running | None = None) -> None:
        """Until every message is done, or waits for a lock. `new`: one that arrives now."""
        self.database.show(self.timeline.now())
        if new is not None:
            new.step(None)
        working = [each for each in self.sessions if each.running is not None]
        self.database.let_run([each.running for each in working if each.running is not None])
        done = [each for each in working if each.running is not None and each.running.over]
        if any(each.stores for each in done):
            self._look(done[0].process)
        for session in done:
            if session.running is not None:  # nobody has finished it because of another one
                session.finish()

    def computed(self, batch: Sequence[Request], made: tuple[Standing, Any]) -> None:
        """A transaction of these requests is about to be sent."""
        after, outcomes = made
        sent = _Sent(batch, outcomes)
        for scope, seq, _, hash, *_ in after.journal:
            self._sent[scope, seq, hash] = sent

    def _look(self, process: "Process") -> None:
        """Tell the ghost what is stored now, in the order in which it was."""
        leases, heads = self.database.ask(_LOOK)
        events = [self._lease(process, *row) for row in leases if row[1] != self._epochs.get(row[0], 0)]
        for scope, seq in heads:
            if seq != self._ends.get(scope, 0):
                events += self._rows(scope)
        for _, _, tell in sorted(events, key=lambda event: event[:2]):
            tell()

    def _lease(self, process: "Process", scope: Any, epoch: Any, free: Any, holder: Any, at: Any) -> Event:
        self._epochs[scope] = epoch
        holders = [each for each in self._processes if each.name == holder and not free]
        who = holders[-1] if holders else process

        def tell() -> None:
            invariants.check_head(self.ghost, who, scope, epoch, taken=not free)

        return str(at), 0, tell

    def _rows(self, scope: Any) -> list[Event]:
        (rows,) = self.database.ask(_ROWS, scope, self._ends.get(scope, 0))
        events: list[Event] = []
        for seq, hash, at in rows:
            self._ends[scope] = seq
            events.append((str(at), seq, partial(self._row, (scope, seq, hash))))
        return events

    def _row(self, row: Any) -> None:
        sent = self._sent.pop(row, None)
        if sent is None:
            self.ghost.violate("what-is-stored-was-asked-for", f"nobody asked for row {row}")
        elif not sent.landed:
            sent.landed = True
            for request, outcome in zip(sent.batch, sent.outcomes, strict=True):
                if request.lease is not None and not isinstance(outcome, StoreError):
                    self._tell(request, outcome)

    def _tell(self, request: Request, outcome: Sequence[StateRecord]) -> None:
        _, landed = self.asked.pop(id(request.remove), (None, None))
        if landed is None:
            events = ", ".join(entry[1] for entry in request.entries)
            self.ghost.violate("a-commit-lands-once", f"{events} was stored again")
        else:
            landed([record.serial for record in outcome])
