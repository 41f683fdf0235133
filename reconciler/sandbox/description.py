"""What `/openapi.json` says: the routes, with the wire models of their bodies and answers.

Source: platform API, 9: OpenAPI 3.1, description version `1.0`.
"""

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reconciler.sandbox.routing import Route
from reconciler.wire.base import Wire

VERSION = "1.0"


class Error(Wire):
    """`status` and `details` in the groups that send them."""

    error: str
    status: str | None = None
    details: dict[str, Any] | None = None


def complete(app: FastAPI, routes: Sequence[Route]) -> None:
    """Add what FastAPI cannot know: the models of bodies that it does not read, and the token."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        description = describe()  # kept by FastAPI, so that the additions stay
        description["security"] = [{"bearer": []}]
        components = description.setdefault("components", {})
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        components.setdefault("schemas", {}).update(_schemas(routes))
        return description

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    mode: Literal["validation"] = "validation"
    bodies: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (route.body, mode) for route in routes if route.body
    ]
    _, schemas = models_json_schema(bodies, ref_template="#/components/schemas/{model}")
    definitions: dict[str, Any] = schemas["$defs"]
    return definitions


def described(route: Route) -> dict[str, Any]:
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
        "response_class": JSONResponse if route.replies[first] else Response,
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
