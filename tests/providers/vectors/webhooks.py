"""Webhooks from the provider, signed as requests are, and machine events to it."""

import json
from dataclasses import replace

from tests.providers.vectors.scene import Scene, accepted, case, refused
from tests.providers.vectors.vector import Delivery, mac

RAW = "5.2 rule 3: signed the same way, with a different secret"
EVENT = "2.11, 6.2; notes, Extension providers: headers lie outside the signature"
CAPS = "the issue: caps (1 MiB)"
ONE_EVENT = "notes, Extension providers: deduplicate on the body hash"


def _flipped(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def _of_size(scene: Scene, size: int) -> Delivery:
    body = json.dumps({"timestamp": str(scene.now), "action": "resource.updated", "fill": ""})
    return scene.webhook_of(body.replace('""', f'"{"f" * (size - len(body))}"').encode())


accepted("webhook: as documented", "signed, now, new", RAW)(lambda scene: scene.webhook())
refused("webhook: header missing", "every webhook is signed", RAW)(
    lambda scene: replace(scene.webhook(), signatures=())
)
refused("webhook: empty", "signed, but no JSON object", "2.9")(lambda scene: scene.webhook_of(b""))
refused("webhook: not an object", "signed, but no JSON object", "2.9")(
    lambda scene: scene.webhook_of(scene.random.choice((b"[]", b"null", b'"resource.deleted"', b"1")))
)
accepted("webhook: exactly 1 MiB", "at most 1 MiB is taken", CAPS, costly=True)(
    lambda scene: _of_size(scene, 1024 * 1024)
)
refused("webhook: 1 MiB + 1", "one byte over the limit, although signed", CAPS, costly=True)(
    lambda scene: _of_size(scene, 1024 * 1024 + 1)
)


@refused("webhook: one byte tampered", "a byte differs from what was signed", RAW)
def tampered(scene: Scene) -> Delivery:
    sent = scene.webhook()
    return replace(sent, body=_flipped(sent.body, scene.random.randrange(len(sent.body))))


@refused("webhook: serialised again", "the same JSON in other bytes", RAW)
def serialised_again(scene: Scene) -> Delivery:
    sent = scene.webhook()
    return replace(sent, body=json.dumps(json.loads(sent.body), indent=1).encode())


@accepted(
    "webhook: sent to another address",
    "a webhook names no url: the address and its own secret tell providers apart",
    "2.9: no url among the fields; 6.1 rule 1",
)
def other_address(scene: Scene) -> Delivery:
    return replace(scene.webhook(), url="https://platform.example/hooks/other")


@case(
    "webhook: the next one of the same resource",
    ("accepted", "accepted"),
    "other bodies are other events",
    RAW,
)
def next_one(scene: Scene) -> tuple[Delivery, ...]:
    resource = {"id": scene.word(), "status": "ready"}
    return scene.webhook(resource=resource), scene.webhook(resource=resource | {"status": "sleeping"})


@refused("webhook: header twice", "which one counts is nobody's rule; the documents are silent", RAW)
def two_headers(scene: Scene) -> Delivery:
    sent = scene.webhook()
    return replace(sent, signatures=sent.signatures * 2)


def _rotating(scene: Scene) -> tuple[bytes, ...]:
    return scene.webhook_secret, scene.old_secret


@accepted(
    "webhook: the old secret while rotating",
    "both count while rotating",
    "the issue: two secrets",
    secrets=_rotating,
)
def old_secret(scene: Scene) -> Delivery:
    return scene.webhook_of(scene.webhook().body, scene.old_secret)


@case(
    "webhook: signed again under the other secret while rotating",
    ("accepted", "duplicate"),
    "the same body is one event, whichever secret signed it",
    ONE_EVENT,
    secrets=_rotating,
)
def under_both(scene: Scene) -> tuple[Delivery, ...]:
    first = scene.webhook()
    return first, scene.webhook_of(first.body, scene.old_secret)


@case(
    "webhook: a forged one does not use the body up",
    ("refused", "accepted"),
    "otherwise whoever sees a webhook could stop the real one",
    RAW,
)
def forged_first(scene: Scene) -> tuple[Delivery, ...]:
    sent = scene.webhook()
    return replace(sent, signatures=(mac(b"guess", sent.body, scene.encoding),)), sent


def _event(scene: Scene) -> Delivery:
    body = {"machine_id": scene.word(), "status": "starting", "data": {"Transition": "stopped -> starting"}}
    sent = scene.with_body(scene.text(body), scene.url("/extensions/events"))
    return replace(sent, kind="event")


accepted("event: as documented", "signed; its body carries neither time nor nonce", EVENT)(_event)
refused("event: unsigned", "every request from the platform is signed", "5.2 rule 1")(
    lambda scene: replace(_event(scene), signatures=())
)


@refused("event: tampered", "a byte differs from what was signed", EVENT)
def tampered_event(scene: Scene) -> Delivery:
    sent = _event(scene)
    return replace(sent, body=sent.body.replace(b"starting", b"stopping", 1))


@refused(
    "event: under the webhooks' secret",
    "the platform signs with the provisioning secret",
    "5.2 rules 1 and 3",
)
def event_under_webhooks(scene: Scene) -> Delivery:
    sent = _event(scene)
    return replace(sent, signatures=(mac(scene.webhook_secret, sent.body, scene.encoding),))
