"""The provider as an ASGI application: the calls of the platform, and the pages for people.

The signature of every call below `/extensions`, except the sign-in, is verified before its path is read: a
caller who cannot sign does not even learn which paths there are.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random, SystemRandom
from typing import Any
from urllib.parse import unquote

import anyio
import structlog
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.core.clock import Clock, SystemClock
from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import Allowance
from reconciler.providers.kit.functions import Declined, Functions, Order
from reconciler.providers.kit.intake import Handler, Intake, Refusal, unauthorized
from reconciler.providers.kit.resources import Resources
from reconciler.providers.kit.settings import CALLBACK_PATH, EVENTS_PATH, ProviderSettings
from reconciler.providers.kit.sign_in import SIGN_INS_PER_S, SignIn
from reconciler.providers.kit.store import Store
from reconciler.providers.kit.webhooks import Outbox
from reconciler.services.signing import NotAuthentic
from reconciler.services.transport import HttpTransport, Transport, http_parts

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
_FUNCTIONS = ("provision", "update", "get", "deprovision", "costs")
_WATCH_EVERY_S = 60.0
_log = structlog.get_logger("reconciler.provider")

OpenTransport = Callable[[str], Transport]


@dataclass(slots=True)
class Kit:
    """One worker of a provider. `running` is its lifespan: calls need it."""

    settings: ProviderSettings
    store: Store
    resources: Resources
    outbox: Outbox
    sign_in: SignIn
    intake: Intake
    clock: Clock
    transports: tuple[Transport, ...]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Continue unfinished work, send webhooks, and let calls start, for the block."""
        try:
            async with anyio.create_task_group() as tasks:
                self.resources.begin_in(tasks)
                tasks.start_soon(self.outbox.send_until_cancelled)
                tasks.start_soon(self._watch_until_cancelled)
                yield
                tasks.cancel_scope.cancel()
        finally:
            for transport in self.transports:
                await transport.aclose()
            self.store.close()

    async def _watch_until_cancelled(self) -> None:
        while True:
            await self.clock.sleep(_WATCH_EVERY_S)
            if self.store.take("watch"):
                try:
                    await self.resources.watch()
                finally:
                    self.store.release("watch")


def create_app(
    settings: ProviderSettings,
    functions: Functions,
    *,
    on_event: Handler | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
    open_transport: OpenTransport = HttpTransport,
) -> Starlette:
    """The provider with its lifespan; `app.state.kit` is the Kit, for mounting it into another application.

    `functions` has the five functions of `Functions`, as coroutines. Raises StoreError when the store cannot
    be used, ReconcilerError for an unusable address or a missing function.
    """
    missing = [name for name in _FUNCTIONS if not callable(getattr(functions, name, None))]
    if missing:
        raise ReconcilerError(
            f"the provider has no function `{missing[0]}`", help=f"it needs {', '.join(_FUNCTIONS)}"
        )
    clock, random = clock or SystemClock(), random or SystemRandom()
    webhook = open_transport(_host_of(settings.webhook_url)) if settings.webhook_url else None
    sign_in_host = open_transport(settings.sign_in.auth_url) if settings.sign_in else None
    store = Store(settings.store)
    outbox = Outbox(settings, store, clock, webhook, random)
    resources = Resources(settings, functions, store, outbox, clock)
    intake = Intake(settings, store, clock, Allowance(settings.rate, clock), on_event)
    visits = Allowance(min(settings.rate, SIGN_INS_PER_S), clock)
    kit = Kit(
        settings,
        store,
        resources,
        outbox,
        SignIn(settings, store, resources, outbox, clock, sign_in_host, visits),
        intake,
        clock,
        tuple(transport for transport in (webhook, sign_in_host) if transport is not None),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with kit.running():
            yield

    api, costs = partial(_answered, kit, _api), partial(_answered, kit, _costs)
    routes = [
        Route("/extensions/{id}/sso", kit.sign_in.start, methods=["GET"]),
        Route(CALLBACK_PATH, kit.sign_in.finish, methods=["GET"]),
        Route("/resources/{id}", kit.sign_in.page, methods=["GET"]),
        Route("/sign-in/end", kit.sign_in.end, methods=["POST"]),
        Route(settings.costs_path, costs, methods=_METHODS),
        Route("/extensions", api, methods=_METHODS),
        Route("/extensions/{rest:path}", api, methods=_METHODS),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.kit = kit
    return app


async def _answered(
    kit: Kit, respond: Callable[[Kit, Request], Awaitable[Response]], request: Request
) -> Response:
    """The answer; a failure as `{error}`, with its own text only where that is meant for the caller."""
    try:
        return await respond(kit, request)
    except NotAuthentic as refused:
        _log.warning("request.refused", method=request.method, why=refused.why)
        return unauthorized()
    except Refusal as refusal:
        return refusal.response
    except Declined as declined:
        return JSONResponse({"error": str(declined)}, 422)
    except Exception as failure:
        _log.error("request.failed", method=request.method, reason=type(failure).__name__)
        return JSONResponse({"error": "the provider failed; try again"}, 500)


async def _api(kit: Kit, request: Request) -> Response:
    path = _own_path(request)
    if path == EVENTS_PATH and request.method == "POST":
        return await kit.intake.take_event(request)
    fields = await kit.intake.signed(request)
    id = unquote(path.removeprefix("/extensions").removeprefix("/"))
    answers: Mapping[str, Callable[[], Awaitable[tuple[int, dict[str, Any]]]]]
    if not id:
        answers = {"POST": lambda: kit.resources.provision(_order(fields))}
    else:
        changes = {name: fields[name] for name in Order.model_fields if name in fields}
        answers = {
            "GET": lambda: kit.resources.get(id),
            "PATCH": lambda: kit.resources.update(id, changes, _order),
            "DELETE": lambda: kit.resources.remove(id),
        }
    if request.method not in answers:
        raise Refusal(405, "this path does not support this method", {"allow": ", ".join(answers)})
    status, body = await answers[request.method]()
    return JSONResponse(body, status, {"cache-control": "no-store"})


async def _costs(kit: Kit, request: Request) -> Response:
    await kit.intake.signed(request)
    if request.method != "GET":
        raise Refusal(405, "this path does not support this method", {"allow": "GET"})
    status, body = await kit.resources.costs()
    return JSONResponse(body, status, {"cache-control": "no-store"})


def _own_path(request: Request) -> str:
    """The path as it was sent, without the prefix that the application is mounted at."""
    path: str = request.scope.get("raw_path", b"").decode("latin-1")
    return path.removeprefix(request.scope.get("root_path", ""))


def _order(fields: Any) -> Order:
    """Raises Refusal (422) naming the first field that is wrong."""
    try:
        return Order.model_validate(fields)
    except ValidationError as failure:
        problem = failure.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(map(str, problem["loc"]))
        raise Refusal(422, f"`{name}`: {problem['msg'][:1].lower()}{problem['msg'][1:]}") from None


def _host_of(url: str) -> str:
    """The origin of `url`. Its path and query may hold a secret, and stay out of messages."""
    parts = http_parts(url)
    if parts is None:
        raise ReconcilerError("the address of webhooks is not valid")
    return f"{parts.scheme}://{parts.netloc}"
