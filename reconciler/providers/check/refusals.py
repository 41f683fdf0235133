"""Requests that are not surely the platform's: refused, each time with the same 401, and without effect.

The table of forgeries holds the ways to spoil a good request. An entry has a name, the rule that it breaks,
the methods that it fits, and a function from the good draft to the spoilt request. Clocks of two machines
differ, so times are a little further away than the rule's 300 s.

A forgery is tried on POST, PATCH, GET and DELETE as far as it makes sense. After it, a GET shows whether it
had an effect. The words of a refusal must not say what was wrong.
"""

import base64
import json
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from reconciler.providers.check.bench import (
    AT_ONCE,
    Bench,
    Group,
    NotChecked,
    Unmet,
    path_of,
    same,
    succeeded,
    webhook_secret_of,
)
from reconciler.providers.check.request import Draft, Request, parsed
from reconciler.services.transport import Answer

ALL = ("POST", "PATCH", "GET", "DELETE")
BODY = ("POST", "PATCH")
QUERY = ("GET", "DELETE")
SIGNED = "platform API, 5.2 rule 1"
ENCODED = "platform API, 5.2 rule 5; notes: hex or base64 by configuration"
SECRET = "platform API, 5.2 rules 1 and 3"  # noqa: S105 - where it is written, not what it is
PARAMETERS = "platform API, 5.2 rule 2: the request carries url, timestamp and nonce"
URL = "platform API, 5.2 rule 2: the signed URL matches the request URL"
TIME = "platform API, 2.7 and 5.2 rule 2; notes: the tolerance (300 s)"
NONCE = "platform API, 2.7 and 5.2 rule 2"
RAW = "platform API, 5.2 rule 1; notes: the raw body bytes or the raw query string"
BEYOND_S = 330


Make = Callable[[Draft], Request]


class Forgery(Struct, frozen=True):
    """`make` raises NotChecked when it needs a secret that was not given."""

    name: str
    source: str
    methods: Sequence[str]
    make: Make


FORGERIES: list[Forgery] = []


def _add(name: str, source: str, make: Make, methods: Sequence[str] = ALL) -> None:
    FORGERIES.append(Forgery(name, source, methods, make))


def _headers(name: str, change: Callable[[Draft, str], tuple[str, ...]], source: str = SIGNED) -> None:
    """With the headers that `change` gives in place of the right signature."""
    _add(name, source, lambda draft: draft.request(signatures=change(draft, draft.sign(draft.message()))))


def _other_encoding(draft: Draft, text: str) -> str:
    if draft.encoding == "hex":
        return base64.b64encode(bytes.fromhex(text)).decode("ascii")
    return base64.b64decode(text).hex()


def wrong(text: str) -> str:
    """A signature whose first character differs."""
    return ("1" if text[0] != "1" else "2") + text[1:]


