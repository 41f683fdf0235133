"""The content of `/openapi.json`: the routes, with the wire models of their bodies and answers, and links.

A link leads from an answer with an id to every operation that takes the id, so that a client, or a fuzzer,
finds its way from a create to all operations on the new object. Parameters have
examples from the world as it is. Source: platform API, 9: OpenAPI 3.1, description version `1.0`.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from http.client import responses as phrases
from typing import Any, Literal

from pydantic import TypeAdapter

from reconciler.core.wire import Wire
from reconciler.sandbox import catalog, control
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import without_nulls
from reconciler.sandbox.part import Route
from reconciler.sandbox.parts.cluster import RESTORE_PATH, Cluster
from reconciler.sandbox.parts.secret import Secret
from reconciler.sandbox.parts.volume import Volume
from reconciler.sandbox.world import App, Machine, World

VERSION = "1.0"
_MODE: Literal["validation"] = "validation"
_REFERENCE = "#/components/schemas/{model}"


class Error(Wire):
    """`status` and `details` in the groups that send them."""

    error: str
    status: str | None = None
    details: dict[str, Any] | None = None


def description(sandbox: Sandbox) -> dict[str, Any]:
    """The description of the routes of the sandbox's profile, with examples of the present.

    Parameters of paths lead somewhere, and the moment of a restore is restorable.
    """
    described = _described(extended=sandbox.extended, strict=sandbox.strict)
    shown = {**described, "paths": deepcopy(described["paths"])}
    living = _living(sandbox.world)
    for parameter in _parameters(shown["paths"]):
        if parameter["in"] == "path" and parameter["name"] in living:
            parameter["example"] = living[parameter["name"]]
    bodies: dict[str, Any] = shown["paths"][RESTORE_PATH]["post"]["requestBody"]["content"]
    now = {"pitr_time": rfc3339(sandbox.clock.now())}
    bodies["application/json"]["examples"] = {"now": {"value": now}}
    return shown


@cache
def _described(*, extended: bool, strict: bool) -> dict[str, Any]:
    routes = catalog.routes(extended=extended)
    routes += [route for route in control.route.found if route.summary]
    replies, models = _schemas(
        {route.name: route.reply for route in routes if route.reply} | {"error": Error}
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        shown = _operation(route, routes, strict=strict)
        for status in route.statuses if route.reply else ():
            schema = replies[route.name]
            if "$ref" not in schema:
                schema = {**schema, "title": f"Response {status} {route.name.replace('_', ' ').title()}"}
            shown["responses"][str(status)]["content"] = {"application/json": {"schema": schema}}
        paths.setdefault(route.path, {})[route.method.lower()] = shown
    return {
        "openapi": "3.1.0",
        "info": {"title": "Machines Platform API", "version": VERSION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": without_nulls(models) | _bodies(routes, strict=strict),
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer"} for name in ("bearer", "access_token")
            },
        },
    }


def _operation(route: Route, routes: Sequence[Route], *, strict: bool) -> dict[str, Any]:
    """The operation of `route`, one of `routes`, apart from the bodies of its answers."""
    by_rate = () if route.guard == "control" else (429,)
    by_strict = (400, 415) if strict and route.guard in ("bearer", "control") else ()
    failed = {"application/json": {"schema": {"$ref": _REFERENCE.format(model=Error.__name__)}}}
    links = {target.name: link for target in routes if (link := _link(route, target))}
    answers: dict[str, Any] = {str(status): {"description": phrases[status]} for status in route.statuses}
    answers[str(route.statuses[0])]["description"] = "Successful Response"
    if links:
        answers = {status: {**answer, "links": links} for status, answer in answers.items()}
    for status in sorted({*route.refusals, *by_rate, *by_strict}):
        answers[str(status)] = {"description": phrases[status], "content": failed}
    shown: dict[str, Any] = {
        "tags": [route.name.partition("_")[0]],
        "summary": route.summary,
        "operationId": route.name,
        "security": [{route.guard: []}] if route.guard in ("bearer", "access_token") else [],
        "parameters": [
            *(
                _parameter(name, "path", {"type": "string", "minLength": 1}, required=True)
                for name in route.path_parameters
            ),
            *(
                _parameter(name, "query", schema, required=name in route.required)
                for name, schema in route.query.items()
            ),
        ],
        "responses": answers,
    }
    if route.body:
        content: dict[str, Any] = {"schema": {"$ref": _REFERENCE.format(model=route.body.__name__)}}
        if route.example:
            content["examples"] = {"documented": {"value": route.example}}
        schema = route.body.model_json_schema()
        required = any(word in schema for word in ("required", "anyOf", "oneOf"))
        shown["requestBody"] = {"required": required, "content": {route.media: content}}
    return shown


def _parameter(name: str, place: str, schema: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": dict(schema)}


def _link(source: Route, target: Route) -> dict[str, Any] | None:
    """How to call `target` with the answer of `source`; None when that is not enough, or gives nothing.

    The remaining parts of the path are those of the request that was answered.
    """
    given = {
        name: found if found.startswith("$") else f"$response.body#{found}"
        for name, found in source.gives.items()
    }
    carried = {name: f"$request.path.{name}" for name in source.path_parameters}
    known = carried | given
    fields = target.body.model_fields if target.body else {}
    in_path = [name for name in target.path_parameters if name in given]
    in_body = {name: expression for name, expression in given.items() if name in fields}
    if not (in_path or in_body) or not all(name in known for name in target.path_parameters):
        return None
    link: dict[str, Any] = {
        "operationId": target.name,
        "parameters": {name: known[name] for name in target.path_parameters},
    }
    if in_body:
        needed = {name: value for name, value in target.example.items() if fields[name].is_required()}
        link["requestBody"] = needed | in_body
    return link


def _schemas(models: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of each model by its name here, and the definitions that they refer to."""
    inputs = [(name, _MODE, TypeAdapter(model)) for name, model in models.items()]
    schemas, shared = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    return {name: schemas[name, _MODE] for name in models}, shared["$defs"]


