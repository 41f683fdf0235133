"""Webhooks of extension providers: verified, taken in once, and shown in the world.

Signatures are made under real clocks, so the tolerance is counted by the real one and not by the world's.
Source: platform API, 2.9, 5.2 and 6.1; platform notes, "Extension providers".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from typing import Any

from reconciler.core.wire import Wire
from reconciler.sandbox.exchange import Refusal, Request, Response, read, refused, reply
from reconciler.sandbox.part import Part, Routes
from reconciler.sandbox.parts.provider import DELETED, Provider, Reported, report
from reconciler.sandbox.world import Thing, World
from reconciler.services import signing
from reconciler.services.machines.wire.extension import ACTIONS, ExtensionWebhook

PREFIX = "/webhooks/"


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
    PREFIX + "{provider}",
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


PART = Part(routes=route.found, things=(Taken,))
