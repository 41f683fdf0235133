"""The HTTP front: FastAPI over the core, and a uvicorn connection that can be cut.

FastAPI routes and describes; bodies go to the core unread, so that their errors have
the platform's shape and not FastAPI's.
"""

import asyncio
from typing import Any

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi import Response as HttpResponse
from pydantic.json_schema import models_json_schema
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.sandbox.catalog import ROUTES
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request, Response
from reconciler.sandbox.routing import Route
from reconciler.wire.base import Wire

API_VERSION = "1.0"
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


class Error(Wire):
    """`status` and `details` in the groups that send them."""

    error: str
    status: str | None = None
    details: dict[str, Any] | None = None


class Connection(H11Protocol):
    """Hands its transport to the application, which may close it without an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class Answer(HttpResponse):
    """The core's answer, held back or spoiled as it says. Cuts need the transport of a `Connection`."""

    def __init__(self, answer: Response) -> None:
        headers = {**answer.headers, "content-length": str(len(answer.body))}
        super().__init__(answer.body, answer.status, headers, answer.content_type if answer.body else None)
        self._delay_s, self._cut = answer.delay_s, answer.cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
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


def application(sandbox: Sandbox) -> FastAPI:
    """The platform and its control verbs as an ASGI application, described at `/openapi.json`."""

    async def respond(http: HttpRequest) -> HttpResponse:
        request = Request(
            http.method,
            http.scope["raw_path"].decode("ascii"),
            http.scope["query_string"].decode("latin-1"),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in http.scope["headers"]},
            await http.body(),
        )
        fault = sandbox.fault_for(request)
        if fault and fault.hold_s:
            await asyncio.sleep(fault.hold_s)
        return Answer(sandbox.answer(request, fault))

    routes = [route for route in ROUTES if sandbox.extended or not route.extended]
    app = FastAPI(title="Machines Platform API", version=API_VERSION, redoc_url=None, redirect_slashes=False)
    for route in routes:
        app.add_api_route(route.path, respond, methods=[route.method], **_described(route))
    app.add_route("/{path:path}", respond, methods=_METHODS, include_in_schema=False)
    describe = app.openapi
    bodies = [(route.body, "validation") for route in routes if route.body]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = describe()
            _, schemas = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
            components = description.setdefault("components", {})
            components.setdefault("schemas", {}).update(schemas.get("$defs", {}))
            components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
            description["security"] = [{"bearer": []}]
        return app.openapi_schema or description

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _described(route: Route) -> dict[str, Any]:
    """What FastAPI is to say of a route: the core reads parameters and body itself."""
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    extra: dict[str, Any] = {
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    }
    if route.body:
        schema = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    first, *others = route.replies
    stem = route.handler.__module__.rpartition(".")[2]
    return {
        "summary": route.summary,
        "operation_id": f"{stem}_{route.handler.__name__}",
        "tags": [stem],
        "status_code": first,
        "response_model": None,
        "responses": {
            **{
                status: {"model": route.replies[status]}
                for status in (first, *others)
                if route.replies[status]
            },
            **{status: {"model": Error} for status in route.errors},
        },
        "openapi_extra": extra,
    }
