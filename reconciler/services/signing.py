"""Signatures between the platform and extension providers. They prove sender, receiver and time, once each.

The sender signs the raw body (POST, PATCH) or the raw query string (GET, DELETE) with HMAC-SHA256 and a
shared secret, and puts the result into `X-Signature`. The signed text contains `url`, `timestamp` and
`nonce`. A webhook's body is signed in the same way with another secret; it contains only a `timestamp`.

Source: platform API, 5.2 and 6.1; platform notes, "Extension providers".
"""

import base64
import binascii
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlsplit

HEADER = "X-Signature"
TOLERANCE_S = 300
KEEP_S = 2 * TOLERANCE_S  # a nonce or a webhook must be remembered longer than this
MAX_SIGNED = 1024 * 1024  # bytes of body or query
MAX_NONCE = 255

Encoding = Literal["hex", "base64"]
Claim = Callable[[str], bool]  # remembers a text for KEEP_S or longer; False: it was already remembered

_SIGNED_PARAMETERS = ("timestamp", "nonce", "url")
_IN_BODY = frozenset({"POST", "PATCH"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


class NotAuthentic(Exception):
    """A request that does not prove that the holder of the secret has sent it.

    `why` is for logs and tests. The sender does not see it: all refusals look the same.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed request. `url` has its raw query. `signatures`: all values of the header."""

    method: str
    url: str
    signatures: Sequence[str]
    body: bytes = field(default=b"", repr=False)


def signature(secret: bytes, message: bytes, encoding: Encoding = "hex") -> str:
    """The value of the header for `message`."""
    digest = hmac.digest(secret, message, "sha256")
    return digest.hex() if encoding == "hex" else base64.b64encode(digest).decode("ascii")


def sign(
    method: str,
    url: str,
    fields: Mapping[str, Any] | None,
    secret: bytes,
    *,
    timestamp: int,
    nonce: str,
    encoding: Encoding = "hex",
) -> Signed:
    """The request with its signing parameters. `fields`: the JSON object to send; None for GET and DELETE."""
    if method in _IN_BODY:
        signed = {**(fields or {}), "url": url, "nonce": nonce, "timestamp": timestamp}
        body = json.dumps(signed, separators=(",", ":"), allow_nan=False).encode()
        return Signed(method, url, (signature(secret, body, encoding),), body)
    given = urlsplit(url).query
    own = f"timestamp={timestamp}&nonce={quote(nonce, safe='')}&url={quote(url, safe='')}"
    query = f"{given}&{own}" if given else own
    address = f"{url.removesuffix('?' + given) if given else url}?{query}"
    return Signed(method, address, (signature(secret, query.encode(), encoding),))


def verify(
    request: Signed, secrets: Sequence[bytes], *, now: float, claim: Claim, encoding: Encoding = "hex"
) -> Mapping[str, Any]:
    """The signed fields: the body's JSON object, or the query's parameters. Raises NotAuthentic.

    `secrets`: the current one, and during a rotation the previous one. `now`: UNIX time in seconds. `claim`
    is called last, so that only the holder of the secret can fill its store or use up a nonce.
    """
    if not request.url.isascii():
        raise NotAuthentic("the address is not ASCII")
    query = _raw_query(request.url)
    message = request.body if request.method in _IN_BODY else query.encode()
    check_signature(request.signatures, message, secrets, encoding)
    if request.method in _IN_BODY:
        fields, expected_url = _json_object(message), request.url
    else:
        fields, expected_url = _parameters(query), _without_parameters(request.url)
    if not _same_url(fields.get("url"), expected_url):
        raise NotAuthentic("signed for another address")
    _check_time(fields.get("timestamp"), now, text=request.method not in _IN_BODY)
    nonce = fields.get("nonce")
    if not isinstance(nonce, str) or not 0 < len(nonce) <= MAX_NONCE:
        raise NotAuthentic("no usable nonce")
    if not claim(sha256(nonce.encode("utf-8", "surrogatepass")).hexdigest()):
        raise NotAuthentic("the nonce was used before")
    return fields


def verify_webhook(
    signatures: Sequence[str],
    body: bytes,
    secrets: Sequence[bytes],
    *,
    now: float,
    claim: Claim,
    encoding: Encoding = "hex",
) -> Mapping[str, Any] | None:
    """The webhook's JSON object; None if exactly this body came before. Raises NotAuthentic."""
    check_signature(signatures, body, secrets, encoding)
    fields = _json_object(body)
    timestamp = fields.get("timestamp")
    _check_time(timestamp, now, text=isinstance(timestamp, str))
    return fields if claim(sha256(body).hexdigest()) else None


def verify_event(
    signatures: Sequence[str], body: bytes, secrets: Sequence[bytes], *, encoding: Encoding = "hex"
) -> Mapping[str, Any]:
    """The JSON object of a machine event, whose body has neither time nor nonce. Raises NotAuthentic.

    Its headers (id, type, time) are not signed: they are only hints.
    """
    check_signature(signatures, body, secrets, encoding)
    return _json_object(body)


def check_signature(
    signatures: Sequence[str], message: bytes, secrets: Sequence[bytes], encoding: Encoding
) -> None:
    """Raises NotAuthentic unless exactly one signature was sent, and it fits one of the secrets."""
    if len(message) > MAX_SIGNED:
        raise NotAuthentic(f"more than {MAX_SIGNED} bytes")
    if len(signatures) != 1:
        raise NotAuthentic(f"{len(signatures)} signatures")
    given = _digest_of(signatures[0], encoding)
    # All secrets are tried, even after one fits, so that the time shows nothing. An empty secret is skipped:
    # somebody forgot the setting, and everybody could sign with it.
    fitting = [
        hmac.compare_digest(hmac.digest(secret, message, "sha256"), given) for secret in secrets if secret
    ]
    if not any(fitting):
        raise NotAuthentic("the signature does not match")


def _digest_of(text: str, encoding: Encoding) -> bytes:
    """The bytes of a digest: hex in upper or lower case, or canonical base64. Raises NotAuthentic."""
    try:
        if encoding == "base64":
            digest = base64.b64decode(text, validate=True)
            if base64.b64encode(digest).decode("ascii") != text:
                digest = b""  # the last letter has two spare bits, which the decoder ignores
        else:
            digest = bytes.fromhex(text) if re.fullmatch(r"[0-9A-Fa-f]{64}", text) else b""
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != sha256().digest_size:
        raise NotAuthentic(f"the signature is not a digest in {encoding}")
    return digest


def _json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises NotAuthentic for anything else."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError):
        raise NotAuthentic("the body is not JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise NotAuthentic("the body is not a JSON object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names are all different."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name is given twice")  # parsers differ in which of them they take
    return made


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _parameters(query: str) -> dict[str, Any]:
    """The parameters of a query. Raises NotAuthentic for a signing parameter that is given twice."""
    fields: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in fields and name in _SIGNED_PARAMETERS:
            raise NotAuthentic(f"`{name}` is given twice")
        fields[name] = value
    return fields


def _raw_query(url: str) -> str:
    return url.partition("?")[2]


def _without_parameters(url: str) -> str:
    """`url` without the signing parameters of its query; the other parameters stay unchanged."""
    address, _, query = url.partition("?")
    others = [part for part in query.split("&") if part.partition("=")[0] not in _SIGNED_PARAMETERS]
    return f"{address}?{'&'.join(others)}" if query and others else address


def _same_url(signed: Any, received: str) -> bool:
    """Whether both URLs are the same: scheme, host and port normalized, path and query byte by byte."""
    if not isinstance(signed, str):
        return False
    try:
        return _parts(signed) == _parts(received)
    except ValueError:
        return False


def _parts(url: str) -> tuple[str, str, int | None, str, str]:
    """Scheme, host, port, path and query. Raises ValueError for a text that is not a request's URL."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("not a URL")  # urlsplit would drop line ends
    parts = urlsplit(url)
    if "@" in parts.netloc or "#" in url:
        raise ValueError("not the address of a request")
    port = parts.port if parts.port is not None else _DEFAULT_PORTS.get(parts.scheme)
    address, _, query = url.partition("?")
    path = address.partition("://")[2].partition("/")
    return parts.scheme, (parts.hostname or ""), port, path[1] + path[2], query


def _check_time(value: Any, now: float, *, text: bool) -> None:
    """Raises NotAuthentic unless `value` is an integer near `now`, or (`text`) its decimal digits."""
    if text:
        value = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotAuthentic("no usable timestamp")
    if not now - TOLERANCE_S <= value <= now + TOLERANCE_S:  # a difference might not fit into a float
        raise NotAuthentic("the timestamp is too far away")
