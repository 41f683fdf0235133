"""Addresses: what was signed for one place arrives at another. Rule: 5.2 rule 2, and the issue: exactly.

Every case gives how the signed and the received address of a request differ, for a signed body and, where
the query takes part in the signature, for a signed query.
"""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote, urlsplit, urlunsplit

from tests.providers.vectors.scene import Scene, accepted, case, refused
from tests.providers.vectors.vector import Delivery, Verdict

MATCH = "5.2 rule 2: the signed URL matches the request URL"
GENERIC = f"{MATCH}; the documents are silent on spelling, RFC 3986, 6.2.2 and 6.2.3 are not"

ANOTHER = "signed for another address"

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


for _method in ("POST", "PATCH", "GET", "DELETE"):
    for _name, _change in ELSEWHERE.items():

        @refused(f"address: {_name}, {_method}", ANOTHER, MATCH)
        def other_address(scene: Scene, change: Change = _change, method: str = _method) -> Delivery:
            received = _place(scene, method)
            signed = change(received)
            assert signed != received, (signed, method)
            return _signed_for(scene, signed, received, method)

    for _name, _change in RESPELT.items():

        @accepted(
            f"address: {_name}, {_method}", "scheme, host and port are the same, however spelt", GENERIC
        )
        def respelt(scene: Scene, change: Change = _change, method: str = _method) -> Delivery:
            base = scene.random.choice(("https://ext.example.com", "http://localhost/v2"))
            place = replace(scene, base=base)
            received = _place(place, method)
            pairs = ((change(received), received), (received, change(received)))
            return _signed_for(place, *scene.random.choice(pairs), method)


for _name in ("other scheme", "other host", "other port", "other path", "trailing slash", "dot segments"):

    @refused(f"address: moved to {_name}", ANOTHER, MATCH)
    def moved(scene: Scene, change: Change = ELSEWHERE[_name]) -> Delivery:
        """A good request that arrives somewhere else, as whoever stands between could send it."""
        sent = scene.any()
        address, mark, query = sent.url.partition("?")
        return replace(sent, url=change(address) + mark + query)


@refused(
    "address: another resource",
    "the signature covers the query alone: only `url` says which resource was meant",
    MATCH,
)
def another_resource(scene: Scene) -> Delivery:
    sent = scene.get(scene.random.choice(("GET", "DELETE")))
    return replace(sent, url=f"{scene.resource()}?{sent.url.partition('?')[2]}")


SAME, OTHER_PATH = "byte by byte the same", "another path"
BY_BYTE = "the query counts byte by byte"
NO_QUERY = "an empty query is no query: servers do not tell them apart"
# What follows the address as signed, and as received, of a signed body.
ENDS: dict[str, tuple[str, str, Verdict, str, str]] = {
    "query as signed": ("?b=2&a=1", "?b=2&a=1", "accepted", SAME, MATCH),
    "query in another order": ("?a=1&b=2", "?b=2&a=1", "refused", "another order is another query", MATCH),
    "query missing": ("?a=1", "", "refused", "a part of the address is missing", MATCH),
    "query with a value escaped": ("?a=x", "?a=%78", "refused", BY_BYTE, MATCH),
    "query with plus for a space": ("?a=x+y", "?a=x%20y", "refused", BY_BYTE, MATCH),
    "query parameter twice": ("?a=1&a=2", "?a=1&a=2", "accepted", SAME, MATCH),
    "query parameter once of twice": ("?a=1&a=2", "?a=2", "refused", "a part is missing", MATCH),
    "question mark alone": ("", "?", "accepted", NO_QUERY, GENERIC),
    "escapes as signed": ("/a%2Fb", "/a%2Fb", "accepted", SAME, MATCH),
    "escaped slash for a slash": ("/a%2Fb", "/a/b", "refused", OTHER_PATH, MATCH),
    "slash for an escaped slash": ("/a/b", "/a%2Fb", "refused", OTHER_PATH, MATCH),
    "escape in small letters": ("/a%2Fb", "/a%2fb", "refused", "the path counts byte by byte", MATCH),
    "escape twice": ("/a%2Fb", "/a%252Fb", "refused", OTHER_PATH, MATCH),
}

for _name, (_end, _other, _verdict, _reason, _source) in ENDS.items():

    @case(f"address: {_name}", _verdict, _reason, _source)
    def varied(scene: Scene, signed: str = _end, received: str = _other) -> Delivery:
        method = scene.random.choice(("POST", "PATCH"))
        place = _place(scene, method)
        return _signed_for(scene, place + signed, place + received, method)


@refused("address: of another type", "not text", MATCH)
def not_text(scene: Scene) -> Delivery:
    value = scene.random.choice((None, 5, True, [scene.url()], {"url": scene.url()}))
    return scene.with_body(scene.text(scene.fields(scene.url()) | {"url": value}), scene.url())


def _ipv6(scene: Scene, signed: str) -> Delivery:
    place = replace(scene, base="http://[::1]:9000")
    return _signed_for(place, signed, place.url(), "POST")


refused(
    "address: IPv6 written out",
    "another spelling of the host than the request's; none of the documents makes them equal",
    MATCH,
)(lambda scene: _ipv6(scene, "http://[0:0:0:0:0:0:0:1]:9000/extensions"))
refused("address: bracket not closed", "no address; refused, never an error of the server", MATCH)(
    lambda scene: _ipv6(scene, "http://[::1/extensions")
)
