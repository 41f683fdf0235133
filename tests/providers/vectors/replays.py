"""Replays: one request more than once, and one signature for another method."""

from dataclasses import replace

from tests.providers.vectors.scene import Scene, accepted, case, refused
from tests.providers.vectors.vector import Delivery, How, Verdict

ONCE = (
    "2.7: `nonce` is unique per request; the issue: unused, and the store survives a restart and two workers"
)
FORM = "2.7: `nonce` is a random unique string"
METHOD = "5.2 rule 1: the method is no part of what is signed"
RULE_2 = f"{METHOD}; rule 2"
THEN: tuple[Verdict, ...] = ("accepted", "refused")
METHODS = ("POST", "PATCH", "GET", "DELETE")
WAYS: tuple[How, ...] = ("in one process", "with a restart between", "by two workers at once")


def _good(scene: Scene, method: str, **changes: object) -> Delivery:
    if method in ("POST", "PATCH"):
        return scene.post(method, "", **changes)
    return scene.get(method, "", **changes)


for _way in WAYS:
    for _method in METHODS:

        @case(f"replay: {_method} {_way}", THEN, "the nonce was used", ONCE, how=_way)
        def again(scene: Scene, method: str = _method) -> tuple[Delivery, ...]:
            return (_good(scene, method),) * 2

    if _way != "by two workers at once":  # which of the two comes first is not known there

        @case(
            f"replay: after 600 s {_way}",
            THEN,
            "a timestamp 300 s ahead stays good for 600 s: so long a nonce is remembered",
            f"{ONCE}; twice the tolerance",
            how=_way,
        )
        def late(scene: Scene) -> tuple[Delivery, ...]:
            sent = replace(scene, now=scene.now + 300).any()
            return replace(sent, at=float(scene.now)), replace(sent, at=float(scene.now + 600))

    case(
        f"replay: webhook {_way}",
        ("accepted", "duplicate"),
        "a webhook carries no nonce: the same body is one event",
        "notes, Extension providers: deduplicate on the body hash",
        how=_way,
    )(lambda scene: (scene.webhook(),) * 2)

case("replay: three times", ("accepted", "refused", "refused"), "the nonce was used", ONCE)(
    lambda scene: (scene.any(),) * 3
)


def _with_nonce(scene: Scene, nonce: str) -> Delivery:
    return _good(scene, scene.random.choice(METHODS), nonce=nonce)


@case("replay: signed again with the same nonce", THEN, "the nonce was used by another request", ONCE)
def same_nonce(scene: Scene) -> tuple[Delivery, ...]:
    nonce = scene.nonce()
    return _with_nonce(scene, nonce), _with_nonce(scene, nonce)


@case(
    "replay: the same body signed with a fresh nonce",
    ("accepted", "accepted"),
    "the same id again is how a lost reply is healed, and no replay",
    ONCE,
)
def fresh_nonce(scene: Scene) -> tuple[Delivery, ...]:
    fields = scene.fields(scene.url())
    first = scene.with_body(scene.text(fields), scene.url())
    return first, scene.with_body(scene.text(fields | {"nonce": scene.nonce()}), scene.url())


@case(
    "replay: nonces that differ in case or form",
    ("accepted", "accepted"),
    "other strings are other nonces",
    FORM,
)
def alike(scene: Scene) -> tuple[Delivery, ...]:
    pair = scene.random.choice((("abcDEF", "ABCdef"), ("Zo\u00eb", "Zoe\u0308"), ("n1", "n1 "), ("1", "01")))
    return tuple(scene.post(nonce=nonce) for nonce in pair)


@case(
    "replay: a refused request does not use the nonce up",
    ("refused", "accepted"),
    "otherwise whoever sees a request, or fakes one, could stop the real one",
    ONCE,
)
def not_used_up(scene: Scene) -> tuple[Delivery, ...]:
    sent = scene.post()
    forged, late = replace(sent, body=sent.body + b" "), replace(sent, at=sent.at + 400)
    return scene.random.choice((forged, late, replace(sent, url=sent.url + "x"))), sent


