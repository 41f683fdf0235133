"""The PostgreSQL server of one history: who has a session in it, and what their transactions have stored."""

import json
from random import Random
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from tests.reliability.simulation import invariants
from tests.reliability.simulation.database import Database, Running
from tests.reliability.simulation.ghost import Endless, Ghost
from tests.reliability.simulation.runner import Landed, tell
from tests.reliability.simulation.session import Session

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

MOST_MESSAGES = 10_000  # a history that ends has some hundreds
DOWN_S = (0.5, 3.0, 15.0, 40.0)  # how long a restart takes
_TAGS = """SELECT key, tag, pg_xact_commit_timestamp(xmin)::text FROM reconcile.objects
    WHERE key LIKE '%%/heads/%%' AND part = 0 ORDER BY 3, key"""
_HEAD = "SELECT string_agg(body, ''::bytea ORDER BY part) FROM reconcile.objects WHERE key = %s"


class Server:
    """What lands is told to the ghost at that moment, whether or not its sender lives to hear of it.

    `asked`: by the id of a change, who hears that it landed.
    """

    def __init__(self, database: Database, ghost: Ghost, rng: Random) -> None:
        database.begin()
        self.database = database
        self.ghost = ghost
        self.rng = rng
        self.timeline = ghost.timeline
        self.sessions: list[Session] = []
        self.asked: dict[str, Landed] = {}
        self._processes: list[Process] = []
        self._messages = 0
        self._down_until_s = 0.0
        (found,) = database.ask(_TAGS)
        self._tags: dict[str, str] = {key: tag for key, tag, _ in found}
        ghost.leases |= {head["scope"]: (head["epoch"], None) for head, _ in map(self._head, self._tags)}

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

    def _look(self, process: "Process") -> None:
        """Tell the ghost what is stored now, in the order in which it was."""
        (found,) = self.database.ask(_TAGS)
        for key, tag, _ in found:
            if self._tags.get(key) != tag:
                self._tags[key] = tag
                self._tell(process, *self._head(key))

    def _head(self, key: str) -> tuple[dict[str, Any], list[str]]:
        """What the head says, and its changes."""
        (((body,),),) = self.database.ask(_HEAD, key)
        first, *tail = bytes(body).decode().splitlines()
        return json.loads(first), tail

    def _tell(self, process: "Process", head: dict[str, Any], tail: list[str]) -> None:
        holders = [each for each in self._processes if head["lease"] and each.name == head["holder"]]
        who = holders[-1] if holders else process
        invariants.check_head(self.ghost, who, head["scope"], head["epoch"], taken=bool(head["lease"]))
        tell(self.asked, tail)
