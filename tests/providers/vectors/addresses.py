"""Addresses: what was signed for one place arrives at another. Rule: 5.2 rule 2, and the issue: exactly.

Every case gives how the signed and the received address of a request differ, for a signed body and, where
the query takes part in the signature, for a signed query.
"""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote, urlsplit, urlunsplit

from tests.providers.vectors.scene import CASES, Scene, case
from tests.providers.vectors.vector import Delivery, Vector, Verdict

MATCH = "5.2 rule 2: the signed URL matches the request URL"
GENERIC = f"{MATCH}; the documents are silent on spelling, RFC 3986, 6.2.2 and 6.2.3 are not"

Change = Callable[[str], str]


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _with(url: str, **changes: str) -> str:
    return urlunsplit(urlsplit(url)._replace(**changes))


def _without_port(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def _other_port(url: str) -> str:
    port = urlsplit(url).port
    return _with(url, netloc=f"{_without_port(url)}:{(port or 443) + 1}")


def _deeper(url: str, part: str) -> str:
    return _with(url, path=urlsplit(url).path + part)


# What the signed address becomes, given the address that the request goes to.
ELSEWHERE: dict[str, Change] = {
    "other scheme": lambda url: _with(url, scheme="http" if url.startswith("https") else "https"),
    "other host": lambda url: _with(url, netloc="other.example"),
    "host with a suffix": lambda url: _with(url, netloc=f"{_without_port(url)}.evil.example"),
    "host with a dot at its end": lambda url: _with(url, netloc=f"{_without_port(url)}."),
    "host inside the user part": lambda url: _with(url, netloc=f"{_host(url)}@evil.example"),
    "user part before the host": lambda url: _with(url, netloc=f"platform@{_host(url)}"),
    "user and password": lambda url: _with(url, netloc=f"a:b@{_host(url)}"),
    "backslash in the host": lambda url: _with(url, netloc=f"evil.example\\@{_host(url)}"),
    "other port": _other_port,
    "port out of range": lambda url: _with(url, netloc=f"{_without_port(url)}:99999"),
    "port in letters": lambda url: _with(url, netloc=f"{_without_port(url)}:https"),
    "port negative": lambda url: _with(url, netloc=f"{_without_port(url)}:-1"),
    "other path": lambda url: _deeper(url, "x"),
    "longer path": lambda url: _deeper(url, "/sso"),
    "trailing slash": lambda url: _deeper(url, "/"),
    "double slash": lambda url: _with(url, path="//" + urlsplit(url).path.lstrip("/")),
    "dot segments": lambda url: _deeper(url, "/../" + urlsplit(url).path.rpartition("/")[2]),
    "path in capitals": lambda url: _with(url, path=urlsplit(url).path.replace("ext", "EXT", 1)),
    "letter of the path escaped": lambda url: _with(url, path=urlsplit(url).path.replace("e", "%65", 1)),
    "slash of the path escaped": lambda url: url[::-1].replace("/", "F2%", 1)[::-1],
    "semicolon part": lambda url: _deeper(url, ";v=1"),
    "query added": lambda url: f"{url}?admin=1",
    "fragment added": lambda url: f"{url}#top",
    "fragment empty": lambda url: f"{url}#",
    "no scheme": lambda url: url.partition(":")[2],
    "path alone": lambda url: urlsplit(url).path,
    "host alone": lambda url: _with(url, path="", query=""),
    "three slashes": lambda url: url.replace("://", ":///"),
    "one slash": lambda url: url.replace("://", ":/"),
    "space before": lambda url: f" {url}",
    "line end after": lambda url: f"{url}\n",
    "tab inside": lambda url: url.replace("ext", "e\txt", 1),
    "zero byte after": lambda url: f"{url}\0",
    "letters of another script": lambda url: url.replace("e", "\u0435", 1),
    "wide letters": lambda url: url.replace("e", "\uff45", 1),
    "escaped as a whole": lambda url: quote(url, safe=""),
    "escaped once more": lambda url: url.replace("%", "%25") if "%" in url else f"{url}%20",
    "empty": lambda url: "",
    "two addresses": lambda url: f"{url} {url}",
}

# The same address in another spelling.
RESPELT: dict[str, Change] = {
    "host in capitals": lambda url: _with(url, netloc=_host(url).upper()),
    "scheme in capitals": lambda url: url.replace("http", "HTTP", 1),
    "default port spelt out": lambda url: _default_port(url),
}


def _default_port(url: str) -> str:
    if urlsplit(url).port is not None:
        return url
    return _with(url, netloc=f"{_host(url)}:{443 if url.startswith('https') else 80}")


def _signed_for(scene: Scene, signed: str, received: str, method: str) -> Delivery:
    if method in ("POST", "PATCH"):
        return scene.with_body(scene.text(scene.fields(received, url=signed)), received, method)
    return scene.get(method, received, url=signed)


def _place(scene: Scene, method: str) -> str:
    return scene.url() if method == "POST" else scene.resource()


def _elsewhere(change: Change, method: str) -> Callable[[Scene], Vector]:
    def play(scene: Scene) -> Vector:
        received = _place(scene, method)
        signed = change(received)
        assert signed != received, (signed, method)
        sent = _signed_for(scene, signed, received, method)
        return scene.one(sent, "refused", "signed for another address", MATCH)

    return play


def _respelt(change: Change, method: str) -> Callable[[Scene], Vector]:
    def play(scene: Scene) -> Vector:
        place = replace(scene, base=scene.random.choice(("https://ext.example.com", "http://localhost/v2")))
        received = _place(place, method)
        signed, arrived = scene.random.choice(((change(received), received), (received, change(received))))
        sent = _signed_for(place, signed, arrived, method)
        return scene.one(sent, "accepted", "scheme, host and port are the same, however spelt", GENERIC)

    return play


for _method in ("POST", "PATCH", "GET", "DELETE"):
    for _name, _change in ELSEWHERE.items():
        CASES[f"address: {_name}, {_method}"] = _elsewhere(_change, _method)
    for _name, _change in RESPELT.items():
        CASES[f"address: {_name}, {_method}"] = _respelt(_change, _method)


def _moved(scene: Scene, change: Change) -> Delivery:
    """A good request that arrives somewhere else, as whoever stands between could send it."""
    sent = scene.any()
    address, mark, query = sent.url.partition("?")
    return replace(sent, url=change(address) + mark + query)


for _name in ("other scheme", "other host", "other port", "other path", "trailing slash", "dot segments"):

    def moved(scene: Scene, change: Change = ELSEWHERE[_name]) -> Vector:
        return scene.one(_moved(scene, change), "refused", "signed for another address", MATCH)

    CASES[f"address: moved to {_name}"] = moved


@case("address: another resource")
def another_resource(scene: Scene) -> Vector:
    sent = scene.get(scene.random.choice(("GET", "DELETE")))
    query = sent.url.partition("?")[2]
    reason = "the signature covers the query alone: only `url` says which resource was meant"
    return scene.one(replace(sent, url=f"{scene.resource()}?{query}"), "refused", reason, MATCH)


def _varied(name: str, signed: str, received: str, expected: Verdict, reason: str, source: str) -> None:
    """A signed body; `signed` and `received` follow the address of the request."""

    def play(scene: Scene) -> Vector:
        method = scene.random.choice(("POST", "PATCH"))
        place = _place(scene, method)
        sent = _signed_for(scene, place + signed, place + received, method)
        return scene.one(sent, expected, reason, source)

    CASES[f"address: {name}"] = play


_varied("query as signed", "?b=2&a=1", "?b=2&a=1", "accepted", "byte by byte the same", MATCH)
_varied("query in another order", "?a=1&b=2", "?b=2&a=1", "refused", "another order is another query", MATCH)
_varied("query missing", "?a=1", "", "refused", "a part of the address is missing", MATCH)
_varied("query with a value escaped", "?a=x", "?a=%78", "refused", "the query counts byte by byte", MATCH)
_varied(
    "query with plus for a space", "?a=x+y", "?a=x%20y", "refused", "the query counts byte by byte", MATCH
)
_varied("query parameter twice", "?a=1&a=2", "?a=1&a=2", "accepted", "byte by byte the same", MATCH)
_varied("query parameter once of twice", "?a=1&a=2", "?a=2", "refused", "a part is missing", MATCH)
_varied(
    "question mark alone",
    "",
    "?",
    "accepted",
    "an empty query is no query: servers do not tell them apart",
    GENERIC,
)
_varied("escapes as signed", "/a%2Fb", "/a%2Fb", "accepted", "byte by byte the same", MATCH)
_varied("escaped slash for a slash", "/a%2Fb", "/a/b", "refused", "another path", MATCH)
_varied("slash for an escaped slash", "/a/b", "/a%2Fb", "refused", "another path", MATCH)
_varied("escape in small letters", "/a%2Fb", "/a%2fb", "refused", "the path counts byte by byte", MATCH)
_varied("escape twice", "/a%2Fb", "/a%252Fb", "refused", "another path", MATCH)


@case("address: of another type")
def not_text(scene: Scene) -> Vector:
    value = scene.random.choice((None, 5, True, [scene.url()], {"url": scene.url()}))
    fields = scene.fields(scene.url()) | {"url": value}
    return scene.one(scene.with_body(scene.text(fields), scene.url()), "refused", "not text", MATCH)


@case("address: IPv6 written out")
def written_out(scene: Scene) -> Vector:
    place = replace(scene, base="http://[::1]:9000")
    sent = _signed_for(place, "http://[0:0:0:0:0:0:0:1]:9000/extensions", place.url(), "POST")
    reason = "another spelling of the host than the request's; none of the documents makes them equal"
    return scene.one(sent, "refused", reason, MATCH)


@case("address: bracket not closed")
def not_closed(scene: Scene) -> Vector:
    place = replace(scene, base="http://[::1]:9000")
    sent = _signed_for(place, "http://[::1/extensions", place.url(), "POST")
    return scene.one(sent, "refused", "no address; refused, never an error of the server", MATCH)