def _bodies(routes: Sequence[Route], *, strict: bool) -> dict[str, Any]:
    """The models of bodies, by name; `strict` holds those of the platform to the named fields, not null."""
    _, free = _schemas({route.name: route.body for route in routes if route.body and route.guard != "bearer"})
    _, held = _schemas({route.name: route.body for route in routes if route.body and route.guard == "bearer"})
    return free | ({name: _held(schema) for name, schema in held.items()} if strict else held)


def _held(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {}
    for name, property in schema["properties"].items():
        options = [option for option in property.get("anyOf", ()) if option != {"type": "null"}]
        rest = {key: value for key, value in property.items() if key != "anyOf"}
        if rest.get("default", ...) is None:
            del rest["default"]
        properties[name] = rest | ({"anyOf": options} if options else {})
    return {**schema, "properties": properties, "additionalProperties": False}


def _living(world: World) -> dict[str, str]:
    """Parameters of paths that lead somewhere now, all in one app, by name."""
    cluster = next((ready.id for ready in world.all(Cluster) if ready.state == "ready"), None)
    found = {} if cluster is None else {"id": cluster, "postgres_cluster_id": cluster}
    apps = sorted(world.all(App), key=lambda app: _richness(world, app.id), reverse=True)
    if not apps:
        return found
    app = apps[0].id
    firsts = {
        "app_name": app,
        "volume_id": next((volume.id for volume in world.children(Volume, app)), None),
        "machine_id": next((machine.id for machine in world.children(Machine, app)), None),
        "secret_name": next((secret.name for secret in world.children(Secret, app)), None),
    }
    return found | {name: value for name, value in firsts.items() if value is not None}


def _richness(world: World, app: str) -> int:
    """How many groups of things the app has."""
    return sum(any(True for _ in world.children(cls, app)) for cls in (Volume, Machine, Secret))


def _parameters(paths: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for operations in paths.values():
        for operation in operations.values():
            yield from operation.get("parameters", ())
