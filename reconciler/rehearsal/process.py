"""One run on the twin: the calls that it sends, the call that meets a fault, and its death.

A `Process` is one run of the program. Its `TwinTransport` carries requests to the sandbox on the twin's own
time, and its `TwinStore` is its handle on the state.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

from msgspec import Struct

from reconciler.core.errors import Lost
from reconciler.core.model import Address, StateRecord
from reconciler.rehearsal.results import NONE
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request, Response
from reconciler.services.transport import Answer
from reconciler.state.places.memory import MemoryStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, Lease, Store

LATENCY_S = 0.05
_POLL_S = 0.5  # between two looks for what a request waits for
_KILLED = "killed"


class Course(Struct, frozen=True):
    """The fate of one call.

    `effect`: the call is carried out. `status`: of the answer that replaces the real one; 0: no answer comes.
    `late`: nothing is answered before the deadline of the sender is over.
    """

    effect: bool
    status: int = 0
    late: bool = False
    retry_after_s: int = 0


COURSES = {  # for each of `results.CALL_FAULTS`
    "lost_before": Course(effect=False),
    "lost_after": Course(effect=True),
    "error_after": Course(effect=True, status=502),
    "slow": Course(effect=True, late=True),
    "refused_412": Course(effect=False, status=412),
    "limited_429": Course(effect=False, status=429, retry_after_s=7),
    _KILLED: Course(effect=True),
}


class Killed(BaseException):
    """The process is gone. No handler in it may do anything more, so it is not an Exception."""


class Sent(Struct, frozen=True):
    """A mutation that was sent. `step`: the step that sent it; "" where none had an intent."""

    step: str
    method: str
    path: str


@dataclass(eq=False)
class Process:
    """`strikes`: the step whose first call suffers `fault`. Mutable: it collects what it sends."""

    strikes: str = ""
    fault: str = NONE
    alive: bool = True
    sent: list[Sent] = field(default_factory=list)
    _intended: dict[asyncio.Task[Any] | None, str] = field(default_factory=dict)

    def intends(self, step: str) -> None:
        """Note that the running task has stored its intent and may send its call."""
        self._intended[asyncio.current_task()] = step

    def sends(self, method: str, path: str) -> Course | None:
        """Note a mutation of the running task. Returns its fate; None: it meets no fault."""
        self.require_alive()
        step = self._intended.pop(asyncio.current_task(), "")
        first = all(sent.step != step for sent in self.sent)
        self.sent.append(Sent(step, method, path))
        return COURSES[self.fault] if first and step == self.strikes and self.fault != NONE else None

    def die(self) -> NoReturn:
        """End the process at once: raises Killed, here and at its next call or commit."""
        self.alive = False
        raise Killed

    def require_alive(self) -> None:
        """Raises Killed once the process is dead."""
        if not self.alive:
            raise Killed


class TwinTransport:
    """The `Transport` of one process to the twin."""

    def __init__(self, sandbox: Sandbox, process: Process) -> None:
        self._sandbox = sandbox
        self._process = process

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        parts = urlsplit(url)
        request = Request(method, parts.path, parts.query, headers, body or b"")
        course = self._process.sends(method, parts.path) if method != "GET" else None
        await asyncio.sleep(LATENCY_S)
        if course is None:
            return await self._carried_out(request, deadline_s)
        return await self._struck(request, course, deadline_s)

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _carried_out(self, request: Request, deadline_s: float) -> Answer:
        asked = self._sandbox.clock.now()
        response = self._sandbox.answer(request, since=asked)
        while response.again_s:
            if self._sandbox.clock.now() - asked >= deadline_s:
                raise Lost("no complete answer in time")
            await asyncio.sleep(_POLL_S)
            response = self._sandbox.answer(request, since=asked, again=True)
        return answer_of(response)

    async def _struck(self, request: Request, course: Course, deadline_s: float) -> Answer:
        if course.effect:
            self._sandbox.handle(request)
        if course is COURSES[_KILLED]:
            self._process.die()
        if course.late:
            await asyncio.sleep(deadline_s)
        if not course.status:
            raise Lost("the connection failed before the answer was complete")
        headers = {"content-type": "application/json"}
        if course.retry_after_s:
            headers["retry-after"] = str(course.retry_after_s)
        return Answer(course.status, headers, b'{"error":"rehearsed"}')


def answer_of(response: Response) -> Answer:
    """The answer that a client gets of a response of the sandbox."""
    return Answer(response.status, {"content-type": response.content_type, **response.headers}, response.body)


class TwinStore(Spooling):
    """The handle of a process on a state in memory. Memory takes every commit, so nothing is ever spooled."""

    load, journal, lease, release = Store.load, Store.journal, Store.lease, Store.release

    def __init__(self, inner: MemoryStore, process: Process) -> None:
        Store.__init__(self, inner)
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
