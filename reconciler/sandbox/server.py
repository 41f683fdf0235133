"""The sandbox as a process: its HTTP front, its socket, its lock, its signals and its end.

Requests go to the core as they came, over a uvicorn connection that can be cut. So errors have the platform's
shape, also those of malformed requests. A framework's layers would cost as much as the core. A wait for a
state of a machine is asked again when the clock moves or another request was answered, until it has its
answer or its client is gone.
"""

import asyncio
import errno
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import ShortHead, ending_signals, listening_at
from reconciler.sandbox import access, control
from reconciler.sandbox.catalog import OPEN
from reconciler.sandbox.core import Sandbox, refused
from reconciler.sandbox.courier import Courier
from reconciler.sandbox.database import require_own
from reconciler.sandbox.description import description
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
from reconciler.sandbox.lock import locked
from reconciler.services.signing import MAX_SIGNED

SLOWEST_BODY_S = 10.0
_LONGEST_NAP_S = 0.5
_SHORTEST_NAP_S = 0.01
_MOST_DRIPS = 100
_BARE = (204, 304)  # answers that HTTP forbids a body


class Connection(ShortHead, HttpToolsProtocol):
    """Hands its transport to the application, which may close it, and tells it when the server is to end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._ending = asyncio.Event()
        local = transport.get_extra_info("socket").family == socket.AF_UNIX
        self.app_state = {**self.app_state, "transport": transport, "ending": self._ending, "local": local}

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


_KEEP_ALIVE_S = 75


def serve(
    *,
    db: Path | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
    clock: str = "real",
    machine_socket: Path | None = None,
    ready: Callable[[str], None],
    until_stdin_closes: bool = False,
    **options: Any,
) -> None:
    """Serve until SIGTERM or SIGINT, or until stdin ends when `until_stdin_closes`.

    `ready` is called with the URL once connections are accepted. At `machine_socket` a Unix socket
    takes the suspend of a machine by itself, without a token. `options` are further ones of `Sandbox`.
    Raises ReconcilerError when the port or socket is taken or another process serves `db`,
    ValueError for an unknown clock or profile.
    """
    if db is not None:
        require_own(db)  # before the lock next to it is written
    with locked(db) as announce, listening_at(host, port) as (listener, url), _local(machine_socket) as local:
        sandbox = Sandbox(db=db, clock=clock, **options)

        def accepting() -> None:
            announce(url)
            ready(url)

        ends = _until_the_end(sandbox, _server(sandbox), [listener, *local], accepting, until_stdin_closes)
        try:
            asyncio.run(ends)
        finally:
            sandbox.close()


@contextmanager
def serving(*, clock: str = "real", **options: Any) -> Iterator[str]:
    """Serve for the block on a thread of its own, on a free port: the URL.

    `options` are further ones of `Sandbox`.
    """
    with listening_at("127.0.0.1", 0) as (listener, url):
        sandbox = Sandbox(clock=clock, **options)
        server = _server(sandbox)
        ends = _until_the_end(sandbox, server, [listener])
        running = threading.Thread(target=asyncio.run, args=(ends,), daemon=True)
        running.start()
        try:
            yield url
        finally:
            server.should_exit = True
            running.join()
            sandbox.close()


def _server(sandbox: Sandbox) -> Server:
    config = Config(
        application(sandbox),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )
    return Server(config)


async def _until_the_end(
    sandbox: Sandbox,
    server: Server,
    listeners: list[socket.socket],
    accepting: Callable[[], None] = lambda: None,
    until_stdin_closes: bool = False,
) -> None:
    """`accepting` is called when everything is ready to serve: the sockets listen already."""

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in ending_signals():
            loop.add_signal_handler(number, stop)
    if until_stdin_closes:
        threading.Thread(target=_watch_stdin, args=(loop, stop), daemon=True).start()
    tasks = [asyncio.create_task(_tick(sandbox)), asyncio.create_task(Courier(sandbox).run())]
    try:
        accepting()
        await server.serve(sockets=listeners)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _tick(sandbox: Sandbox) -> None:
    """End states when the clock passes them, even without requests."""
    while True:
        await asyncio.sleep(nap_s(sandbox))
        sandbox.tick()


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` when the parent that holds the other end of stdin is gone.

    Reads the descriptor itself: a thread inside `sys.stdin` would hold its lock when the interpreter ends.
    """
    while os.read(0, 4096):
        continue
    with suppress(RuntimeError):  # the loop may be closed already
        loop.call_soon_threadsafe(stop)


@contextmanager
def _local(path: Path | None) -> Iterator[list[socket.socket]]:
    """The Unix socket, if there is a path for one. The leftover of a killed process is replaced."""
    if path is None:
        yield []
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        if path.is_socket() and probe.connect_ex(str(path)) == errno.ECONNREFUSED:
            path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(path))
            listener.listen()
        except OSError as error:
            raise ReconcilerError(f"cannot listen at {path}: {error.strerror or error}") from error
        try:
            yield [listener]
        finally:
            path.unlink(missing_ok=True)
