"""What a controller shows on HTTP: metrics, whether it lives, and one page for people. They only read."""

import hmac
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import anyio
from jinja2 import Environment, Template
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.controller.metrics import Collector
from reconciler.controller.status import ScopeStatus, Status, View
from reconciler.core.listening import HeadInTime, ShortHead

Views = Callable[[], Sequence[View]]
Runs = Callable[[], Awaitable[Mapping[str, str]]]  # the last ones: a line by id
HOOKS = "/hooks/"
_LOOK_S, _ALIVE_S = 1.0, 15.0  # how often a page looks for news, and is told that there are none
_END_S, _MOST = 3, 100  # seconds for the last answers; requests and pages that are open at once
_HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
}


def application(
    views: Views, token: str = "", hooks: Sequence[Route] = (), runs: Sequence[Runs] = ()
) -> Starlette:
    """The pages, and `hooks`, which are signed. `token`: of other callers; "" where all are here."""

    async def metrics(request: Request) -> Response:
        accepted = request.headers.get("accept", "")
        try:
            encode, kind = choose_encoder(accepted)
        except (TypeError, ValueError):  # it asks for a version that is no number
            encode, kind = choose_encoder("")
        return Response(encode(Collector(views())), media_type=None, headers={"content-type": kind})

    async def page(request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        lines = {id: line for read in runs for id, line in (await read()).items()}
        html = _template().render(rows=_rows(views()), runs=lines, nonce=nonce)
        return HTMLResponse(html, headers={"content-security-policy": policy})

    async def healthy(request: Request) -> Response:
        return PlainTextResponse("ok")

    async def news(request: Request) -> Response:
        return StreamingResponse(_news(views, request), media_type="text/event-stream")

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/events", news),
            Route("/metrics", metrics),
            Route("/healthz", healthy),
            *hooks,
        ]
    )

    async def guarded(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        open_to_all = not token or request.scope["path"].startswith(("/healthz", HOOKS))
        if not open_to_all and not hmac.compare_digest(given.encode(), token.encode()):
            return PlainTextResponse("a token is needed", 401, {"www-authenticate": "Bearer"})
        response = await answer(request)
        response.headers.update(_HEADERS)
        return response

    app.add_middleware(BaseHTTPMiddleware, dispatch=guarded)
    return app


@cache
def _template() -> Template:
    text = files("reconciler.controller").joinpath("page.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)


def _rows(views: Sequence[View]) -> Sequence[tuple[str, ScopeStatus]]:
    order = list(Status)
    rows = [(view.environment, status) for view in views for status in view.statuses.values()]
    return sorted(rows, key=lambda row: (order.index(row[1].status), row[0], row[1].scope))


async def _news(views: Views, request: Request) -> AsyncIterator[str]:
    """An event each time that a status changes."""
    before, silent_s = None, 0.0
    while not await request.is_disconnected():
        now = [(name, each.scope, each.status, each.reason) for name, each in _rows(views())]
        if before is not None and now != before:
            yield f"event: changed\n{_as_data(_template(), views())}\n\n"
            silent_s = 0.0
        elif silent_s >= _ALIVE_S:
            yield ": alive\n\n"
            silent_s = 0.0
        before = now
        await anyio.sleep(_LOOK_S)
        silent_s += _LOOK_S


def _as_data(template: Template, views: Sequence[View]) -> str:
    """What moves of the page, as the data of an event."""
    html = "".join(template.blocks["main"](template.new_context({"rows": _rows(views)})))
    return "\n".join(f"data: {line}" for line in html.splitlines())


class _Connection(HeadInTime, ShortHead, HttpToolsProtocol):
    """A connection of uvicorn, whose heads are short and come in time."""


async def serve(listener: socket.socket, app: Starlette) -> None:
    """Serve until it is cancelled."""
    config = Config(
        app,
        http=_Connection,
        lifespan="off",
        log_config=None,
        log_level="error",  # strangers write no line by a request that is not valid
        access_log=False,
        limit_concurrency=_MOST,
        timeout_graceful_shutdown=_END_S,
    )
    server = Server(config)
    await server._serve(sockets=[listener])  # signals are the controller's
