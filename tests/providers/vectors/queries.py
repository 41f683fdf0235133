"""Signed queries: GET and DELETE."""

from dataclasses import replace
from urllib.parse import quote

from tests.providers.vectors.scene import CASES, Scene, case
from tests.providers.vectors.vector import Vector, mac

RAW = "5.2 rule 1; notes, Extension providers: the raw query string, which holds timestamp, nonce, url"
MEBIBYTE = 1024 * 1024


def _method(scene: Scene) -> str:
    return scene.random.choice(("GET", "DELETE"))


@case("query: as documented, GET")
def good_get(scene: Scene) -> Vector:
    return scene.one(scene.get(), "accepted", "signed, for this address, now, once", "5.2")


@case("query: as documented, DELETE")
def good_delete(scene: Scene) -> Vector:
    return scene.one(scene.get("DELETE"), "accepted", "signed, for this address, now, once", "5.2")


@case("query: one byte tampered")
def tampered(scene: Scene) -> Vector:
    sent = scene.get(_method(scene))
    address, _, query = sent.url.partition("?")
    at = scene.random.randrange(len(query))
    other = scene.random.choice([letter for letter in "abcXYZ019&=%" if letter != query[at]])
    url = f"{address}?{query[:at]}{other}{query[at + 1 :]}"
    return scene.one(replace(sent, url=url), "refused", "a byte differs from what was signed", RAW)


@case("query: parameters in another order than signed")
def reordered(scene: Scene) -> Vector:
    sent = scene.get(_method(scene))
    address, _, query = sent.url.partition("?")
    parts = query.split("&")
    url = f"{address}?{'&'.join([*parts[1:], parts[0]])}"
    return scene.one(replace(sent, url=url), "refused", "the same parameters in other bytes", RAW)


@case("query: parameter added after signing")
def added(scene: Scene) -> Vector:
    sent = scene.get(_method(scene))
    tail = scene.random.choice(("&all=1", "&", "#x", "&nonce=n", ";a=1", "%20"))
    return scene.one(replace(sent, url=sent.url + tail), "refused", "more than what was signed", RAW)


@case("query: escaped otherwise after signing")
def escaped_otherwise(scene: Scene) -> Vector:
    place = scene.resource()
    query = f"url={quote(place, safe='')}&nonce={scene.nonce()}&timestamp={scene.now}"
    sent = scene.with_query(query, place, _method(scene))
    url = (
        sent.url.replace("%3A", ":", 1) if scene.random.random() < 0.5 else sent.url.replace("%2F", "%2f", 1)
    )
    return scene.one(replace(sent, url=url), "refused", "the same parameters in other bytes", RAW)


@case("query: escapes in small letters, as signed")
def small_escapes(scene: Scene) -> Vector:
    place = scene.resource()
    url = quote(place, safe="").replace("%3A", "%3a").replace("%2F", "%2f")
    query = f"url={url}&nonce={scene.nonce()}&timestamp={scene.now}"
    return scene.one(scene.with_query(query, place), "accepted", "read after decoding, signed before", RAW)


@case("query: other parameters beside the signing ones")
def beside(scene: Scene) -> Vector:
    place = scene.resource()
    own = scene.query(f"{place}?page=2&of=a%2Fb")
    query = scene.random.choice(
        (f"page=2&of=a%2Fb&{own}", f"{own}&page=2&of=a%2Fb", f"page=2&{own}&of=a%2Fb")
    )
    reason = "`url` is the address without the signing parameters, which cannot hold itself"
    return scene.one(scene.with_query(query, place, _method(scene)), "accepted", reason, RAW)


@case("query: other parameters that `url` does not name")
def not_named(scene: Scene) -> Vector:
    place = scene.resource()
    sent = scene.with_query(f"page=2&{scene.query(place)}", place, _method(scene))
    return scene.one(sent, "refused", "`url` is the full request target", "5.2 rule 2; 2.7")


@case("query: other parameters in another order in `url`")
def otherwise_named(scene: Scene) -> Vector:
    place = scene.resource()
    sent = scene.with_query(f"a=1&b=2&{scene.query(f'{place}?b=2&a=1')}", place, _method(scene))
    return scene.one(sent, "refused", "`url` counts byte by byte", "5.2 rule 2; the issue: exactly")


@case("query: other parameter twice")
def other_twice(scene: Scene) -> Vector:
    place = scene.resource()
    sent = scene.with_query(f"a=1&a=2&{scene.query(f'{place}?a=1&a=2')}", place, _method(scene))
    return scene.one(sent, "accepted", "signed, and `url` says the same", RAW)


