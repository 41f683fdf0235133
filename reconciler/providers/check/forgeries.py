"""The table of forgeries: the ways to spoil a good request. Each must be refused.

An entry has a name, the rule that it breaks, the methods that it fits, and a function from the good draft to
the spoilt request. Clocks of two machines differ, so times are a little further away than the rule's 300 s.
"""

import base64
import json
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from reconciler.providers.check.request import Draft, Request

ALL = ("POST", "PATCH", "GET", "DELETE")
BODY = ("POST", "PATCH")
QUERY = ("GET", "DELETE")
SIGNED = "platform API, 5.2 rule 1"
ENCODED = "platform API, 5.2 rule 5; notes: hex or base64 by configuration"
SECRET = "platform API, 5.2 rules 1 and 3"  # noqa: S105 - where it is written, not what it is
URL = "platform API, 5.2 rule 2: the signed URL matches the request URL"
TIME = "platform API, 2.7 and 5.2 rule 2; notes: the tolerance (300 s)"
NONCE = "platform API, 2.7 and 5.2 rule 2"
RAW = "platform API, 5.2 rule 1; notes: the raw body bytes or the raw query string"
BEYOND_S = 330


class Forgery(Struct, frozen=True):
    """`make` gives None when it needs a secret that was not given."""

    name: str
    source: str
    methods: tuple[str, ...]
    make: Callable[[Draft], Request | None]


FORGERIES: list[Forgery] = []


def _add(
    name: str, source: str, make: Callable[[Draft], Request | None], methods: tuple[str, ...] = ALL
) -> None:
    FORGERIES.append(Forgery(name, source, methods, make))


def _headers(change: Callable[[Draft, str], tuple[str, ...]]) -> Callable[[Draft], Request]:
    """With the headers that `change` gives in place of the right signature."""
    return lambda draft: draft.request(signatures=change(draft, draft.sign(draft.message())))


def _other_encoding(draft: Draft, text: str) -> str:
    if draft.encoding == "hex":
        return base64.b64encode(bytes.fromhex(text)).decode("ascii")
    return base64.b64decode(text).hex()


def _wrong(text: str) -> str:
    """A signature whose first character differs."""
    return ("1" if text[0] != "1" else "2") + text[1:]


