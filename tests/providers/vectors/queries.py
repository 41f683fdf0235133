"""Signed queries: GET and DELETE."""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from tests.providers.vectors.scene import Scene, accepted, refused
from tests.providers.vectors.vector import Delivery, mac

RAW = "5.2 rule 1; notes, Extension providers: the raw query string, which holds timestamp, nonce, url"
URL = "5.2 rule 2"
GOOD = "signed, for this address, now, once"
OTHER_BYTES = "the same parameters in other bytes"
CAPS = "the issue: caps (1 MiB)"
MEBIBYTE = 1024 * 1024


def _method(scene: Scene) -> str:
    return scene.random.choice(("GET", "DELETE"))


def _changed(change: Callable[[Scene, str], str]) -> Callable[[Scene], Delivery]:
    """A good request whose query is changed after it was signed."""

    def sent(scene: Scene) -> Delivery:
        good = scene.get(_method(scene))
        address, _, query = good.url.partition("?")
        return replace(good, url=f"{address}?{change(scene, query)}")

    return sent


def _signed(make: Callable[[Scene, str], str]) -> Callable[[Scene], Delivery]:
    """A request under the query that `make` gives for an address."""

    def sent(scene: Scene) -> Delivery:
        place = scene.resource()
        return scene.with_query(make(scene, place), place, _method(scene))

    return sent


accepted("query: as documented, GET", GOOD, "5.2")(lambda scene: scene.get())
accepted("query: as documented, DELETE", GOOD, "5.2")(lambda scene: scene.get("DELETE"))


@refused("query: one byte tampered", "a byte differs from what was signed", RAW)
@_changed
def tampered(scene: Scene, query: str) -> str:
    at = scene.random.randrange(len(query))
    other = scene.random.choice([letter for letter in "abcXYZ019&=%" if letter != query[at]])
    return f"{query[:at]}{other}{query[at + 1 :]}"


@refused("query: parameters in another order than signed", OTHER_BYTES, RAW)
@_changed
def reordered(scene: Scene, query: str) -> str:
    parts = query.split("&")
    return "&".join([*parts[1:], parts[0]])


@refused("query: parameter added after signing", "more than what was signed", RAW)
@_changed
def added(scene: Scene, query: str) -> str:
    return query + scene.random.choice(("&all=1", "&", "#x", "&nonce=n", ";a=1", "%20"))


def _escaped(scene: Scene, place: str) -> str:
    return f"url={quote(place, safe='')}&nonce={scene.nonce()}&timestamp={scene.now}"


@refused("query: escaped otherwise after signing", OTHER_BYTES, RAW)
def escaped_otherwise(scene: Scene) -> Delivery:
    sent = _signed(_escaped)(scene)
    before, after = scene.random.choice((("%3A", ":"), ("%2F", "%2f")))
    return replace(sent, url=sent.url.replace(before, after, 1))


@accepted("query: escapes in small letters, as signed", "read after decoding, signed before", RAW)
@_signed
def small_escapes(scene: Scene, place: str) -> str:
    return _escaped(scene, place).replace("%3A", "%3a").replace("%2F", "%2f")


@accepted(
    "query: other parameters beside the signing ones",
    "`url` is the address without the signing parameters, which cannot hold itself",
    RAW,
)
@_signed
def with_others(scene: Scene, place: str) -> str:
    own = scene.query(f"{place}?page=2&of=a%2Fb")
    return scene.random.choice((f"page=2&of=a%2Fb&{own}", f"{own}&page=2&of=a%2Fb", f"page=2&{own}&of=a%2Fb"))


refused(
    "query: other parameters that `url` does not name", "`url` is the full request target", f"{URL}; 2.7"
)(_signed(lambda scene, place: f"page=2&{scene.query(place)}"))
refused(
    "query: other parameters in another order in `url`",
    "`url` counts byte by byte",
    f"{URL}; the issue: exactly",
)(_signed(lambda scene, place: f"a=1&b=2&{scene.query(f'{place}?b=2&a=1')}"))
accepted("query: other parameter twice", "signed, and `url` says the same", RAW)(
    _signed(lambda scene, place: f"a=1&a=2&{scene.query(f'{place}?a=1&a=2')}")
)