@case(
    "replay: the same nonce again after a refusal",
    ("refused", "accepted", "refused"),
    "used by the second, not the first",
    ONCE,
)
def after_refusal(scene: Scene) -> tuple[Delivery, ...]:
    sent = scene.any()
    return replace(sent, url=sent.url.replace("extensions", "elsewhere", 1)), sent, sent


accepted("nonce: longest that is taken", "255 characters are taken; the documents name no limit", FORM)(
    lambda scene: _with_nonce(scene, scene.word(255))
)
refused("nonce: longer than is taken", "a limit of 255 keeps the store small; the documents name none", FORM)(
    lambda scene: _with_nonce(scene, scene.word(scene.random.choice((256, 5000))))
)
refused("nonce: empty", "empty is not random", FORM)(lambda scene: _with_nonce(scene, ""))
accepted(
    "nonce: one character",
    "the documents name no least length; it counts once, like any other",
    FORM,
)(lambda scene: _with_nonce(scene, scene.word(1)))

for _name, _value in {"number": 5, "null": None, "true": True, "list": ["n"], "object": {"n": 1}}.items():

    @refused(f"nonce: {_name}", "not a string", FORM)
    def typed(scene: Scene, value: object = _value) -> Delivery:
        fields = scene.fields(scene.url()) | {"nonce": value}
        return scene.with_body(scene.text(fields), scene.url())


refused("method: POST's body as PATCH of a resource", "`url` names the address of the POST", RULE_2)(
    lambda scene: replace(scene.post(), method="PATCH", url=scene.resource())
)
refused("method: PATCH's body as POST", "`url` names the resource", RULE_2)(
    lambda scene: replace(scene.post("PATCH"), method="POST", url=scene.url())
)


@case(
    "method: POST's body as PATCH of the same address, after it",
    THEN,
    "the nonce was used by the POST",
    f"{METHOD}; {ONCE}",
)
def post_then_patch(scene: Scene) -> tuple[Delivery, ...]:
    sent = scene.post()
    return sent, replace(sent, method="PATCH")


@case(
    "method: GET's query as DELETE, after it",
    THEN,
    "url and signature fit a DELETE as well: only the used nonce stops it",
    f"{METHOD}; {ONCE}",
)
def get_then_delete(scene: Scene) -> tuple[Delivery, ...]:
    sent = scene.get()
    return sent, replace(sent, method="DELETE")


@refused("method: GET's query as DELETE of another resource", "`url` names the other resource", RULE_2)
def get_as_delete_of_another(scene: Scene) -> Delivery:
    query = scene.get().url.partition("?")[2]
    sent = replace(scene.get("DELETE"), url=f"{scene.resource()}?{query}")
    return replace(sent, signatures=scene.with_query(query, scene.base).signatures)


accepted(
    "method: GET's query as DELETE, instead of it",
    "a gap of the documented scheme: nothing signed tells a GET held back from a DELETE; "
    "refusing it would refuse every DELETE, so TLS has to keep requests from being held back",
    METHOD,
)(lambda scene: replace(scene.get(), method="DELETE"))


@refused(
    "method: GET's query as POST",
    "the signature fits the query as a body, which is no JSON",
    f"{METHOD}; 4",
)
def get_as_post(scene: Scene) -> Delivery:
    sent = scene.get()
    return replace(sent, method="POST", body=sent.url.partition("?")[2].encode())


@refused(
    "method: POST's body as GET's query",
    "the signature fits the body as a query, which names no url",
    METHOD,
)
def post_as_get(scene: Scene) -> Delivery:
    sent = scene.post()
    return replace(sent, method="GET", url=f"{sent.url}?{sent.body.decode()}", body=b"")


@case(
    "method: DELETE without a signature after a signed GET",
    THEN,
    "DELETE is signed too",
    "5.2 rule 1; notes",
)
def unsigned_delete(scene: Scene) -> tuple[Delivery, ...]:
    sent = scene.get()
    return sent, replace(sent, method="DELETE", url=sent.url.partition("?")[0], signatures=())
