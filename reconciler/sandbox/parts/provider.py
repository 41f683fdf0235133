"""Extension providers, the users of the platform, and what providers said of their resources.

There is no API for them: they are made by control verbs. An organization's ID is its slug.
Source: platform API, 2.7 to 2.10 and 5.2.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox import fields
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.part import Part, Seed
from reconciler.sandbox.parts.app import PERSONAL, register_organization
from reconciler.sandbox.parts.secret import fingerprint
from reconciler.sandbox.world import Thing, World
from reconciler.services.transport import HttpTransport

ENCODINGS = ("hex", "base64")
ROLES = ("admin", "member")
_RESOURCE_ID = r"[^\x00-\x20\x7f\ud800-\udfff]{1,255}"
_MOST_SECRETS = 2  # the one in use, and while it is being replaced the one before


@dataclass
class Provider(Thing):
    """`id` is the name. The shared secrets have to be kept as they are, because the sandbox signs with them.

    `costs_path`, where the provider tells costs; `{id}` in it stands for a resource.
    """

    kind = "provider"
    client_id: str
    organization: str = PERSONAL
    base_url: str = ""
    signing_secret: str = field(default="", repr=False)
    webhook_secrets: list[str] = field(default_factory=list, repr=False)
    encoding: str = "hex"
    webhook_encoding: str = "hex"
    client_secret_fingerprint: str = field(default="", repr=False)
    redirect_uri: str = ""
    events: bool = False
    costs_path: str = ""


@dataclass
class User(Thing):
    """`organizations`: role by organization ID. `email` is the alias."""

    kind = "user"
    name: str
    email: str
    organizations: dict[str, str] = field(default_factory=dict)


@dataclass
class Resource(Thing):
    """`id` is `provider/id`. `reported_at`: the UNIX time that the provider's last report named."""

    kind = "resource"
    provider: str
    resource_id: str
    status: str = ""
    name: str = ""
    plan: str = ""
    organization_id: str = ""
    user_id: str = ""
    updated_at: float = 0.0
    reported_at: int = 0

    @property
    def parents(self) -> tuple[str, ...]:
        return (self.provider,)

    @property
    def present(self) -> bool:
        return self.status != DELETED


@dataclass
class BillingDay(Thing):
    """The present day of a provider, which has its `id`; `asked_at` by the real clock. See `delivery`."""

    kind = "billing_day"
    asked_at: float = 0.0


DELETED = "deleted"
REPORTED = ("status", "name", "plan", "organization_id", "user_id")


def register(world: World, body: Mapping[str, Any]) -> Provider:
    """Create the provider, or change what is given of an existing one. Raises Refusal 422."""
    name = fields.required_name(body, "name")
    provider = world.find(Provider, name) or Provider(name, client_id=name)
    encoding = fields.choice(body, "encoding", ENCODINGS)
    changes: dict[str, Any] = {
        "client_id": fields.text(body, "client_id"),
        "organization": fields.required_name(body, "organization") if "organization" in body else None,
        "base_url": _base_url(body),
        "signing_secret": fields.text(body, "signing_secret"),
        "webhook_secrets": _secrets(body),
        "encoding": encoding,
        "webhook_encoding": fields.choice(body, "webhook_encoding", ENCODINGS) or encoding,
        "client_secret_fingerprint": _fingerprint(world, fields.text(body, "client_secret")),
        "redirect_uri": _redirect_uri(body),
        "events": fields.flag(body, "events"),
        "costs_path": _path(body),
    }
    _refuse_others(body, {"name", "webhook_secret", "client_secret", *changes})
    wanted = changes["client_id"] or provider.client_id
    if any(each.client_id == wanted and each.id != name for each in world.all(Provider)):
        raise fields.refused("client_id", "belongs to another provider")
    for key, value in changes.items():
        if value is not None:
            setattr(provider, key, value)
    world.put(provider)
    register_organization(world, provider.organization)
    if world.find(BillingDay, name) is None:
        world.enter(BillingDay(name), "passing")
    return provider


def register_user(world: World, body: Mapping[str, Any]) -> User:
    """Create the user, or change what is given of an existing one. Raises Refusal 422."""
    id = fields.required_name(body, "id")
    _refuse_others(body, {"id", "name", "email", "organizations"})
    user = world.find(User, id) or User(id, name=id, email=f"{id}@users.sandbox.invalid")
    user.name = fields.text(body, "name") or user.name
    user.email = fields.text(body, "email") or user.email
    if "organizations" in body:
        user.organizations = _memberships(body["organizations"])
        for slug in user.organizations:
            register_organization(world, slug)
    world.put(user)
    return user


def register_resource(world: World, body: Mapping[str, Any]) -> Resource:
    """What a person says of a resource; the same fields as a webhook. Raises Refusal 422."""
    provider = world.find(Provider, fields.required_text(body, "provider"))
    if provider is None:
        raise fields.refused("provider", "is not registered")
    _refuse_others(body, {"provider", "id", "updated_at", *REPORTED})
    return report(world, provider, body)


