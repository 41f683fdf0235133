"""Secrets of apps. A value is used to compute its fingerprint and its digest, and then dropped.

Source: platform API, 2.5 and 4.3; platform notes, "Secrets".
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from reconciler.sandbox import fields
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
from reconciler.sandbox.fingerprint import fingerprint, holds
from reconciler.sandbox.part import Part
from reconciler.sandbox.parts.app import listed_app, required_app
from reconciler.sandbox.routing import Routes
from reconciler.sandbox.world import App, Thing, World
from reconciler.services.machines.wire import secret as wires

MASK = "(sensitive)"


@dataclass
class Secret(Thing):
    """`id` is `app/name`. `digest` is what the platform answers."""

    kind = "secret"
    app: str
    name: str
    fingerprint: str
    digest: str
    created_at: float
    updated_at: float

    @property
    def parents(self) -> tuple[str, ...]:
        return (self.app,)


_SECRETS = "/v1/apps/{app_name}/secrets"
_SECRET = _SECRETS + "/{secret_name}"
route = Routes("secret")


@route(
    "POST",
    _SECRET,
    "Create or update a secret",
    wires.SecretReply,
    statuses=(200, 201),
    body=wires.SecretSet,
    gives={"secret_name": "/name"},
    example={"value": "correct horse battery"},
)
def set_value(world: World, request: Request, app_name: str, secret_name: str) -> Response:
    app = required_app(world, app_name)
    value = fields.text(request.object(), "value")
    if value is None:
        raise fields.refused("value", "is required")
    secret = _keep(world, app, secret_name, value)
    version = _next_version(world, app)
    shown = {"value": value, "empty": "", "masked": "*" * 8}[world.switches["secret_value"]]
    answer = {"Version": version, "version": version, **_listed(secret), "value": shown}
    return reply(answer, world.switches["secret_status"])


@route(
    "POST",
    _SECRETS,
    "Set and unset several secrets",
    wires.SecretsReply,
    extended=True,
    body=wires.SecretsSet,
    gives={"secret_name": "/secrets/0/name"},
    example={"values": {"A": "correct horse battery", "B": None}},
)
def set_many(world: World, request: Request, app_name: str) -> Response:
    """Set and unset several: `values` are texts by name, null for a secret that is to go.

    All are checked first. Source: platform notes, "Secrets".
    """
    app = required_app(world, app_name)
    values = request.object().get("values")
    if not isinstance(values, dict):
        raise fields.refused("values", "must be an object")
    for name in values:
        fields.text(values, name)
    for name, value in values.items():
        kept = world.find(Secret, f"{app.id}/{name}")
        if value is not None:
            _keep(world, app, name, value)
        elif kept is not None:
            world.remove(kept)
    version = _next_version(world, app)
    listed = [_listed(secret) for secret in world.children(Secret, app_name)]
    return reply({"Version": version, "version": version, "secrets": listed})


@route("GET", _SECRET, "Get a secret, without its value", wires.Secret, extended=True)
def get(world: World, request: Request, app_name: str, secret_name: str) -> Response:
    app = required_app(world, app_name)
    secret = world.find(Secret, f"{app.id}/{secret_name}")
    if secret is None:
        raise Refusal(404, "secret not found", "not_found")
    return reply(_listed(secret))


@route(
    "GET", _SECRETS, "List secrets", wires.SecretList, extended=True, gives={"secret_name": "/secrets/0/name"}
)
def list_all(world: World, request: Request, app_name: str) -> Response:
    listed_app(world, app_name)
    return reply({"secrets": [_listed(secret) for secret in world.children(Secret, app_name)]})


@route("DELETE", _SECRET, "Delete a secret", wires.SecretReply, extended=True)
def delete(world: World, request: Request, app_name: str, secret_name: str) -> Response:
    app = required_app(world, app_name)
    secret = world.find(Secret, f"{app.id}/{secret_name}")
    if secret is None:
        raise Refusal(404, "secret not found", "not_found")
    world.remove(secret)
    version = _next_version(world, app)
    return reply({"Version": version, "version": version})


def wire(secret: Secret) -> dict[str, Any]:
    """The secret as the world shows it to tests."""
    return {"app": secret.app, **_listed(secret), "fingerprint": secret.fingerprint}


def _keep(world: World, app: App, name: str, value: str) -> Secret:
    secret = world.find(Secret, f"{app.id}/{name}")
    if secret is None:
        secret = Secret(f"{app.id}/{name}", app.id, name, "", "", world.now, world.now)
    if not holds(secret.fingerprint, value):
        secret.fingerprint = fingerprint(value, world.fingerprint_key)
    salt = "" if world.switches["secret_digest"] == "same" else world.new_id()  # noqa: S105 - a switch
    secret.digest, secret.updated_at = digest(secret.fingerprint, salt), world.now
    world.put(secret)
    return secret


def digest(fingerprint: str, salt: str = "") -> str:
    """What the platform answers of a value."""
    return hashlib.sha256(f"{salt}{fingerprint}".encode()).hexdigest()[:16]


def _next_version(world: World, app: App) -> int:
    app.secrets_version += 1
    world.put(app)
    return app.secrets_version


def _listed(secret: Secret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "digest": secret.digest,
        "created_at": rfc3339(secret.created_at),
        "updated_at": rfc3339(secret.updated_at),
    }


def is_path(path: str) -> bool:
    """Whether a body sent to `path` holds values of secrets."""
    return "/secrets" in path


def masked(body: Any) -> Any:
    """The body of a call that sets secrets, without their values."""
    if isinstance(body, dict):
        return {name: masked(each) for name, each in body.items()}
    if isinstance(body, list):
        return [masked(each) for each in body]
    return body if body is None else MASK


def _list_paths(world: World) -> Iterator[str]:
    for app in world.all(App):
        yield f"/v1/apps/{quote(app.id, safe='')}/secrets"


PART = Part(routes=route.found, things=(Secret,), list_paths=_list_paths)
