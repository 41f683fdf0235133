"""The HTTP front: requests go to the core as they came, over a uvicorn connection that can be cut.

So errors have the platform's shape, also those of malformed requests. A framework's layers
would cost as much as the core. A wait for a state of a machine is asked again when the clock moves or another
request was answered, until it has its answer or its client is gone.
"""

import asyncio
import math
import socket
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.sandbox import access, control
from reconciler.sandbox.catalog import OPEN
from reconciler.sandbox.core import Sandbox, refused
from reconciler.sandbox.description import description
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
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


async def _send(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the core's answer, held back or spoiled as it says. Cuts need the transport of a `Connection`."""
    await asyncio.sleep(answer.delay_s)
    body, headers = answer.body, {**answer.headers}
    if answer.status in _BARE:
        body = b""
    else:
        headers["content-length"] = str(len(body))
    if body:
        headers.setdefault("content-type", answer.content_type)
    end = len(body) // 2 if answer.cut else len(body)
    if answer.cut != "drop":
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        step = max(1, len(body) // _MOST_DRIPS if answer.drip_s else end)
        for start in range(0, max(1, end), step):
            if start:
                await asyncio.sleep(answer.drip_s)
            more = bool(answer.cut) or start + step < end
            piece = body[start : min(start + step, end)]
            await send({"type": "http.response.body", "body": piece, "more_body": more})
    if answer.cut:
        transport: asyncio.Transport = scope["state"]["transport"]
        (transport.abort if answer.cut == "drop" else transport.close)()
        while (await receive())["type"] != "http.disconnect":
            continue


def application(sandbox: Sandbox) -> ASGIApp:
    """The platform and its control verbs as an ASGI application, described at `/openapi.json`."""
    moved = asyncio.Event()  # set for an instant by each answer, for those that wait for the world to move

    async def respond(http: HttpRequest) -> Response:
        if http.scope["path"] == "/openapi.json" and http.method in ("GET", "HEAD"):
            return reply(description(sandbox))
        try:
            body, late = await _body(http)
        except ClientDisconnect:
            return Response()  # to nobody: what did not come whole is no request
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
                return refused(request.path, refusal)
        fault = sandbox.fault_for(request)
        if fault and fault.hold_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(_ending(http).wait(), fault.hold_s)
        since = sandbox.clock.now()
        answer = sandbox.answer(request, fault, since)
        while answer.again_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(nap_s(sandbox, since + answer.again_s)):
                    await moved.wait()
            if _ending(http).is_set() or await http.is_disconnected():
                since = -math.inf  # what is answered now ends the wait
            answer = sandbox.answer(request, fault, since, again=True)
        moved.set()  # and cleared at once: the waiting tasks are woken all the same
        moved.clear()
        return answer

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _send(await respond(HttpRequest(scope, receive)), scope, receive, send)

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


def nap_s(sandbox: Sandbox, deadline: float = math.inf) -> float:
    """Real seconds until something is due or `deadline` passes, short enough to miss a client that left."""
    rate, due = sandbox.clock.rate, sandbox.world.next_due
    if not rate:
        return _LONGEST_NAP_S
    until = deadline if due is None else min(deadline, due)
    return min(max((until - sandbox.clock.now()) / rate, _SHORTEST_NAP_S), _LONGEST_NAP_S)
