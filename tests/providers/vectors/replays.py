"""Replays: one request more than once, and one signature for another method."""

from dataclasses import replace

from tests.providers.vectors.scene import CASES, Scene, case
from tests.providers.vectors.vector import Delivery, How, Vector

ONCE = (
    "2.7: `nonce` is unique per request; the issue: unused, and the store survives a restart and two workers"
)
FORM = "2.7: `nonce` is a random unique string"
METHOD = "5.2 rule 1: the method is no part of what is signed"

WAYS: tuple[How, ...] = ("in one process", "with a restart between", "by two workers at once")

for _way in WAYS:
    for _method in ("POST", "PATCH", "GET", "DELETE"):

        def again(scene: Scene, way: How = _way, method: str = _method) -> Vector:
            sent = scene.post(method) if method in ("POST", "PATCH") else scene.get(method)
            return scene.several((sent, sent), ("accepted", "refused"), "the nonce was used", ONCE, how=way)

        CASES[f"replay: {_method} {_way}"] = again

    def late(scene: Scene, way: How = _way) -> Vector:
        sent = replace(scene, now=scene.now + 300).any()
        first, second = replace(sent, at=float(scene.now)), replace(sent, at=float(scene.now + 600))
        reason = "a timestamp 300 s ahead stays good for 600 s: so long a nonce is remembered"
        return scene.several(
            (first, second), ("accepted", "refused"), reason, f"{ONCE}; twice the tolerance", how=way
        )

    if _way != "by two workers at once":  # which of the two comes first is not known there
        CASES[f"replay: after 600 s {_way}"] = late

    def webhook_again(scene: Scene, way: How = _way) -> Vector:
        sent = scene.webhook()
        reason = "a webhook carries no nonce: the same body is one event"
        source = "notes, Extension providers: deduplicate on the body hash"
        return scene.several((sent, sent), ("accepted", "duplicate"), reason, source, how=way)

    CASES[f"replay: webhook {_way}"] = webhook_again


@case("replay: three times")
def thrice(scene: Scene) -> Vector:
    sent = scene.any()
    return scene.several((sent,) * 3, ("accepted", "refused", "refused"), "the nonce was used", ONCE)


@case("replay: signed again with the same nonce")
def same_nonce(scene: Scene) -> Vector:
    nonce = scene.nonce()
    first, second = _with_nonce(scene, nonce), _with_nonce(scene, nonce)
    return scene.several(
        (first, second), ("accepted", "refused"), "the nonce was used by another request", ONCE
    )


def _with_nonce(scene: Scene, nonce: str) -> Delivery:
    method = scene.random.choice(("POST", "PATCH", "GET", "DELETE"))
    if method in ("POST", "PATCH"):
        return scene.post(method, nonce=nonce)
    return scene.get(method, nonce=nonce)


@case("replay: the same body signed with a fresh nonce")
def fresh_nonce(scene: Scene) -> Vector:
    fields = scene.fields(scene.url())
    first = scene.with_body(scene.text(fields), scene.url())
    second = scene.with_body(scene.text(fields | {"nonce": scene.nonce()}), scene.url())
    reason = "the same id again is how a lost reply is healed, and no replay"
    return scene.several((first, second), ("accepted", "accepted"), reason, ONCE)


@case("replay: nonces that differ in case or form")
def alike(scene: Scene) -> Vector:
    pair = scene.random.choice((("abcDEF", "ABCdef"), ("Zo\u00eb", "Zoe\u0308"), ("n1", "n1 "), ("1", "01")))
    first, second = (scene.post(nonce=nonce) for nonce in pair)
    return scene.several((first, second), ("accepted", "accepted"), "other strings are other nonces", FORM)


@case("replay: a refused request does not use the nonce up")
def not_used_up(scene: Scene) -> Vector:
    sent = scene.post()
    forged = replace(sent, body=sent.body + b" ")
    late = replace(sent, at=sent.at + 400)
    moved = replace(sent, url=sent.url + "x")
    first = scene.random.choice((forged, late, moved))
    reason = "otherwise whoever sees a request, or fakes one, could stop the real one"
    return scene.several((first, sent), ("refused", "accepted"), reason, ONCE)


@case("replay: the same nonce again after a refusal")
def after_refusal(scene: Scene) -> Vector:
    sent = scene.any()
    moved = replace(sent, url=sent.url.replace("extensions", "elsewhere", 1))
    return scene.several(
        (moved, sent, sent), ("refused", "accepted", "refused"), "used by the second, not the first", ONCE
    )


