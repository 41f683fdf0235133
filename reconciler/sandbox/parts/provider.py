"""Extension providers, the users of the platform, and the resources that providers reported.

There is no API for them: they are made by control verbs. An organization's ID is its slug.

Webhooks of providers are verified, taken in once, and shown in the world. Signatures are made under real
clocks, so the tolerance is counted by the real one and not by the world's.
Source: platform API, 2.7 to 2.10, 5.2 and 6.1; platform notes, "Extension providers".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from reconciler.core.errors import ReconcilerError
from reconciler.core.wire import Wire
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import COSTS_PATH, Refusal, Request, Response, read, refused, reply
from reconciler.sandbox.part import DateOrUnknown, Item, Name, Part, Routes, Seed, Text, moment_or_now
from reconciler.sandbox.parts.app import PERSONAL, register_organization
from reconciler.sandbox.parts.secret import fingerprint
from reconciler.sandbox.world import Thing, World
from reconciler.services import signing
from reconciler.services.machines.wire.extension import ACTIONS, ExtensionWebhook
from reconciler.services.signing import Encoding
from reconciler.services.transport import HttpTransport, http_parts

_MOST_SECRETS = 2


@dataclass
class Provider(Thing):
    """`id` is the name. The shared secrets are stored as they are, because the sandbox signs with them.

    `costs_path`, where the provider tells costs; `{id}` in it stands for a resource.
    """

    kind = "provider"
    client_id: str
    organization: str = PERSONAL
    base_url: str = ""
    signing_secret: str = field(default="", repr=False)
    webhook_secrets: list[str] = field(default_factory=list, repr=False)
    encoding: Encoding = "hex"
    webhook_encoding: Encoding = "hex"
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
    below = ("provider",)
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
    def present(self) -> bool:
        """Whether the provider still has it, as far as it said."""
        return self.status != DELETED


@dataclass
class BillingDay(Thing):
    """The present day of a provider, which has its `id`; `asked_at` by the real clock. See `delivery`."""

    kind = "billing_day"
    asked_at: float = 0.0


DELETED = "deleted"
REPORTED = ("status", "name", "plan", "organization_id", "user_id")


def _base_url(url: str) -> str:
    """Without its last slash. Raises ValueError for an address that the sandbox would not call."""
    try:
        if url:
            HttpTransport(url)
    except ReconcilerError as error:
        raise ValueError(f"cannot be used: {error}") from None
    return url.rstrip("/")


def _redirect_uri(uri: str) -> str:
    """Absolute, and without a fragment. Source: RFC 6749, 3.1.2."""
    usable = http_parts(uri) is not None and "#" not in uri
    if uri and not (usable and re.fullmatch(r"[!-~]+", uri)):
        raise ValueError("must be an address with http or https, without a fragment")
    return uri


def _secrets(given: Any) -> list[str]:
    """One secret, or the one in use and the one before while it is being replaced."""
    secrets = [given] if isinstance(given, str) else given
    usable = isinstance(secrets, list) and 0 < len(secrets) <= _MOST_SECRETS
    if not usable or not all(isinstance(secret, str) and secret for secret in secrets):
        raise ValueError(f"must be a string, or an array of at most {_MOST_SECRETS}")
    return list(secrets)


def _resource_id(id: str) -> str:
    if not re.fullmatch(r"[^\x00-\x20\x7f\ud800-\udfff]{1,255}", id):
        raise ValueError("must be 1 to 255 characters without spaces")
    return id


class ProviderItem(Item):
    """A provider to register, or what changes of one. `webhook_encoding` is `encoding` unless it is given."""

    name: Name
    client_id: str | None = None
    organization: Name | None = None
    base_url: Annotated[str, AfterValidator(_base_url)] | None = None
    signing_secret: str | None = Field(None, repr=False)
    webhook_secret: Annotated[list[str], BeforeValidator(_secrets)] | None = Field(None, repr=False)
    encoding: Encoding | None = None
    webhook_encoding: Encoding | None = None
    client_secret: str | None = Field(None, repr=False)
    redirect_uri: Annotated[str, AfterValidator(_redirect_uri)] | None = None
    events: bool | None = None
    costs_path: Annotated[str, Field(pattern=COSTS_PATH)] | None = None

    unique = ("name",)


class MembershipItem(Item):
    """The role of a user in an organization, by its ID."""

    id: Name
    role: Literal["admin", "member"] = "member"


class UserItem(Item):
    """A user to register, or what changes of one."""

    id: Name
    name: str | None = None
    email: str | None = None
    organizations: list[MembershipItem] | None = None


class Reported(Item):
    """A report about a resource, of its provider or a person; a missing field stays as it is."""

    id: Annotated[Text, AfterValidator(_resource_id)]
    status: str | None = None
    name: str | None = None
    plan: str | None = None
    organization_id: str | None = None
    user_id: str | None = None


class ResourceItem(Reported):
    """A resource as a person reports it, or as the world shows it."""

    provider: Text
    updated_at: DateOrUnknown | None = None

    unique = ("provider", "id")


def register(world: World, item: ProviderItem) -> Provider:
    """Create the provider, or change what is given of an existing one. Raises Refusal 422."""
    provider = world.find(Provider, item.name) or Provider(item.name, client_id=item.name)
    secret = item.client_secret
    changes = {
        **item.model_dump(exclude={"name", "webhook_secret", "client_secret"}),
        "webhook_secrets": item.webhook_secret,
        "webhook_encoding": item.webhook_encoding or item.encoding,
        # Empty for an empty secret, which nothing is equal to.
        "client_secret_fingerprint": fingerprint(secret, world.fingerprint_key) if secret else secret,
    }
    wanted = item.client_id or provider.client_id
    if any(other.client_id == wanted and other.id != item.name for other in world.all(Provider)):
        raise refused("client_id", "belongs to another provider")
    for name, value in changes.items():
        if value is not None:
            setattr(provider, name, value)
    world.put(provider)
    register_organization(world, provider.organization)
    if world.find(BillingDay, item.name) is None:
        world.enter(BillingDay(item.name), "passing")
    return provider


def register_user(world: World, item: UserItem) -> User:
    """Create the user, or change what is given of an existing one."""
    email = f"{item.id}@users.sandbox.invalid"
    user = world.find(User, item.id) or User(item.id, name=item.id, email=email)
    user.name, user.email = item.name or user.name, item.email or user.email
    if item.organizations is not None:
        user.organizations = {membership.id: membership.role for membership in item.organizations}
        for slug in user.organizations:
            register_organization(world, slug)
    world.put(user)
    return user


def register_resource(world: World, item: ResourceItem) -> Resource:
    """Take in a report of a person. Raises Refusal 422 for a provider that is not registered."""
    provider = world.find(Provider, item.provider)
    if provider is None:
        raise refused("provider", "is not registered")
    resource = report(world, provider, item)
    resource.updated_at = moment_or_now(world, item.updated_at)
    return resource


def report(world: World, provider: Provider, said: Reported, reported_at: int | None = None) -> Resource:
    """Take in a report; fields that it does not name stay.

    A report that is older than the last one changes nothing: it was sent again, or overtaken.
    """
    id = f"{provider.id}/{said.id}"
    resource = world.find(Resource, id) or Resource(id, provider=provider.id, resource_id=said.id)
    if reported_at is not None:
        if reported_at < resource.reported_at:
            return resource
        resource.reported_at = reported_at
    for name, value in said.model_dump(include={*REPORTED}, exclude_none=True).items():
        setattr(resource, name, value)
    resource.updated_at = world.now
    world.put(resource)
    return resource


def by_client_id(world: World, client_id: str) -> Provider | None:
    """The provider that may sign people in as this client; it has a redirect address."""
    known = (provider for provider in world.all(Provider) if provider.redirect_uri)
    return next((provider for provider in known if provider.client_id == client_id), None)


def wire(provider: Provider) -> dict[str, Any]:
    """Without its secrets."""
    return {
        "name": provider.id,
        **provider.shown("organization", "base_url", "encoding", "webhook_encoding"),
        **provider.shown("client_id", "redirect_uri", "events", "costs_path"),
    }


def user_wire(user: User) -> dict[str, Any]:
    """The user as the world shows it."""
    organizations = [{"id": id, "role": role} for id, role in user.organizations.items()]
    return {**user.shown("id", "name", "email"), "organizations": organizations}


def resource_wire(resource: Resource) -> dict[str, Any]:
    """The resource as the world shows it."""
    return {
        "provider": resource.provider,
        "id": resource.resource_id,
        **resource.shown(*REPORTED),
        "updated_at": rfc3339(resource.updated_at),
    }


WEBHOOKS = "/webhooks/"


@dataclass
class Taken(Thing):
    """A webhook that came: `id` is the provider and the SHA-256 of the body; `at` by the real clock."""

    kind = "webhook"
    at: float


class WebhookTaken(Wire):
    """The answer to a webhook that was taken, or that came before."""

    ok: bool


route = Routes("webhook")


@route(
    "POST",
    WEBHOOKS + "{provider}",
    "Report a resource of an extension provider",
    WebhookTaken,
    errors=(401, 408, 413, 422),
    body=ExtensionWebhook,
    guard="",
)
def receive(world: World, request: Request, provider: str) -> Response:
    """200 also for a body that came before, which changes nothing. A refused one may be sent again."""
    sender = world.find(Provider, provider)
    key = f"{provider}/{sha256(request.body).hexdigest()}"
    try:
        said = signing.verify_webhook(
            _signatures(request),
            request.body,
            [text.encode("utf-8", "surrogatepass") for text in (sender.webhook_secrets if sender else ())],
            now=world.wall(),
            claim=lambda _: world.find(Taken, key) is None,
            encoding=sender.webhook_encoding if sender else "hex",
        )
    except signing.NotAuthentic:  # the same for every reason, and for a provider that is not known
        raise Refusal(401, "unauthorized", "unauthorized") from None
    if sender and said is not None:
        _forget_old(world)
        _take(world, sender, said)
        world.put(Taken(key, at=world.wall()))
    return reply({"ok": True})


def _take(world: World, sender: Provider, said: Mapping[str, Any]) -> None:
    """Take in the report of a verified webhook. Raises Refusal 422 for an invalid one."""
    action, resource = said.get("action"), said.get("resource")
    if action not in ACTIONS:
        raise refused("action", f"must be one of {', '.join(ACTIONS)}")
    if not isinstance(resource, dict):
        raise refused("resource", "must be an object")
    given = {name: value for name, value in resource.items() if value is not None}
    if action == "resource.deleted":
        given["status"] = DELETED
    report(world, sender, read(given, Reported, extra="ignore"), int(said["timestamp"]))


def _signatures(request: Request) -> list[str]:
    """All values of the header, which the fronts join with commas as HTTP allows."""
    value = request.headers.get(signing.HEADER.lower())
    return [] if value is None else [signature.strip() for signature in value.split(",")]


def _forget_old(world: World) -> None:
    """Forget webhooks that are so old that their timestamp would now be refused."""
    since = world.wall() - signing.KEEP_S
    for webhook in list(takewhile(lambda webhook: webhook.at <= since, world.all(Taken))):
        world.remove(webhook)


PART = Part(
    routes=route.found,
    things=(Provider, User, Resource, BillingDay, Taken),
    seeds=(
        Seed(
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
            form=ProviderItem,
        ),
        Seed(
            "resources",
            Resource,
            shown=lambda world, resource: resource_wire(resource),
            columns=("provider", ("id", "resource_id"), "status", "name", "plan"),
            plant=register_resource,
            form=ResourceItem,
            after=("providers",),
        ),
        Seed(
            "users",
            User,
            shown=lambda world, user: user_wire(user),
            columns=(
                "id",
                "name",
                ("alias", "email"),
                (
                    "organizations",
                    lambda world, user: ", ".join(
                        f"{role} of {id}" for id, role in user.organizations.items()
                    ),
                ),
            ),
            plant=register_user,
            form=UserItem,
        ),
    ),
)
