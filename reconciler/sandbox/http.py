"""The HTTP front: requests go to the core as they came, over a uvicorn connection that can be cut.

So errors have the platform's shape, also those of malformed requests. FastAPI only describes; its layers
would cost as much as the core. A wait for a state of a machine is asked again when the clock moves or another
request was answered, until it has its answer or its client is gone.
"""

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi import Response as HttpResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.sandbox import access, control
from reconciler.sandbox.catalog import OPEN, ROUTES
from reconciler.sandbox.core import Sandbox, refused
from reconciler.sandbox.description import VERSION, complete, described
from reconciler.sandbox.exchange import Refusal, Request, Response
from reconciler.services.signing import MAX_SIGNED

SLOWEST_BODY_S = 10.0
_LONGEST_NAP_S = 0.5
_SHORTEST_NAP_S = 0.01
_MOST_DRIPS = 100
_MOST_HEAD = 64 * 1024  # bytes, and what comes with its end
_BARE = (204, 304)  # answers that HTTP forbids a body


class Connection(HttpToolsProtocol):
    """Hands its transport to the application, which may close it, and tells it when the server is to end."""

    _head: int | None = None  # bytes of a head that has not ended

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._ending = asyncio.Event()
        local = transport.get_extra_info("socket").family == socket.AF_UNIX
        self.app_state = {
            **self.app_state,
            "transport": transport,
            "ending": self._ending,
            "local": local,
        }

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is None or self.transport.is_closing():
            return
        self._head += len(data)
        if self._head > _MOST_HEAD:
            self.send_400_response("The request's head is too long.")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def shutdown(self) -> None:
        self._ending.set()
        super().shutdown()


class Answer(HttpResponse):
    """The core's answer, held back or spoiled as it says. Cuts need the transport of a `Connection`."""

    def __init__(self, answer: Response) -> None:
        body = b"" if answer.status in _BARE else answer.body
        length = {} if answer.status in _BARE else {"content-length": str(len(body))}
        super().__init__(body, answer.status, answer.headers | length, answer.content_type if body else None)
        self._delay_s, self._drip_s, self._cut = answer.delay_s, answer.drip_s, answer.cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if self._drip_s and self.body:
            await self._drip(send)
            return
        if not self._cut:
            await super().__call__(scope, receive, send)
            return
        transport: asyncio.Transport = scope["state"]["transport"]
        if self._cut == "truncate":
            half = bytes(self.body)[: len(self.body) // 2]
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await send({"type": "http.response.body", "body": half, "more_body": True})
            transport.close()
        else:
            transport.abort()
        while (await receive())["type"] != "http.disconnect":
            continue

    async def _drip(self, send: Send) -> None:
        body = bytes(self.body)
        step = max(1, len(body) // _MOST_DRIPS)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(body), step):
            if start:
                await asyncio.sleep(self._drip_s)
            more = start + step < len(body)
            await send({"type": "http.response.body", "body": body[start : start + step], "more_body": more})


class _Front(FastAPI):
    """Answers everything by `respond`, apart from the description of the routes that it is given."""

    def __init__(self, respond: Callable[[HttpRequest], Awaitable[HttpResponse]], **about: Any) -> None:
        super().__init__(**about)
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == self.openapi_url and scope["method"] in ("GET", "HEAD"):
            await super().__call__(scope, receive, send)
        else:
            answer = await self._respond(HttpRequest(scope, receive))
            await answer(scope, receive, send)


def application(sandbox: Sandbox) -> FastAPI:
    """The platform and its control verbs as an ASGI application, described at `/openapi.json`."""
    moved = asyncio.Event()  # set for an instant by each answer, for those that wait for the world to move

    async def respond(http: HttpRequest) -> HttpResponse:
        try:
            body, late = await _body(http)
        except ClientDisconnect:
            return HttpResponse()  # to nobody: what did not come whole is no request
        request = Request(
            http.method,
            http.scope["raw_path"].decode("ascii"),
            http.scope["query_string"].decode("latin-1"),
            _headers(http),
            body,
            late=late,
            local=http.scope.get("state", {}).get("local", False),
        )
        if control.owns(request.path) and not request.local:
            try:
                access.check_page(request.headers, http.scope["server"][0], has_body=bool(body))
            except Refusal as refusal:
                return Answer(refused(request.path, refusal))
        fault = sandbox.fault_for(request)
        if fault and fault.hold_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(_ending(http).wait(), fault.hold_s)
        since = sandbox.clock.now()
        answer = sandbox.answer(request, fault, since)
        while answer.again_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(_nap_s(sandbox, since + answer.again_s)):
                    await moved.wait()
            if _ending(http).is_set() or await http.is_disconnected():
                since = -math.inf  # what is answered now ends the wait
            answer = sandbox.answer(request, fault, since, again=True)
        moved.set()  # and cleared at once: the waiting tasks are woken all the same
        moved.clear()
        return Answer(answer)

    routes = [route for route in ROUTES if sandbox.extended or not route.extended]
    routes += [route for route in control.route.found if route.summary]
    app = _Front(respond, title="Machines Platform API", version=VERSION, docs_url=None, redoc_url=None)
    for route in routes:
        app.add_api_route(
            route.path, respond, methods=[route.method], **described(route, routes, strict=sandbox.strict)
        )
    complete(app, routes, sandbox)
    return app


def _headers(http: HttpRequest) -> dict[str, str]:
    """By name; values of a name that is repeated stand side by side, as HTTP reads them."""
    headers: dict[str, str] = {}
    for raw, content in http.scope["headers"]:
        name, value = raw.decode("latin-1"), content.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _body(http: HttpRequest) -> tuple[bytes, bool]:
    """The body, and whether it is incomplete because it came too slowly.

    Where anybody may call without a token, no more is read than tells that it is too large.
    """
    if not http.scope["path"].startswith(OPEN):
        return await http.body(), False
    body = b""
    try:
        async with asyncio.timeout(SLOWEST_BODY_S):
            async for piece in http.stream():
                body += piece
                if len(body) > MAX_SIGNED:
                    break
    except TimeoutError:
        return body, True
    return body, False


def _ending(http: HttpRequest) -> asyncio.Event:
    """Set once the server is to end; never, where it is not ours to run."""
    ending: asyncio.Event = http.scope.get("state", {}).get("ending") or asyncio.Event()
    return ending


def _nap_s(sandbox: Sandbox, deadline: float) -> float:
    """Real seconds until something is due or `deadline` passes, short enough to miss a client that left."""
    rate, due = sandbox.clock.rate, sandbox.world.next_due
    if not rate:
        return _LONGEST_NAP_S
    until = deadline if due is None else min(deadline, due)
    return min(max((until - sandbox.clock.now()) / rate, _SHORTEST_NAP_S), _LONGEST_NAP_S)