for _name in ("url", "timestamp", "nonce"):

    def twice(scene: Scene, name: str = _name) -> Vector:
        place = scene.resource()
        second = {"url": quote(place, safe=""), "timestamp": str(scene.now), "nonce": scene.nonce()}[name]
        own = scene.query(place)
        query = scene.random.choice((f"{name}={second}&{own}", f"{own}&{name}={second}", f"{own}&{name}="))
        reason = "which of two counts is nobody's rule; the documents are silent"
        return scene.one(scene.with_query(query, place, _method(scene)), "refused", reason, "5.2 rule 2")

    CASES[f"query: `{_name}` twice"] = twice

    def missing(scene: Scene, name: str = _name) -> Vector:
        sent = scene.get(_method(scene), **{name: ...})
        return scene.one(sent, "refused", f"`{name}` must be signed with it", "5.2 rule 2")

    CASES[f"query: without `{_name}`"] = missing

    def blank(scene: Scene, name: str = _name) -> Vector:
        place = scene.resource()
        query = f"{scene.query(place, **{name: ...})}&{name}" + scene.random.choice(("", "="))
        sent = scene.with_query(query, place, _method(scene))
        return scene.one(sent, "refused", f"`{name}` says nothing", "5.2 rule 2")

    CASES[f"query: `{_name}` without a value"] = blank


@case("query: none, empty text signed")
def none(scene: Scene) -> Vector:
    sent = scene.with_query("", scene.resource(), _method(scene))
    url = scene.random.choice((sent.url, sent.url.rstrip("?")))
    return scene.one(replace(sent, url=url), "refused", "no url, time or nonce was signed", "5.2 rule 2")


@case("query: exactly 1 MiB", costly=True)
def a_mebibyte(scene: Scene) -> Vector:
    reason = "at most 1 MiB is taken; the documents name no limit, the project's is 1 MiB"
    return scene.one(
        scene.with_query(*_of_size(scene, MEBIBYTE)), "accepted", reason, "the issue: caps (1 MiB)"
    )


@case("query: 1 MiB + 1", costly=True)
def more_than_a_mebibyte(scene: Scene) -> Vector:
    sent = scene.with_query(*_of_size(scene, MEBIBYTE + 1))
    return scene.one(sent, "refused", "one byte over the limit, although signed", "the issue: caps (1 MiB)")


def _of_size(scene: Scene, size: int) -> tuple[str, str]:
    """Query and address: what fills it stands in both, so it counts twice."""
    place, nonce = scene.resource(), scene.nonce()

    def query(filler: str) -> str:
        url = quote(f"{place}?fill={filler}", safe="")
        return f"fill={filler}&timestamp={scene.now}&nonce={nonce}&url={url}"

    if (size - len(query(""))) % 2:
        nonce += "0"
    filled = query("f" * ((size - len(query(""))) // 2))
    assert len(filled) == size
    return filled, place


@case("query: signed as a whole address")
def whole_address(scene: Scene) -> Vector:
    sent = scene.get(_method(scene))
    signature = mac(scene.secret, sent.url.encode(), scene.encoding)
    reason = "the query string is signed, not the address before it"
    return scene.one(replace(sent, signatures=(signature,)), "refused", reason, RAW)


@case("query: signed with its question mark")
def with_mark(scene: Scene) -> Vector:
    sent = scene.get(_method(scene))
    signature = mac(scene.secret, b"?" + sent.url.partition("?")[2].encode(), scene.encoding)
    return scene.one(
        replace(sent, signatures=(signature,)), "refused", "the query begins after the mark", RAW
    )


@case("query: a body beside it")
def body_beside(scene: Scene) -> Vector:
    sent = replace(scene.get(_method(scene)), body=b'{"id": "other"}')
    reason = "the body of a GET or DELETE is no part of the request's contents: it is not read"
    return scene.one(sent, "accepted", reason, RAW)


@case("query: body signed instead")
def body_signed(scene: Scene) -> Vector:
    body = scene.text(scene.fields(scene.resource()))
    sent = replace(scene.with_body(body, scene.resource()), method=_method(scene))
    return scene.one(sent, "refused", "of a GET or DELETE the query is signed", RAW)


@case("query: characters beyond ASCII, unescaped")
def beyond_ascii(scene: Scene) -> Vector:
    sent = scene.with_query(f"{scene.query(scene.resource())}&name=Zoë", scene.resource(), _method(scene))
    reason = "`url` does not name them, and no address holds them"
    return scene.one(sent, "refused", reason, "5.2 rule 2")


@case("query: bytes that are no text")
def not_text(scene: Scene) -> Vector:
    place = scene.resource()
    raw = f"{scene.query(place)}&name=\udce9"  # as a server hands over the byte 0xE9
    sent = scene.with_query(raw, place, _method(scene))
    return scene.one(sent, "refused", "no address holds them; never an error of the server", "5.2 rule 2")


@case("query: plus and escapes in the nonce")
def odd_nonce(scene: Scene) -> Vector:
    place = scene.resource()
    query = f"timestamp={scene.now}&nonce={scene.nonce()}%2B/+%3D=&url={quote(place, safe='')}"
    return scene.one(scene.with_query(query, place), "accepted", "any text may be a nonce", "2.7")