for _name in ("url", "timestamp", "nonce"):

    @refused(f"query: `{_name}` twice", "which of two counts is nobody's rule; the documents are silent", URL)
    @_signed
    def twice(scene: Scene, place: str, name: str = _name) -> str:
        second = {"url": quote(place, safe=""), "timestamp": str(scene.now), "nonce": scene.nonce()}[name]
        own = scene.query(place)
        return scene.random.choice((f"{name}={second}&{own}", f"{own}&{name}={second}", f"{own}&{name}="))

    @refused(f"query: without `{_name}`", f"`{_name}` must be signed with it", URL)
    @_signed
    def missing(scene: Scene, place: str, name: str = _name) -> str:
        return scene.query(place, **{name: ...})

    @refused(f"query: `{_name}` without a value", f"`{_name}` says nothing", URL)
    @_signed
    def blank(scene: Scene, place: str, name: str = _name) -> str:
        return f"{scene.query(place, **{name: ...})}&{name}" + scene.random.choice(("", "="))


@refused("query: none, empty text signed", "no url, time or nonce was signed", URL)
def none(scene: Scene) -> Delivery:
    sent = scene.with_query("", scene.resource(), _method(scene))
    return replace(sent, url=scene.random.choice((sent.url, sent.url.rstrip("?"))))


def _of_size(scene: Scene, size: int) -> Delivery:
    """What fills the query stands in its `url`, too, so it counts twice."""
    place, nonce = scene.resource(), scene.nonce()

    def query(filler: str) -> str:
        url = quote(f"{place}?fill={filler}", safe="")
        return f"fill={filler}&timestamp={scene.now}&nonce={nonce}&url={url}"

    if (size - len(query(""))) % 2:
        nonce += "0"
    filled = query("f" * ((size - len(query(""))) // 2))
    assert len(filled) == size
    return scene.with_query(filled, place)


accepted(
    "query: exactly 1 MiB",
    "at most 1 MiB is taken; the documents name no limit, the project's is 1 MiB",
    CAPS,
    costly=True,
)(lambda scene: _of_size(scene, MEBIBYTE))
refused("query: 1 MiB + 1", "one byte over the limit, although signed", CAPS, costly=True)(
    lambda scene: _of_size(scene, MEBIBYTE + 1)
)


def _signing(message: Callable[[str], str]) -> Callable[[Scene], Delivery]:
    """A good request under the signature of what `message` makes of its address."""

    def sent(scene: Scene) -> Delivery:
        good = scene.get(_method(scene))
        return replace(good, signatures=(mac(scene.secret, message(good.url).encode(), scene.encoding),))

    return sent


refused("query: signed as a whole address", "the query string is signed, not the address before it", RAW)(
    _signing(lambda url: url)
)
refused("query: signed with its question mark", "the query begins after the mark", RAW)(
    _signing(lambda url: "?" + url.partition("?")[2])
)
accepted(
    "query: a body beside it",
    "the body of a GET or DELETE is no part of the request's contents: it is not read",
    RAW,
)(lambda scene: replace(scene.get(_method(scene)), body=b'{"id": "other"}'))


@refused("query: body signed instead", "of a GET or DELETE the query is signed", RAW)
def body_signed(scene: Scene) -> Delivery:
    body = scene.text(scene.fields(scene.resource()))
    return replace(scene.with_body(body, scene.resource()), method=_method(scene))


refused(
    "query: characters beyond ASCII, unescaped", "`url` does not name them, and no address holds them", URL
)(_signed(lambda scene, place: f"{scene.query(place)}&name=Zoë"))
refused("query: bytes that are no text", "no address holds them; never an error of the server", URL)(
    _signed(lambda scene, place: f"{scene.query(place)}&name=\udce9")  # as a server hands over the byte 0xE9
)
accepted("query: plus and escapes in the nonce", "any text may be a nonce", "2.7")(
    _signed(
        lambda scene, place: (
            f"timestamp={scene.now}&nonce={scene.nonce()}%2B/+%3D=&url={quote(place, safe='')}"
        )
    )
)
