"""Requests as the platform would send them and as somebody else would, and exchanges as people may read them.

Some are written to a connection byte by byte: `services.transport` takes one value for each header and sends
whole bodies only, as it should. Proxies are not used for them. What is shown of requests and answers has no
secrets, signatures and configuration.
"""

import hashlib
import hmac
import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct
from pydantic_core import from_json

from reconciler.services.http1 import Http1Transport
from reconciler.services.signing import HEADER, Encoding, signature
from reconciler.services.transport import Answer

_MOST_BYTES = 1024 * 1024  # of an answer


@dataclass(frozen=True, slots=True)
class Request:
    """`signatures`: the values of the header, none, one or more. `url` holds the query."""

    method: str
    url: str
    signatures: tuple[str, ...]
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """A good request before it is signed: `message` and `request` make it, or something close to it.

    `fields`: of the body, for POST and PATCH. `wrong_secret`: one that the provider does not know.
    """

    method: str
    url: str
    fields: Mapping[str, Any]
    timestamp: int
    nonce: str
    encoding: Encoding
    secret: bytes = field(repr=False)
    wrong_secret: bytes = field(repr=False)
    webhook_secret: bytes | None = field(default=None, repr=False)

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")

    def message(self, **changes: Any) -> bytes:
        """The body, or the query. In `changes`, `...` leaves a field out."""
        own = {"url": self.url, "nonce": self.nonce, "timestamp": self.timestamp}
        fields = {**self.fields, **own, **changes} if self.has_body else {**own, **changes}
        fields = {name: value for name, value in fields.items() if value is not ...}
        if self.has_body:
            return json.dumps(fields, separators=(",", ":")).encode()
        return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in fields.items()).encode()

    def sign(self, message: bytes, secret: bytes | None = None) -> str:
        """The signature of `message`, under the right secret unless another one is given."""
        return signature(self.secret if secret is None else secret, message, self.encoding)

    def digest(self, make: Callable[[bytes], bytes], message: bytes) -> str:
        """Another digest of `message`, written as the signature would be."""
        made = make(message)
        return made.hex() if self.encoding == "hex" else b64encode(made).decode("ascii")

    def other_hmac(self, name: str, message: bytes) -> str:
        """An HMAC of `message` with another hash."""
        return self.digest(lambda text: hmac.digest(self.secret, text, name), message)

    def bare_hash(self, message: bytes) -> str:
        """SHA-256 of the secret and `message`, which is not an HMAC."""
        return self.digest(lambda text: hashlib.sha256(self.secret + text).digest(), message)

    def request(
        self,
        message: bytes | None = None,
        *,
        signed: bytes | None = None,
        signatures: tuple[str, ...] | None = None,
        secret: bytes | None = None,
    ) -> Request:
        """`message` under the signature of `signed` (of itself, unless given), or under `signatures`."""
        sent = self.message() if message is None else message
        if signatures is None:
            signatures = (self.sign(sent if signed is None else signed, secret),)
        if self.has_body:
            headers = {"content-type": "application/json"}
            return Request(self.method, self.url, signatures, sent, headers)
        return Request(self.method, f"{self.url}?{sent.decode('latin-1')}", signatures)


async def send_whole(request: Request, deadline_s: float) -> Answer:
    """Send all of `request`, each signature in a header of its own. Raises NotSent or Lost."""
    return await _sent(request, request.body, deadline_s)