_headers("without a signature", lambda draft, right: ())
_headers("with an empty signature", lambda draft, right: ("",))
_headers("with its signature changed", lambda draft, right: (wrong(right),))
_headers("with half of its signature", lambda draft, right: (right[: len(right) // 2],))
_headers("with a longer signature", lambda draft, right: (f"{right}0000",))
_headers("with a signature of zeros", lambda draft, right: ("0" * len(right),))
_headers("with a word for a signature", lambda draft, right: ("null",))
_headers(
    "with its signature in the other encoding",
    lambda draft, right: (_other_encoding(draft, right),),
    source=ENCODED,
)
_headers("with its signature behind `sha256=`", lambda draft, right: (f"sha256={right}",), source=ENCODED)
_headers("with its signature twice in one header", lambda draft, right: (f"{right}, {right}",))
_headers(
    "with a wrong signature before the right one in one header",
    lambda draft, right: (f"{wrong(right)},{right}",),
)
_headers("with two headers, both right", lambda draft, right: (right, right))
_headers("with two headers, the first wrong", lambda draft, right: (wrong(right), right))
_headers("with two headers, the second wrong", lambda draft, right: (right, wrong(right)))
_headers("with an HMAC of SHA-1", lambda draft, right: (draft.other_hmac("sha1", draft.message()),))
_headers("with an HMAC of SHA-512", lambda draft, right: (draft.other_hmac("sha512", draft.message()),))
_headers("with a bare hash for a signature", lambda draft, right: (draft.bare_hash(draft.message()),))


def _signing(name: str, message: Callable[[Draft], bytes]) -> None:
    """Under the signature of another message."""
    _add(name, SIGNED, lambda draft: draft.request(signed=message(draft)))


_signing("with the signature of another request", lambda draft: draft.message(nonce="other"))
_signing("with the signature of nothing", lambda draft: b"")
_signing("with the signature of its address", lambda draft: draft.url.encode())


def _under(name: str, secret: Callable[[Draft], bytes]) -> None:
    """Under another secret."""
    _add(name, SECRET, lambda draft: draft.request(secret=secret(draft)))


_under("under a wrong secret", lambda draft: draft.wrong_secret)
_under("under an empty secret", lambda draft: b"")
_under("under the secret and a line end", lambda draft: draft.secret + b"\n")
_under("under the webhook secret", webhook_secret_of)


def _changed_url(name: str, change: Callable[[str], object], methods: Sequence[str] = ALL) -> None:
    _add(name, URL, lambda draft: draft.request(draft.message(url=change(draft.url))), methods)


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


_changed_url("signed for another host", _netloc(lambda host, port: "other.invalid"))
_changed_url("signed for a longer host", _netloc(lambda host, port: f"{host}.evil.invalid{_port(port)}"))
_changed_url("signed for another scheme", _other_scheme)
_changed_url("signed for another port", _netloc(lambda host, port: f"{host}:{(port or 443) % 65535 + 1}"))
_changed_url("signed for another resource", lambda url: f"{url}x")
_changed_url("signed for a deeper path", lambda url: f"{url}/sso")
_changed_url("signed for a path with a slash at its end", lambda url: f"{url}/")
_changed_url("signed for an address with a query", lambda url: f"{url}?all=1")
_changed_url("signed for an address with a user", _netloc(lambda host, port: f"platform@{host}{_port(port)}"))
_changed_url("signed for the path alone", lambda url: urlsplit(url).path)
_changed_url("signed for an empty address", lambda _: "")
_add("signed without `url`", URL, lambda draft: draft.request(draft.message(url=...)))
_changed_url("signed with a number for `url`", lambda _: 5, BODY)


def _at(name: str, make: Callable[[int], object], methods: Sequence[str] = ALL) -> None:
    _add(name, TIME, lambda draft: draft.request(draft.message(timestamp=make(draft.timestamp))), methods)


_at("signed too early", lambda now: now - BEYOND_S)
_at("signed too late", lambda now: now + BEYOND_S)
_at("signed a day early", lambda now: now - 86_400)
_at("signed in milliseconds", lambda now: now * 1000)
_at("signed with a negative time", lambda now: -now)
_at("signed at zero", lambda _: 0)
_at("signed with a word for a time", lambda _: "now")
_at("signed with a time of 400 digits", lambda _: 10**400)
_at("signed without a time", lambda _: ...)
_at("signed with a text for a time", str, BODY)
_at("signed with a fraction for a time", lambda now: now + 0.5)
_at("signed with true for a time", lambda _: True, BODY)
_at("signed with null for a time", lambda _: None, BODY)


def _nonce(name: str, value: object, methods: Sequence[str] = ALL) -> None:
    _add(name, NONCE, lambda draft: draft.request(draft.message(nonce=value)), methods)


_nonce("signed without a nonce", ...)
_nonce("signed with an empty nonce", "")
_nonce("signed with null for a nonce", None, BODY)
_nonce("signed with a number for a nonce", 5, BODY)


def _tampered(name: str, change: Callable[[bytes], bytes], methods: Sequence[str]) -> None:
    """The signature is that of the message before `change`."""
    _add(name, RAW, lambda draft: draft.request(change(draft.message()), signed=draft.message()), methods)


def _reordered(body: bytes) -> bytes:
    fields = json.loads(body)
    return json.dumps(dict(reversed(fields.items())), separators=(",", ":")).encode()


def _renamed(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"name": "check-other"}, separators=(",", ":")).encode()


_tampered("with its name changed after signing", _renamed, BODY)
_tampered("with its role changed after signing", lambda body: body.replace(b"admin", b"member"), BODY)
_tampered("with a space after its body", lambda body: body + b" ", BODY)
_tampered("with a line end after its body", lambda body: body + b"\n", BODY)
_tampered("with a byte order mark before its body", lambda body: b"\xef\xbb\xbf" + body, BODY)
_tampered("serialised again", lambda body: json.dumps(json.loads(body), indent=1).encode(), BODY)
_tampered("with its keys reordered", _reordered, BODY)
_tampered("with its last byte missing", lambda body: body[:-1], BODY)
_tampered("with its first half only", lambda body: body[: len(body) // 2], BODY)
_tampered("with its body missing", lambda _: b"", BODY)
_tampered("with a field written twice after signing", lambda body: body[:-1] + b',"id":"x"}', BODY)


def _signed_body(name: str, make: Callable[[Draft], bytes], methods: Sequence[str] = BODY) -> None:
    _add(name, PARAMETERS, lambda draft: draft.request(make(draft)), methods)


_signed_body("signed, but empty", lambda _: b"", ALL)
_signed_body("signed, but an empty object", lambda _: b"{}")
_signed_body("signed, but an array", lambda draft: b"[" + draft.message() + b"]")
_signed_body("signed, but no JSON", lambda draft: draft.message()[:-1])
_signed_body("signed, but not UTF-8", lambda draft: draft.message()[:-1] + b',"a":"\xff"}')
_signed_body(
    "signed, with its parameters one level down", lambda draft: b'{"signed":' + draft.message() + b"}"
)


def _moved_last(query: bytes) -> bytes:
    first, _, rest = query.partition(b"&")
    return rest + b"&" + first


_tampered("with a parameter added after signing", lambda query: query + b"&all=1", QUERY)
_tampered("with its parameters reordered", _moved_last, QUERY)
_tampered("with a parameter missing", lambda query: query.rpartition(b"&")[0], QUERY)
_tampered("with its escapes written otherwise", lambda query: query.replace(b"%2F", b"%2f"), QUERY)
_tampered("with an `&` after its query", lambda query: query + b"&", QUERY)
_add("signed with its question mark", RAW, lambda draft: draft.request(signed=b"?" + draft.message()), QUERY)
_add(
    "signed as its whole address",
    RAW,
    lambda draft: draft.request(signed=draft.url.encode() + b"?" + draft.message()),
    QUERY,
)


_DEMAND = "it is answered 401, in the same words as every other refusal, and changes nothing"
_NONCE = "platform API, 2.7: a nonce is unique per request; 5.2 rule 2"
_UNAUTHORIZED = 401
refusals = Group("refusals")

Words = tuple[str, bytes]  # content type and body


async def expect_refusal(bench: Bench, request: Request) -> None:
    """Raises Unmet for any other answer than the refusal that all share."""
    answer = await bench.send(request)
    if answer.status != _UNAUTHORIZED:
        raise Unmet(f"it was answered {answer.status}, not 401")
    usual = await _usual_refusal(bench)
    if usual is not None and _words(answer) != usual:
        raise Unmet(
            "the refusal differs from the refusal of a call without a signature, so it reveals what was wrong"
        )


async def _usual_refusal(bench: Bench) -> Words | None:
    """The words of the refusal of a GET without a signature.

    None when two such refusals differ, so that words cannot be compared, or when it is not refused at all:
    another check finds that.
    """
    if bench.shared.refusals is None:
        own = Bench(bench.shared)
        draft = own.draft("GET", "/extensions/check-nothing")
        bench.shared.refusals = [await own.send(draft.request(signatures=())) for _ in range(2)]
    known = {_words(answer) for answer in bench.shared.refusals if answer.status == _UNAUTHORIZED}
    refused = all(answer.status == _UNAUTHORIZED for answer in bench.shared.refusals)
    return known.pop() if len(known) == 1 and refused else None


def _words(answer: Answer) -> Words:
    return answer.headers.get("content-type", ""), answer.body


async def _refused(bench: Bench, forgery: Forgery, method: str) -> None:
    if method == "POST":
        await _refused_post(bench, forgery)
        return
    made = await bench.target()
    before = await bench.shown(made.id)
    if before is None:
        bench.shared.target = None
        raise NotChecked("the resource for this check is gone")
    fields = {**made.order, "read_regions": []} if method == "PATCH" else None
    try:
        await expect_refusal(bench, forgery.make(bench.draft(method, path_of(made.id), fields)))
    except Unmet:
        if method != "GET":
            bench.shared.target = None
        raise
    refusal = bench.trail[-1]
    after = await bench.shown(made.id)
    if not same(before, after):
        bench.shared.target = None
        bench.trail.append(refusal)
        raise Unmet(
            f"it was answered 401, but took effect: {'the resource is gone' if after is None else 'changed'}"
        )


async def _refused_post(bench: Bench, forgery: Forgery) -> None:
    order = await bench.suspect_order()
    id = str(order["id"])
    try:
        request = forgery.make(bench.draft("POST", "/extensions", order))
    except NotChecked:
        del bench.shared.pending[id]
        raise
    await expect_refusal(bench, request)
    await bench.expect_nothing_made(order, "it was answered 401, but the resource was created anyway")
    del bench.shared.pending[id]


for _method in ("POST", "PATCH", "GET", "DELETE"):
    for _forgery in FORGERIES:
        if _method in _forgery.methods:

            @refusals(f"{_method} {_forgery.name}", _DEMAND, _forgery.source)
            async def forged(bench: Bench, forgery: Forgery = _forgery, method: str = _method) -> None:
                await _refused(bench, forgery, method)


@refusals("GET of the costs without a signature", _DEMAND, "platform API, 5.2 rule 1")
async def costs_unsigned(bench: Bench) -> None:
    await expect_refusal(bench, bench.draft("GET", bench.costs_path()).request(signatures=()))


@refusals("GET of a resource, sent to the costs", _DEMAND, "platform API, 5.2 rule 2")
async def costs_of_another(bench: Bench) -> None:
    there = bench.draft("GET", bench.costs_path())
    draft = bench.draft("GET", path_of((await bench.target()).id))
    await expect_refusal(bench, there.request(draft.message()))


@refusals("GET replayed at once", "the first is answered, the second refused", _NONCE)
async def get_replayed(bench: Bench) -> None:
    await _replayed(bench, bench.draft("GET", path_of((await bench.target()).id)).request())


@refusals("GET replayed after other calls", "the first is answered, the second refused", _NONCE)
async def get_replayed_later(bench: Bench) -> None:
    id = (await bench.target()).id
    request = bench.draft("GET", path_of(id)).request()
    await _good(bench, request)
    for _ in range(3):
        await bench.call("GET", path_of(id))
    await expect_refusal(bench, request)


@refusals("GET replayed, several at once", "one of them is answered, all others are refused", _NONCE)
async def get_replayed_at_once(bench: Bench) -> None:
    request = bench.draft("GET", path_of((await bench.target()).id)).request()
    await bench.at_once(lambda one: one.send(request))
    statuses = [sent.answer.status if sent.answer else 0 for sent in bench.trail[-AT_ONCE:]]
    taken = sum(200 <= status < 300 for status in statuses)
    if taken != 1 or statuses.count(_UNAUTHORIZED) != AT_ONCE - 1:
        raise Unmet(f"{taken} of {AT_ONCE} were answered; the statuses are {', '.join(map(str, statuses))}")


@refusals("POST replayed", "the first is answered, the second refused", _NONCE)
async def post_replayed(bench: Bench) -> None:
    await _replayed(bench, bench.draft("POST", "/extensions", await bench.suspect_order()).request())


@refusals("PATCH replayed", "the first is answered, the second refused", _NONCE)
async def patch_replayed(bench: Bench) -> None:
    made = await bench.target()
    await _replayed(bench, bench.draft("PATCH", path_of(made.id), made.order).request())


@refusals(
    "DELETE replayed",
    "the first is answered, the second is refused: 401, not 404, because the nonce is checked first",
    _NONCE,
)
async def delete_replayed(bench: Bench) -> None:
    made = await bench.make(bench.order())
    await _replayed(bench, bench.draft("DELETE", path_of(made.id)).request())


@refusals(
    "GET's query sent as DELETE after it",
    "it is refused because the nonce was used, and the resource stays: the signature does not cover the "
    "method",
    "platform API, 5.2 rules 1 and 2",
)
async def get_as_delete(bench: Bench) -> None:
    made = await bench.make(bench.order())
    request = bench.draft("GET", path_of(made.id)).request()
    await _good(bench, request)
    await expect_refusal(bench, Request("DELETE", request.url, request.signatures))
    if await bench.shown(made.id) is None:
        raise Unmet("the resource is gone")


@refusals(
    "POST's body sent as PATCH",
    "it is refused: `url` is the address of the POST, and the nonce was used",
    "platform API, 5.2 rule 2",
)
async def post_as_patch(bench: Bench) -> None:
    made = await bench.target()
    request = bench.draft("POST", "/extensions", made.order).request()
    await _good(bench, request)
    there = bench.draft("PATCH", path_of(made.id), made.order)
    await expect_refusal(bench, there.request(request.body))


@refusals("a nonce used again under a new signature", "the second request is refused", _NONCE)
async def nonce_again(bench: Bench) -> None:
    draft = bench.draft("GET", path_of((await bench.target()).id))
    await _good(bench, draft.request())
    await expect_refusal(bench, draft.request(draft.message(timestamp=draft.timestamp - 1)))


@refusals(
    "a refused request does not use up its nonce",
    "a valid request is answered, although a forgery of it was refused before",
    "platform API, 5.2: otherwise anyone who sees a request could block it",
)
async def nonce_not_used_up(bench: Bench) -> None:
    draft = bench.draft("GET", path_of((await bench.target()).id))
    await expect_refusal(bench, draft.request(signatures=(draft.sign(b"other"),)))
    await _good(bench, draft.request())


async def _good(bench: Bench, request: Request) -> None:
    succeeded(await bench.send(request), "the valid call")


async def _replayed(bench: Bench, request: Request) -> None:
    await _good(bench, request)
    body = parsed(bench.trail[-1].answer) if bench.trail[-1].answer else None
    if request.method == "POST" and isinstance(body, dict) and isinstance(body.get("id"), str):
        bench.shared.pending[body["id"]] = 1
    await expect_refusal(bench, request)
