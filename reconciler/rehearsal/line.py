"""The line from one run to the twin: it carries requests out on the twin's own time, and strikes one call."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from reconciler.core.errors import Lost
from reconciler.rehearsal.faults import COURSES, KILLED, Course
from reconciler.rehearsal.process import Process
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request, Response
from reconciler.services.transport import Answer

LATENCY_S = 0.05
_LOOK_S = 0.5  # so often is looked whether what a request waits for is there


class TwinLine:
    """A `Transport` of one process to the twin."""

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
            await asyncio.sleep(_LOOK_S)
            response = self._sandbox.answer(request, since=asked, again=True)
        return answer_of(response)

    async def _struck(self, request: Request, course: Course, deadline_s: float) -> Answer:
        if course.effect:
            self._sandbox.handle(request)
        if course is COURSES[KILLED]:
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
    return Answer(response.status, {"content-type": response.content_type, **response.headers}, response.body)
