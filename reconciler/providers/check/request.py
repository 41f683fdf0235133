"""Requests as the platform would send them, and as somebody else would.

Some are sent over a plain socket: `services.transport` takes one value for each header and sends whole bodies
only, as it should. Proxies are not used for them.
"""

import hashlib
import hmac
import io
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from socket import socket
from typing import Any, cast
from urllib.parse import quote, urlsplit

import anyio
from anyio.abc import ByteStream

from reconciler.core.errors import Lost, NotSent
from reconciler.services.signing import HEADER, Encoding, signature
from reconciler.services.transport import Answer

_MOST = 1024 * 1024  # bytes of an answer


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

    def signed_fields(self, **changes: Any) -> dict[str, Any]:
        """What is signed, `...` leaving a field out."""
        own = {"url": self.url, "nonce": self.nonce, "timestamp": self.timestamp}
        fields = {**self.fields, **own, **changes} if self.has_body else {**own, **changes}
        return {name: value for name, value in fields.items() if value is not ...}

    def message(self, **changes: Any) -> bytes:
        """The body, or the query."""
        fields = self.signed_fields(**changes)
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
    async with _connected(request.url, deadline_s) as stream:
        await stream.send(_head(request) + request.body)
        return await _answer(stream, request.method)


async def send_cut(request: Request, deadline_s: float) -> Answer:
    """Announce the whole body, send half of it, and say that this was all. Raises NotSent or Lost."""
    async with _connected(request.url, deadline_s) as stream:
        await stream.send(_head(request) + request.body[: len(request.body) // 2])
        try:
            await stream.send_eof()
        except NotImplementedError:  # TLS has no end of one direction alone
            raise Lost("the connection was closed in the middle of the body") from None
        return await _answer(stream, request.method)


async def send_half(request: Request, deadline_s: float) -> Answer:
    """Announce the whole body, send half of it, and wait. Raises NotSent or Lost."""
    async with _connected(request.url, deadline_s) as stream:
        await stream.send(_head(request) + request.body[: len(request.body) // 2])
        return await _answer(stream, request.method)


def _head(request: Request) -> bytes:
    """The request line and the headers; the length is that of the whole body."""
    parts = urlsplit(request.url)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"{HEADER}: {text}" for text in request.signatures]
    if request.body:
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@asynccontextmanager
async def _connected(url: str, deadline_s: float) -> AsyncIterator[ByteStream]:
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    sending = False
    try:
        with anyio.fail_after(deadline_s):
            host, port = parts.hostname or "", parts.port or (443 if tls else 80)
            stream: ByteStream
            if tls:
                stream = await anyio.connect_tcp(host, port, tls=True, tls_standard_compatible=False)
            else:
                stream = await anyio.connect_tcp(host, port)
            async with stream:
                sending = True
                yield stream
    except TimeoutError:
        raise (Lost if sending else NotSent)(f"no complete answer within {deadline_s:g} s") from None
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as failure:
        if not sending:
            raise NotSent(f"cannot connect ({type(failure).__name__})") from None
        raise Lost(f"the connection was closed ({type(failure).__name__})") from None


async def _answer(stream: ByteStream, method: str) -> Answer:
    received = b""
    try:
        while len(received) < _MOST:
            received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        if not received:
            raise Lost("the connection was closed without an answer") from None
    response = HTTPResponse(cast(socket, _Received(received)), method=method)
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ValueError):
        raise Lost("the answer is not complete") from None
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


class _Received(io.BytesIO):
    """Received bytes, as the socket that the standard library's parser reads from."""

    def makefile(self, *_: object) -> io.BytesIO:
        return self
