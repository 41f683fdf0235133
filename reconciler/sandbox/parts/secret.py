"""Secrets of apps. A value is used to compute its fingerprint and its digest, and then dropped.

The platform answers a digest, which may or may not stay the same for an equal value (switch secret_digest).
The fingerprint is the sandbox's own, so that tests can tell whether a value arrived.

A fingerprint is a keyed digest: without the key, nobody can look up a common value from it. Its text
`hmac-sha256:KEY:MAC` (hex) carries its key, because a world is the seed of the next one. The MAC is of the
value's SHA-256 in hex, so that bare digests of older sandboxes can be turned into it.

Source: platform API, 2.5 and 4.3; platform notes, "Secrets".
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import Request, Response, changed, reply
from reconciler.sandbox.part import Date, Item, Name, Part, Routes, Seed, moment_or_now
from reconciler.sandbox.parts.app import listed_in_app, register, required_app, required_in_app
from reconciler.sandbox.world import App, Thing, World
from reconciler.services.machines.wire import secret as wires

MASK = "(sensitive)"
FORM = r"^(hmac-sha256:[0-9a-f]{64}:[0-9a-f]{64})?$"  # empty: not known
_NAME = "hmac-sha256"


@dataclass
class Secret(Thing):
    """`id` is `app/name`. `digest` is what the platform answers."""

    kind = "secret"
    below = ("app",)
    app: str
    name: str
    fingerprint: str
    digest: str
    created_at: float
    updated_at: float


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
    """Set a secret; the version of the app grows (switches secret_value, secret_status, secret_digest)."""
    app = required_app(world, app_name)
    value = request.read(wires.SecretSet).value
    secret = _keep(world, app, secret_name, value)
    shown = {"value": value, "empty": "", "masked": "*" * 8}[world.switches["secret_value"]]
    answer = {**_next_version(world, app), **_listed(secret), "value": shown}
    return reply(answer, world.switches["secret_status"])


@route.extended(
    "POST",
    _SECRETS,
    "Set and unset several secrets",
    wires.SecretsReply,
    body=wires.SecretsSet,
    gives={"secret_name": "/secrets/0/name"},
    example={"values": {"A": "correct horse battery", "B": None}},
)
def set_many(world: World, request: Request, app_name: str) -> Response:
    """Set and unset several: `values` are texts by name, null for a secret that is to go.

    All are checked first. Source: platform notes, "Secrets".
    """
    app = required_app(world, app_name)
    for name, value in request.read(wires.SecretsSet).values.items():
        old = world.find(Secret, f"{app.id}/{name}")
        if value is not None:
            _keep(world, app, name, value)
        elif old is not None:
            world.remove(old)
    listed = [_listed(secret) for secret in world.children(Secret, app_name)]
    return reply({**_next_version(world, app), "secrets": listed})


@route.extended("GET", _SECRET, "Get a secret, without its value", wires.Secret)
def get(world: World, request: Request, app_name: str, secret_name: str) -> Response:
    """A secret without its value."""
    return reply(_listed(required_in_app(world, Secret, app_name, f"{app_name}/{secret_name}")))


@route.extended("GET", _SECRETS, "List secrets", wires.SecretList, gives={"secret_name": "/secrets/0/name"})
def list_all(world: World, request: Request, app_name: str) -> Response:
    """The secrets of the app, without their values."""
    return reply({"secrets": [_listed(secret) for secret in listed_in_app(world, Secret, app_name)]})


@route.extended("DELETE", _SECRET, "Delete a secret", wires.SecretReply)
def delete(world: World, request: Request, app_name: str, secret_name: str) -> Response:
    """Unset a secret; the version of the app grows."""
    app = required_app(world, app_name)
    world.remove(required_in_app(world, Secret, app_name, f"{app_name}/{secret_name}"))
    return reply(_next_version(world, app))


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
    """The digest that the platform shows of a value."""
    return hashlib.sha256(f"{salt}{fingerprint}".encode()).hexdigest()[:16]


def _next_version(world: World, app: App) -> dict[str, int]:
    app.secrets_version += 1
    world.put(app)
    return {"Version": app.secrets_version, "version": app.secrets_version}


def _listed(secret: Secret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "digest": secret.digest,
        "created_at": rfc3339(secret.created_at),
        "updated_at": rfc3339(secret.updated_at),
    }


def masked(path: str, body: Any) -> Any:
    """The body of a call to `path`, without the values of secrets."""
    if "/secrets" not in path:
        return body
    return changed(body, lambda _, value: value if value is None else MASK)


class SecretItem(Item):
    """A secret in a seed: with its value, or as the world shows it."""

    app: Name
    name: Annotated[str, Field(min_length=1)]
    value: str | None = Field(None, repr=False)
    fingerprint: Annotated[str, Field(pattern=FORM)] = ""
    digest: str | None = None
    created_at: Date | None = None
    updated_at: Date | None = None

    unique = ("app", "name")


def _plant(world: World, item: SecretItem) -> None:
    register(world, item.app)
    known = item.fingerprint if item.value is None else fingerprint(item.value, world.fingerprint_key)
    world.put(
        Secret(
            f"{item.app}/{item.name}",
            item.app,
            item.name,
            known,
            digest(known) if item.digest is None else item.digest,
            moment_or_now(world, item.created_at),
            moment_or_now(world, item.updated_at),
        )
    )


def fingerprint(value: str, key: bytes) -> str:
    """The keyed fingerprint of a value."""
    return keyed(sha256_of(value), key)


def keyed(sha256: str, key: bytes) -> str:
    """The fingerprint of the value with this bare SHA-256 (hex)."""
    return f"{_NAME}:{key.hex()}:{hmac.digest(key, sha256.encode(), 'sha256').hex()}"


def holds(known: str, value: str) -> bool:
    """Whether the fingerprint `known` is of `value`; "" is of none."""
    _, _, key = known.rpartition(":")[0].partition(":")
    return hmac.compare_digest(known, keyed(sha256_of(value), bytes.fromhex(key)))


def sha256_of(value: str) -> str:
    """The SHA-256 of a text in hex, also of one that is not valid Unicode."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


_SEED = Seed(
    "secrets",
    Secret,
    shown=lambda world, secret: wire(secret),
    columns=("app", "name", "digest", ("updated at", lambda world, secret: rfc3339(secret.updated_at))),
    plant=_plant,
    form=SecretItem,
    after=("apps",),
)

PART = Part(routes=route.found, things=(Secret,), seeds=(_SEED,))