async def send_cut(request: Request, deadline_s: float) -> Answer:
    """Announce the whole body, send half of it, and say that this was all. Raises NotSent or Lost."""
    return await _sent(request, request.body[: len(request.body) // 2], deadline_s, ends=True)


async def send_half(request: Request, deadline_s: float) -> Answer:
    """Announce the whole body, send half of it, and wait. Raises NotSent or Lost."""
    return await _sent(request, request.body[: len(request.body) // 2], deadline_s)


async def _sent(request: Request, body: bytes, deadline_s: float, *, ends: bool = False) -> Answer:
    parts = urlsplit(request.url)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"{HEADER}: {text}" for text in request.signatures]
    if request.body:
        lines.append(f"Content-Length: {len(request.body)}")
    written = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
    async with aclosing(Http1Transport(parts, None, connections=1, max_body=_MOST_BYTES)) as transport:
        response = await transport.send(written, deadline_s, ends=ends)
        raw = b"".join([piece async for piece in response.aiter_raw()])
    return Answer(response.status_code, dict(response.headers), raw)


MASK = "(sensitive)"
_MOST_SHOWN = 400  # characters of a body
_SECRET_NAMES = re.compile(r"secret|password|passwd|token|credential|api_?key|cookie", re.IGNORECASE)


class Exchange(Struct, frozen=True):
    """One request and its answer. `problem`: why there is no answer."""

    request: Request
    answer: Answer | None
    problem: str = ""


def sent(exchange: Exchange, values: Collection[str]) -> str:
    """The request as lines of text, without `values`, which are the known secrets."""
    request = exchange.request
    lines = [f"{request.method} {request.url}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name.lower().startswith("ce-")]
    lines += [f"{HEADER}: (masked, {len(text)} characters)" for text in request.signatures]
    if not request.signatures:
        lines.append(f"no {HEADER}")
    if request.body:
        lines.append(_cut(request.body.decode("utf-8", "backslashreplace")))
    return without("\n".join(lines), (*values, *request.signatures))


def came(exchange: Exchange, values: Collection[str]) -> str:
    """The answer as lines of text, without `values`; or why there is none."""
    answer = exchange.answer
    if answer is None:
        return exchange.problem
    values = (*values, *exchange.request.signatures)
    kind = answer.headers.get("content-type", "without a content type")
    lines = [f"{answer.status} {kind}"]
    if "location" in answer.headers:
        lines.append(f"location: {without_values(answer.headers['location'])}")
    if answer.body:
        lines.append(_body(answer, values))
    return without("\n".join(lines), values)


def parsed(answer: Answer) -> Any:
    """The body as JSON, read as `apply` reads it; None when it is none."""
    try:
        return from_json(answer.body)
    except ValueError:
        return None


def masked(value: Any, values: Collection[str], *, inside: bool = False) -> Any:
    """`value` without what may be secret: all of `config`, whatever is called so, and `values`."""
    if isinstance(value, dict):
        return {
            name: masked(item, values, inside=inside or name == "config" or bool(_SECRET_NAMES.search(name)))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [masked(item, values, inside=inside) for item in value]
    if not isinstance(value, str):
        return value
    return MASK if inside else without(value, values)


def values_of(answer: Answer) -> set[str]:
    """The values of `config` that are long enough to be distinct from other text."""
    body = parsed(answer)
    config = body.get("config") if isinstance(body, dict) else None
    values = config.values() if isinstance(config, dict) else ()
    return {value for value in values if isinstance(value, str) and len(value) > 5}


def _body(answer: Answer, values: Collection[str]) -> str:
    """The body, masked before it is cut and before JSON escapes line breaks: no part of a value is left."""
    value = parsed(answer)
    if value is not None:
        return _cut(json.dumps(masked(value, values), ensure_ascii=False))
    if answer.status < 400:
        return f"({len(answer.body)} bytes that are not JSON; not shown, because they may contain a secret)"
    return _cut(without(answer.body.decode("utf-8", "backslashreplace"), values))


def without_values(url: str) -> str:
    """The address without the values of its query: `code` and `state` open a session."""
    address, mark, query = url.partition("?")
    names = [pair.partition("=")[0] for pair in query.split("&") if pair]
    return f"{address}{mark}{'&'.join(f'{name}=…' for name in names)}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"


def without(text: str, values: Collection[str]) -> str:
    """`text` with a mask in place of each of `values`."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) > 5:
            text = text.replace(value, MASK)
    return text