_add("without a signature", SIGNED, _headers(lambda draft, right: ()))
_add("with an empty signature", SIGNED, _headers(lambda draft, right: ("",)))
_add("with its signature changed", SIGNED, _headers(lambda draft, right: (_wrong(right),)))
_add("with half of its signature", SIGNED, _headers(lambda draft, right: (right[: len(right) // 2],)))
_add("with a longer signature", SIGNED, _headers(lambda draft, right: (f"{right}0000",)))
_add("with a signature of zeros", SIGNED, _headers(lambda draft, right: ("0" * len(right),)))
_add("with a word for a signature", SIGNED, _headers(lambda draft, right: ("null",)))
_add(
    "with its signature in the other encoding",
    ENCODED,
    _headers(lambda draft, right: (_other_encoding(draft, right),)),
)
_add("with its signature behind `sha256=`", ENCODED, _headers(lambda draft, right: (f"sha256={right}",)))
_add("with its signature twice in one header", SIGNED, _headers(lambda draft, right: (f"{right}, {right}",)))
_add(
    "with a wrong signature before the right one in one header",
    SIGNED,
    _headers(lambda draft, right: (f"{_wrong(right)},{right}",)),
)
_add("with two headers, both right", SIGNED, _headers(lambda draft, right: (right, right)))
_add("with two headers, the first wrong", SIGNED, _headers(lambda draft, right: (_wrong(right), right)))
_add("with two headers, the second wrong", SIGNED, _headers(lambda draft, right: (right, _wrong(right))))
_add(
    "with an HMAC of SHA-1",
    SIGNED,
    _headers(lambda draft, right: (draft.other_hmac("sha1", draft.message()),)),
)
_add(
    "with an HMAC of SHA-512",
    SIGNED,
    _headers(lambda draft, right: (draft.other_hmac("sha512", draft.message()),)),
)
_add(
    "with a bare hash for a signature",
    SIGNED,
    _headers(lambda draft, right: (draft.bare_hash(draft.message()),)),
)


def _signing(message: Callable[[Draft], bytes]) -> Callable[[Draft], Request]:
    """Under the signature of another message."""
    return lambda draft: draft.request(signed=message(draft))


_add("with the signature of another request", SIGNED, _signing(lambda draft: draft.message(nonce="other")))
_add("with the signature of nothing", SIGNED, _signing(lambda draft: b""))
_add("with the signature of its address", SIGNED, _signing(lambda draft: draft.url.encode()))


def _under(secret: Callable[[Draft], bytes | None]) -> Callable[[Draft], Request | None]:
    """Under another secret; None when that was not given."""

    def forged(draft: Draft) -> Request | None:
        other = secret(draft)
        return None if other is None else draft.request(secret=other)

    return forged


_add("under a wrong secret", SECRET, _under(lambda draft: draft.wrong_secret))
_add("under an empty secret", SECRET, _under(lambda draft: b""))
_add("under the secret and a line end", SECRET, _under(lambda draft: draft.secret + b"\n"))
_add("under the webhook secret", SECRET, _under(lambda draft: draft.webhook_secret))


def _changed_url(change: Callable[[str], object]) -> Callable[[Draft], Request]:
    return lambda draft: draft.request(draft.message(url=change(draft.url)))


def _part(**changes: str) -> Callable[[str], str]:
    return lambda url: urlunsplit(urlsplit(url)._replace(**changes))


def _netloc(change: Callable[[str, int | None], str]) -> Callable[[str], str]:
    """With the host and port that `change` gives; IPv6 in brackets."""

    def changed(url: str) -> str:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return urlunsplit(parts._replace(netloc=change(host or "", parts.port)))

    return changed


def _port(port: int | None) -> str:
    return f":{port}" if port else ""


def _other_scheme(url: str) -> str:
    scheme, _, rest = url.partition(":")
    return f"{'http' if scheme == 'https' else 'https'}:{rest}"


_add("signed for another host", URL, _changed_url(_part(netloc="other.invalid")))
_add(
    "signed for a longer host",
    URL,
    _changed_url(_netloc(lambda host, port: f"{host}.evil.invalid{_port(port)}")),
)
_add("signed for another scheme", URL, _changed_url(_other_scheme))
_add(
    "signed for another port",
    URL,
    _changed_url(_netloc(lambda host, port: f"{host}:{(port or 443) % 65535 + 1}")),
)
_add("signed for another resource", URL, _changed_url(lambda url: f"{url}x"))
_add("signed for a deeper path", URL, _changed_url(lambda url: f"{url}/sso"))
_add("signed for a path with a slash at its end", URL, _changed_url(lambda url: f"{url}/"))
_add("signed for an address with a query", URL, _changed_url(lambda url: f"{url}?all=1"))
_add(
    "signed for an address with a user",
    URL,
    _changed_url(_netloc(lambda host, port: f"platform@{host}{_port(port)}")),
)
_add("signed for the path alone", URL, _changed_url(lambda url: urlsplit(url).path))
_add("signed for an empty address", URL, _changed_url(lambda _: ""))
_add("signed without `url`", URL, lambda draft: draft.request(draft.message(url=...)))
_add("signed with a number for `url`", URL, _changed_url(lambda _: 5), BODY)


def _at(make: Callable[[int], object]) -> Callable[[Draft], Request]:
    return lambda draft: draft.request(draft.message(timestamp=make(draft.timestamp)))


_add("signed too early", TIME, _at(lambda now: now - BEYOND_S))
_add("signed too late", TIME, _at(lambda now: now + BEYOND_S))
_add("signed a day early", TIME, _at(lambda now: now - 86_400))
_add("signed in milliseconds", TIME, _at(lambda now: now * 1000))
_add("signed with a negative time", TIME, _at(lambda now: -now))
_add("signed at zero", TIME, _at(lambda _: 0))
_add("signed with a word for a time", TIME, _at(lambda _: "now"))
_add("signed with a time of 400 digits", TIME, _at(lambda _: 10**400))
_add("signed without a time", TIME, _at(lambda _: ...))
_add("signed with a text for a time", TIME, _at(str), BODY)
_add("signed with a fraction for a time", TIME, _at(lambda now: now + 0.5))
_add("signed with true for a time", TIME, _at(lambda _: True), BODY)
_add("signed with null for a time", TIME, _at(lambda _: None), BODY)


def _nonce(value: object) -> Callable[[Draft], Request]:
    return lambda draft: draft.request(draft.message(nonce=value))


_add("signed without a nonce", NONCE, _nonce(...))
_add("signed with an empty nonce", NONCE, _nonce(""))
_add("signed with null for a nonce", NONCE, _nonce(None), BODY)
_add("signed with a number for a nonce", NONCE, _nonce(5), BODY)


def _tampered(change: Callable[[bytes], bytes]) -> Callable[[Draft], Request]:
    """The signature is that of the message before `change`."""
    return lambda draft: draft.request(change(draft.message()), signed=draft.message())


def _reordered(body: bytes) -> bytes:
    fields = json.loads(body)
    return json.dumps(dict(reversed(fields.items())), separators=(",", ":")).encode()


def _renamed(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"name": "check-other"}, separators=(",", ":")).encode()


_add("with its name changed after signing", RAW, _tampered(_renamed), BODY)
_add(
    "with its role changed after signing",
    RAW,
    _tampered(lambda body: body.replace(b"admin", b"member")),
    BODY,
)
_add("with a space after its body", RAW, _tampered(lambda body: body + b" "), BODY)
_add("with a line end after its body", RAW, _tampered(lambda body: body + b"\n"), BODY)
_add("with a byte order mark before its body", RAW, _tampered(lambda body: b"\xef\xbb\xbf" + body), BODY)
_add("serialised again", RAW, _tampered(lambda body: json.dumps(json.loads(body), indent=1).encode()), BODY)
_add("with its keys reordered", RAW, _tampered(_reordered), BODY)
_add("with its last byte missing", RAW, _tampered(lambda body: body[:-1]), BODY)
_add("with its first half only", RAW, _tampered(lambda body: body[: len(body) // 2]), BODY)
_add("with its body missing", RAW, _tampered(lambda _: b""), BODY)
_add("with a field written twice after signing", RAW, _tampered(lambda body: body[:-1] + b',"id":"x"}'), BODY)


def _signed_body(make: Callable[[Draft], bytes]) -> Callable[[Draft], Request]:
    return lambda draft: draft.request(make(draft))


_PARAMETERS = "platform API, 5.2 rule 2: the request carries url, timestamp and nonce"
_add("signed, but empty", _PARAMETERS, _signed_body(lambda _: b""))
_add("signed, but an empty object", _PARAMETERS, _signed_body(lambda _: b"{}"), BODY)
_add("signed, but an array", _PARAMETERS, _signed_body(lambda draft: b"[" + draft.message() + b"]"), BODY)
_add("signed, but no JSON", _PARAMETERS, _signed_body(lambda draft: draft.message()[:-1]), BODY)
_add(
    "signed, but not UTF-8",
    _PARAMETERS,
    _signed_body(lambda draft: draft.message()[:-1] + b',"a":"\xff"}'),
    BODY,
)
_add(
    "signed, with its parameters one level down",
    _PARAMETERS,
    _signed_body(lambda draft: b'{"signed":' + draft.message() + b"}"),
    BODY,
)


def _moved_last(query: bytes) -> bytes:
    first, _, rest = query.partition(b"&")
    return rest + b"&" + first


_add("with a parameter added after signing", RAW, _tampered(lambda query: query + b"&all=1"), QUERY)
_add("with its parameters reordered", RAW, _tampered(_moved_last), QUERY)
_add("with a parameter missing", RAW, _tampered(lambda query: query.rpartition(b"&")[0]), QUERY)
_add("with its escapes written otherwise", RAW, _tampered(lambda query: query.replace(b"%2F", b"%2f")), QUERY)
_add("with an `&` after its query", RAW, _tampered(lambda query: query + b"&"), QUERY)
_add("signed with its question mark", RAW, lambda draft: draft.request(signed=b"?" + draft.message()), QUERY)
_add(
    "signed as its whole address",
    RAW,
    lambda draft: draft.request(signed=draft.url.encode() + b"?" + draft.message()),
    QUERY,
)
