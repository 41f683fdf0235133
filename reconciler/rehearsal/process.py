"""One run on the twin: what it has sent for which step, which call is struck, and its death."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from msgspec import Struct

from reconciler.core.model import Address, StateRecord
from reconciler.rehearsal.faults import COURSES, Course
from reconciler.rehearsal.matrix import NONE
from reconciler.state.passing import Passing
from reconciler.state.places.memory import MemoryStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, Lease


class Killed(BaseException):
    """The process is gone: no handler of it may still do anything."""


class Sent(Struct, frozen=True):
    """A mutation that was sent. `step`: for which one; "" where none had an intent."""

    step: str
    method: str
    path: str


@dataclass(eq=False)
class Process:
    """`strikes`: the step whose first call suffers `fault`."""

    strikes: str = ""
    fault: str = NONE
    alive: bool = True
    sent: list[Sent] = field(default_factory=list)
    _intended: dict[asyncio.Task[Any] | None, str] = field(default_factory=dict)

    def intends(self, step: str) -> None:
        """The running task has made this intent durable, and may send its call."""
        self._intended[asyncio.current_task()] = step

    def sends(self, method: str, path: str) -> Course | None:
        """The running task sends a mutation: what befalls it."""
        self.require_alive()
        step = self._intended.pop(asyncio.current_task(), "")
        first = all(each.step != step for each in self.sent)
        self.sent.append(Sent(step, method, path))
        return COURSES[self.fault] if first and step == self.strikes and self.fault != NONE else None

    def die(self) -> NoReturn:
        self.alive = False
        raise Killed

    def require_alive(self) -> None:
        if not self.alive:
            raise Killed


class TwinStore(Spooling):
    """The process's handle on a state in memory, which takes every commit: nothing is ever spooled."""

    load, journal, lease, release = Passing.load, Passing.journal, Passing.lease, Passing.release

    def __init__(self, inner: MemoryStore, process: Process) -> None:
        Passing.__init__(self, inner)
        self._process = process

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        self._process.require_alive()
        stored = await self.inner.commit(lease, entries, put, remove)
        for entry in entries:
            if entry.event is Event.INTENT:
                self._process.intends(entry.step)
        return stored

    async def spooled(self) -> list[Any]:
        return []
