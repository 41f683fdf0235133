"""The way between processes and the platform: a request on its way outlives the process that sent it."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Mapping
from email.utils import format_datetime
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.core.errors import Lost, TransportError
from reconciler.rehearsal.twin import Timeline
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request, Response
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.parts.volume import Snapshot, Volume
from reconciler.sandbox.world import Thing
from reconciler.services.transport import Answer
from tests.reliability.simulation import invariants
from tests.reliability.simulation.faults import (
    COURSES,
    LAG_S,
    LATE_ABSOLUTE_S,
    LIES_IN_A_ROW,
    STALE_S,
    Channel,
    Course,
    honest,
)
from tests.reliability.simulation.ghost import Ghost, Sending
from tests.reliability.simulation.scenario import Fault

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

Waiting = asyncio.Future[Answer]
_NO_FAULT = Course(lambda fault: honest)
_NOTHING = Fault("")
LATENCY_S = 0.05
LOOK_S = 0.5  # so often is looked whether what a request waits for is there


class Network:
    """Carries requests out on the timeline, in the order in which they arrive."""

    def __init__(self, sandbox: Sandbox, ghost: Ghost, timeline: Timeline, rng: Random) -> None:
        self._sandbox = sandbox
        self._ghost = ghost
        self._timeline = timeline
        self._rng = rng
        self._lies: Counter[tuple[str, str]] = Counter()
        self._past: dict[str, deque[tuple[float, bytes]]] = {}  # each list as it was until a moment

    async def request(
        self,
        process: "Process",
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline_s: float,
    ) -> Answer:
        parts = urlsplit(url)
        channel: Channel = "read" if method == "GET" else "mutation"
        process.pass_by(f"{channel}:before")
        await process.wake()
        fault = process.fault(channel)
        request = Request(method, parts.path, parts.query, headers, body or b"")
        sending = None
        if method != "GET":
            sending = self._ghost_sends(process, request)
        course = COURSES[fault.kind] if fault is not None else _NO_FAULT
        waiting: Waiting = self._timeline.create_future()
        self._send(process, request, sending, course, fault or _NOTHING, waiting, deadline_s)
        if sending is not None:
            process.pass_by("mutation:sent")
        answer = await waiting
        await process.wake()
        process.pass_by(f"{channel}:after")
        await process.wake()
        return answer

    def remember(self) -> None:
        """Keep every list as it is now, before something changes it: stale answers show it for a while."""
        now = self._timeline.time()
        for path in self._past:
            self._keep(path, now)

    def _keep(self, path: str, now: float) -> None:
        request = Request("GET", path, "", {"authorization": "Bearer sandbox"})
        kept = self._past.setdefault(path, deque())
        kept.append((now, self._sandbox.answer(request, again=True).body))  # counts towards no rate limit
        while kept[0][0] < now - LAG_S:
            kept.popleft()

    def _ghost_sends(self, process: "Process", request: Request) -> Sending:
        ghost, opened = self._ghost, process.intended()
        body = json.loads(request.body) if request.body else None
        sending = Sending(process, request.method, request.path, body, opened, self._timeline.time())
        sending.checked_s = process.checked_s()
        ghost.note(process.name, "sends", request.method, request.path)
        invariants.check_sent(ghost, sending)
        if opened is not None:
            opened.sending = sending
        return sending

    def _send(
        self,
        process: "Process",
        request: Request,
        sending: Sending | None,
        course: Course,
        fault: Fault,
        waiting: Waiting,
        deadline_s: float,
    ) -> None:
        later = self._timeline.call_later
        there_s = LATENCY_S * (0.5 + self._rng.random())
        back_s = LATENCY_S * self._rng.random() + (fault.after_s if course.slow else 0.0)
        answer = course.answer(fault)

        def reply(response: Response) -> None:
            if sending is not None and not process.alive:
                self._ghost.tally.note("crash in flight")
            if process.alive and not waiting.done():
                _settle(waiting, self._dated(answer(response)))

        def carry_out(answered: bool) -> None:
            if answered and back_s + there_s > deadline_s:
                later(max(0.0, deadline_s - there_s), _lose, process, waiting)
            response = self._carry_out(process, request, sending, course, fault)
            if response.again_s:
                later(LOOK_S, look_again, self._sandbox.clock.now())
                return
            if sending is not None:
                process.pass_by_outside("mutation:effect")
                if not process.alive and not answered:
                    self._ghost.tally.note("late effect of a dead process")
            if answered:
                later(back_s, reply, response)

        def look_again(since: float) -> None:
            response = self._sandbox.answer(request, since=since, again=True)
            if response.again_s:
                later(LOOK_S, look_again, since)
            else:
                later(back_s, reply, response)

        if not course.effect:
            refused = _echo(request) if course.echoes else Response(500)
            later(min(there_s + back_s, deadline_s), reply, refused)
            if there_s + back_s > deadline_s:
                later(deadline_s, _lose, process, waiting)
        elif course.late:
            self._ghost.in_flight += 1
            later(there_s + back_s, reply, Response())
            create = _making(request.path) is not None
            later(fault.after_s if create else min(fault.after_s, LATE_ABSOLUTE_S), carry_out, False)
        elif sending is None:
            later(there_s, carry_out, True)
        else:
            self._ghost.in_flight += 1
            later(there_s, carry_out, True)

    def _carry_out(
        self, process: "Process", request: Request, sending: Sending | None, course: Course, fault: Fault
    ) -> Response:
        ghost, world = self._ghost, self._sandbox.world
        if sending is None:
            if request.path.endswith("/volumes"):
                return self._list(process, request, course, fault.after_s)
            process.looked_s[request.path.rpartition("/")[2]] = self._timeline.time()
            return self._sandbox.answer(request, since=self._sandbox.clock.now())
        ghost.in_flight -= 1
        self.remember()
        before = world.revision
        made = _making(sending.path)
        count = _newest(world, made) if made is not None else None
        response = self._sandbox.handle(request)
        sending.carried = True
        untimely = invariants.is_untimely(ghost, sending)
        if untimely:
            ghost.tally.note("late sender", "beyond the settle window")
        if course.late or untimely:
            ghost.last_disturbance_s = self._timeline.time()
        if made is not None and response.status < 300:
            newest = _newest(world, made)
            if newest is not None and newest is not count:
                sending.made = newest.id
                (ghost.strays if untimely else ghost.made)[newest.id] = sending
                ghost.born_at[newest.id] = self._timeline.time()
        effect = "effect" if world.revision != before else "no effect"
        ghost.note(sending.process.name, "carried", sending.method, sending.path, response.status, effect)
        invariants.check_carried(ghost, sending, response)
        return response

    def _dated(self, answer: Answer | TransportError) -> Answer | TransportError:
        """With the platform's time, on which runners rely whose clocks differ."""
        if isinstance(answer, TransportError) or not self._ghost.shared:
            return answer
        at = format_datetime(self._timeline.now(), usegmt=True)
        return Answer(answer.status, {**answer.headers, "date": at}, answer.body)

    def _may_lie(self, process: "Process", path: str, course: Course, lag_s: float) -> bool:
        """Whether this list may show the past: further back than `STALE_S` only so many times in a row."""
        key = (process.name, path)
        if not course.stale or (lag_s > STALE_S and self._lies[key] >= LIES_IN_A_ROW):
            self._lies[key] = 0
            return False
        self._lies[key] += lag_s > STALE_S
        return True

    def _list(self, process: "Process", request: Request, course: Course, lag_s: float) -> Response:
        current = self._sandbox.handle(request)
        if current.status == 200:
            kept = self._past.setdefault(request.path, deque())
            process.listed_s[request.path] = self._timeline.time()
            if self._may_lie(process, request.path, course, lag_s):
                process.listed_s[request.path] = as_of = self._timeline.time() - lag_s
                body = next((body for until, body in kept if until > as_of), current.body)
                return Response(200, body, headers=dict(current.headers))
        return current


def _echo(request: Request) -> Response:
    """A refusal that repeats what was sent, as careless servers do."""
    said = {"error": f"cannot process {request.body.decode()}"}
    return Response(422, json.dumps(said).encode())


def _making(path: str) -> type[Thing] | None:
    """The class of object that a POST to `path` brings about."""
    if path.endswith("/snapshots"):
        return Snapshot
    if path.endswith("/volumes"):
        return Volume
    return Cluster if path == "/v1/postgres" or path.endswith("/restore") else None


def _newest(world: Any, cls: type[Thing]) -> Thing | None:
    newest: Thing | None = None
    for newest in world.all(cls):  # noqa: B007 - the last one is what is wanted
        pass
    return newest


def _settle(waiting: Waiting, answer: Answer | TransportError) -> None:
    if isinstance(answer, TransportError):
        waiting.set_exception(answer)
    else:
        waiting.set_result(answer)


def _lose(process: "Process", waiting: Waiting) -> None:
    if process.alive and not waiting.done():
        waiting.set_exception(Lost("no complete answer in time"))