def report(
    world: World, provider: Provider, said: Mapping[str, Any], reported_at: int | None = None
) -> Resource:
    """Take in what is known of a resource; what is not said stays. Raises Refusal 422 for wrong types.

    A report that is older than the last one changes nothing: it was sent again, or overtaken.
    """
    id = fields.required_text(said, "id")
    if not re.fullmatch(_RESOURCE_ID, id):
        raise fields.refused("id", "must be 1 to 255 characters without spaces")
    changes = {name: value for name in REPORTED if (value := fields.text(said, name)) is not None}
    resource = world.find(Resource, f"{provider.id}/{id}") or Resource(
        f"{provider.id}/{id}", provider=provider.id, resource_id=id
    )
    if reported_at is not None:
        if reported_at < resource.reported_at:
            return resource
        resource.reported_at = reported_at
    for name, value in changes.items():
        setattr(resource, name, value)
    resource.updated_at = world.now
    world.put(resource)
    return resource


def by_client_id(world: World, client_id: str) -> Provider | None:
    """The provider that may sign people in as this client; it has a redirect address."""
    return next(
        (each for each in world.all(Provider) if each.client_id == client_id and each.redirect_uri), None
    )


def wire(provider: Provider) -> dict[str, Any]:
    """Without its secrets."""
    return {
        "name": provider.id,
        **provider.shown("organization", "base_url", "encoding", "webhook_encoding"),
        **provider.shown("client_id", "redirect_uri", "events", "costs_path"),
    }


def user_wire(user: User) -> dict[str, Any]:
    organizations = [{"id": id, "role": role} for id, role in user.organizations.items()]
    return {"id": user.id, "name": user.name, "email": user.email, "organizations": organizations}


def resource_wire(resource: Resource) -> dict[str, Any]:
    return {
        "provider": resource.provider,
        "id": resource.resource_id,
        **resource.shown(*REPORTED),
        "updated_at": rfc3339(resource.updated_at),
    }


def _refuse_others(body: Mapping[str, Any], known: set[str]) -> None:
    for name in body:
        if name not in known:
            raise fields.refused(name, f"is none of {', '.join(sorted(known))}")


def _fingerprint(world: World, text: str | None) -> str | None:
    """Empty for an empty secret, which nothing is equal to."""
    return text if not text else fingerprint(text, world.fingerprint_key)


def _secrets(body: Mapping[str, Any]) -> list[str] | None:
    given = body.get("webhook_secret")
    secrets: Sequence[Any] | None = [given] if isinstance(given, str) else given
    if secrets is None:
        return None
    usable = isinstance(secrets, list) and 0 < len(secrets) <= _MOST_SECRETS
    if not usable or not all(isinstance(each, str) and each for each in secrets):
        raise fields.refused("webhook_secret", f"must be a string, or an array of at most {_MOST_SECRETS}")
    return list(secrets)


def _base_url(body: Mapping[str, Any]) -> str | None:
    url = fields.text(body, "base_url")
    if url:
        try:
            HttpTransport(url)
        except ReconcilerError as error:
            raise fields.refused("base_url", f"cannot be used: {error}") from None
    return url and url.rstrip("/")


def _redirect_uri(body: Mapping[str, Any]) -> str | None:
    """Absolute, and without a fragment. Source: RFC 6749, 3.1.2."""
    uri = fields.text(body, "redirect_uri")
    if not uri:
        return uri
    try:
        parts = urlsplit(uri)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "#" not in uri
    except ValueError:
        usable = False
    if not usable or not re.fullmatch(r"[!-~]+", uri):
        raise fields.refused("redirect_uri", "must be an address with http or https, without a fragment")
    return uri


def _path(body: Mapping[str, Any]) -> str | None:
    path = fields.text(body, "costs_path")
    if path and not re.fullmatch(r"/[!-~]*", path):
        raise fields.refused("costs_path", "must begin with a slash")
    return path


def _memberships(given: Any) -> dict[str, str]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise fields.refused("organizations", "must be an array of {id, role}")
    found = {}
    for each in given:
        _refuse_others(each, {"id", "role"})
        found[fields.required_name(each, "id")] = fields.choice(each, "role", ROLES) or ROLES[1]
    return found


_PROVIDERS = Seed(
    "providers",
    Provider,
    shown=lambda world, provider: wire(provider),
    columns=(
        ("name", "id"),
        "organization",
        ("base URL", "base_url"),
        ("redirect URI", "redirect_uri"),
        ("events", lambda world, provider: "yes" if provider.events else "no"),
    ),
    plant=register,
)


_RESOURCES = Seed(
    "resources",
    Resource,
    shown=lambda world, resource: resource_wire(resource),
    columns=("provider", ("id", "resource_id"), "status", "name", "plan"),
    plant=register_resource,
    after=("providers",),
)


_USERS = Seed(
    "users",
    User,
    shown=lambda world, user: user_wire(user),
    columns=(
        "id",
        "name",
        ("alias", "email"),
        (
            "organizations",
            lambda world, user: ", ".join(f"{role} of {id}" for id, role in user.organizations.items()),
        ),
    ),
    plant=register_user,
)


PART = Part(things=(Provider, User, Resource, BillingDay), seeds=(_PROVIDERS, _RESOURCES, _USERS))
