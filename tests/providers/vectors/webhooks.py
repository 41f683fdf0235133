"""Webhooks from the provider, signed as requests are, and machine events to it."""

import json
from dataclasses import replace

from tests.providers.vectors.scene import Scene, case
from tests.providers.vectors.vector import Delivery, Vector, mac

RAW = "5.2 rule 3: signed the same way, with a different secret"
EVENT = "2.11, 6.2; notes, Extension providers: headers lie outside the signature"


@case("webhook: as documented")
def good(scene: Scene) -> Vector:
    return scene.one(scene.webhook(), "accepted", "signed, now, new", RAW)


@case("webhook: one byte tampered")
def tampered(scene: Scene) -> Vector:
    sent = scene.webhook()
    at = scene.random.randrange(len(sent.body))
    body = sent.body[:at] + bytes([sent.body[at] ^ 1]) + sent.body[at + 1 :]
    return scene.one(replace(sent, body=body), "refused", "a byte differs from what was signed", RAW)


@case("webhook: serialised again")
def serialised_again(scene: Scene) -> Vector:
    sent = scene.webhook()
    body = json.dumps(json.loads(sent.body), indent=1).encode()
    return scene.one(replace(sent, body=body), "refused", "the same JSON in other bytes", RAW)


@case("webhook: sent to another address")
def elsewhere(scene: Scene) -> Vector:
    sent = replace(scene.webhook(), url="https://platform.example/hooks/other")
    reason = "a webhook names no url: the address and its own secret tell providers apart"
    return scene.one(sent, "accepted", reason, "2.9: no url among the fields; 6.1 rule 1")


@case("webhook: the next one of the same resource")
def next_one(scene: Scene) -> Vector:
    resource = {"id": scene.word(), "status": "ready"}
    first = scene.webhook(resource=resource)
    second = scene.webhook(resource=resource | {"status": "sleeping"})
    return scene.several((first, second), ("accepted", "accepted"), "other bodies are other events", RAW)


@case("webhook: header missing")
def no_header(scene: Scene) -> Vector:
    return scene.one(replace(scene.webhook(), signatures=()), "refused", "every webhook is signed", RAW)


@case("webhook: header twice")
def two_headers(scene: Scene) -> Vector:
    sent = scene.webhook()
    reason = "which one counts is nobody's rule; the documents are silent"
    return scene.one(replace(sent, signatures=sent.signatures * 2), "refused", reason, RAW)


@case("webhook: empty")
def empty(scene: Scene) -> Vector:
    return scene.one(scene.webhook_of(b""), "refused", "signed, but no JSON object", "2.9")


@case("webhook: not an object")
def not_an_object(scene: Scene) -> Vector:
    text = scene.random.choice((b"[]", b"null", b'"resource.deleted"', b"1"))
    return scene.one(scene.webhook_of(text), "refused", "signed, but no JSON object", "2.9")


@case("webhook: exactly 1 MiB", costly=True)
def a_mebibyte(scene: Scene) -> Vector:
    sent = _of_size(scene, 1024 * 1024)
    return scene.one(sent, "accepted", "at most 1 MiB is taken", "the issue: caps (1 MiB)")


@case("webhook: 1 MiB + 1", costly=True)
def more_than_a_mebibyte(scene: Scene) -> Vector:
    sent = _of_size(scene, 1024 * 1024 + 1)
    return scene.one(sent, "refused", "one byte over the limit, although signed", "the issue: caps (1 MiB)")


def _of_size(scene: Scene, size: int) -> Delivery:
    body = json.dumps({"timestamp": str(scene.now), "action": "resource.updated", "fill": ""})
    return scene.webhook_of(body.replace('""', f'"{"f" * (size - len(body))}"').encode())


@case("webhook: the old secret while rotating")
def old_secret(scene: Scene) -> Vector:
    sent = scene.webhook_of(scene.webhook().body, scene.old_secret)
    secrets = (scene.webhook_secret, scene.old_secret)
    return scene.one(sent, "accepted", "both count while rotating", "the issue: two secrets", secrets=secrets)


@case("webhook: signed again under the other secret while rotating")
def under_both(scene: Scene) -> Vector:
    first = scene.webhook()
    second = scene.webhook_of(first.body, scene.old_secret)
    secrets = (scene.webhook_secret, scene.old_secret)
    reason = "the same body is one event, whichever secret signed it"
    source = "notes, Extension providers: deduplicate on the body hash"
    return scene.several((first, second), ("accepted", "duplicate"), reason, source, secrets=secrets)


@case("webhook: a forged one does not use the body up")
def forged_first(scene: Scene) -> Vector:
    sent = scene.webhook()
    forged = replace(sent, signatures=(mac(b"guess", sent.body, scene.encoding),))
    reason = "otherwise whoever sees a webhook could stop the real one"
    return scene.several((forged, sent), ("refused", "accepted"), reason, RAW)


def _event(scene: Scene) -> Delivery:
    body = {"machine_id": scene.word(), "status": "starting", "data": {"Transition": "stopped -> starting"}}
    sent = scene.with_body(scene.text(body), scene.url("/extensions/events"))
    return replace(sent, kind="event")


@case("event: as documented")
def good_event(scene: Scene) -> Vector:
    return scene.one(_event(scene), "accepted", "signed; its body carries neither time nor nonce", EVENT)


@case("event: tampered")
def tampered_event(scene: Scene) -> Vector:
    sent = _event(scene)
    body = sent.body.replace(b"starting", b"stopping", 1)
    return scene.one(replace(sent, body=body), "refused", "a byte differs from what was signed", EVENT)


@case("event: unsigned")
def unsigned_event(scene: Scene) -> Vector:
    sent = replace(_event(scene), signatures=())
    return scene.one(sent, "refused", "every request from the platform is signed", "5.2 rule 1")


@case("event: under the webhooks' secret")
def event_under_webhooks(scene: Scene) -> Vector:
    sent = _event(scene)
    text = mac(scene.webhook_secret, sent.body, scene.encoding)
    reason = "the platform signs with the provisioning secret"
    return scene.one(replace(sent, signatures=(text,)), "refused", reason, "5.2 rules 1 and 3")