@case("nonce: longest that is taken")
def longest(scene: Scene) -> Vector:
    reason = "255 characters are taken; the documents name no limit"
    return scene.one(_with_nonce(scene, scene.word(255)), "accepted", reason, FORM)


@case("nonce: longer than is taken")
def too_long(scene: Scene) -> Vector:
    reason = "a limit of 255 keeps the store small; the documents name none"
    return scene.one(
        _with_nonce(scene, scene.word(scene.random.choice((256, 5000)))), "refused", reason, FORM
    )


@case("nonce: empty")
def empty(scene: Scene) -> Vector:
    return scene.one(_with_nonce(scene, ""), "refused", "empty is not random", FORM)


@case("nonce: one character")
def short(scene: Scene) -> Vector:
    reason = "the documents name no least length; it counts once, like any other"
    return scene.one(_with_nonce(scene, scene.word(1)), "accepted", reason, FORM)


for _name, _value in {"number": 5, "null": None, "true": True, "list": ["n"], "object": {"n": 1}}.items():

    def typed(scene: Scene, value: object = _value) -> Vector:
        fields = scene.fields(scene.url()) | {"nonce": value}
        return scene.one(scene.with_body(scene.text(fields), scene.url()), "refused", "not a string", FORM)

    CASES[f"nonce: {_name}"] = typed


@case("method: POST's body as PATCH of a resource")
def post_as_patch(scene: Scene) -> Vector:
    sent = scene.post()
    moved = replace(sent, method="PATCH", url=scene.resource())
    return scene.one(moved, "refused", "`url` names the address of the POST", f"{METHOD}; rule 2")


@case("method: PATCH's body as POST")
def patch_as_post(scene: Scene) -> Vector:
    moved = replace(scene.post("PATCH"), method="POST", url=scene.url())
    return scene.one(moved, "refused", "`url` names the resource", f"{METHOD}; rule 2")


@case("method: POST's body as PATCH of the same address, after it")
def post_then_patch(scene: Scene) -> Vector:
    sent = scene.post()
    second = replace(sent, method="PATCH")
    return scene.several(
        (sent, second), ("accepted", "refused"), "the nonce was used by the POST", f"{METHOD}; {ONCE}"
    )


@case("method: GET's query as DELETE, after it")
def get_then_delete(scene: Scene) -> Vector:
    sent = scene.get()
    second = replace(sent, method="DELETE")
    reason = "url and signature fit a DELETE as well: only the used nonce stops it"
    return scene.several((sent, second), ("accepted", "refused"), reason, f"{METHOD}; {ONCE}")


@case("method: GET's query as DELETE of another resource")
def get_as_delete_elsewhere(scene: Scene) -> Vector:
    query = scene.get().url.partition("?")[2]
    sent = replace(scene.get("DELETE"), url=f"{scene.resource()}?{query}")
    sent = replace(sent, signatures=scene.with_query(query, scene.base).signatures)
    return scene.one(sent, "refused", "`url` names the other resource", f"{METHOD}; rule 2")


@case("method: GET's query as DELETE, instead of it")
def get_as_delete(scene: Scene) -> Vector:
    sent = replace(scene.get(), method="DELETE")
    reason = (
        "a gap of the documented scheme: nothing signed tells a GET held back from a DELETE; "
        "refusing it would refuse every DELETE, so TLS has to keep requests from being held back"
    )
    return scene.one(sent, "accepted", reason, METHOD)


@case("method: GET's query as POST")
def get_as_post(scene: Scene) -> Vector:
    sent = scene.get()
    moved = replace(sent, method="POST", body=sent.url.partition("?")[2].encode())
    return scene.one(
        moved, "refused", "the signature fits the query as a body, which is no JSON", f"{METHOD}; 4"
    )


@case("method: POST's body as GET's query")
def post_as_get(scene: Scene) -> Vector:
    sent = scene.post()
    moved = replace(sent, method="GET", url=f"{sent.url}?{sent.body.decode()}", body=b"")
    return scene.one(moved, "refused", "the signature fits the body as a query, which names no url", METHOD)


@case("method: DELETE without a signature after a signed GET")
def unsigned_delete(scene: Scene) -> Vector:
    sent = scene.get()
    second = replace(sent, method="DELETE", url=sent.url.partition("?")[0], signatures=())
    return scene.several((sent, second), ("accepted", "refused"), "DELETE is signed too", "5.2 rule 1; notes")
