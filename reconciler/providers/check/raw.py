"""Requests that no HTTP client sends: one header twice, a body that ends too early or never.

`services.transport` takes one value for each header and sends whole bodies only, as it should; so these
few go over a plain socket. Proxies are not used for them.
"""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPException, HTTPResponse
from socket import socket
from typing import cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream

from reconciler.core.errors import Lost, NotSent
from reconciler.providers.check.request import Request
from reconciler.services.signing import HEADER
from reconciler.services.transport import Answer

_MOST = 1024 * 1024


async def send_whole(request: Request, deadline_s: float) -> Answer:
    """Send all of `request`, each signature in a header of its own. Raises NotSent or Lost."""
    async with _connected(request.url, deadline_s) as stream:
        await stream.send(head(request, len(request.body)) + request.body)
        return await _answer(stream, request.method)


async def send_cut(request: Request, deadline_s: float) -> Answer:
    """Announce the whole body, send half of it, and say that this was all. Raises NotSent or Lost."""
    async with _connected(request.url, deadline_s) as stream:
        await stream.send(head(request, len(request.body)) + request.body[: len(request.body) // 2])
        try:
            await stream.send_eof()
        except NotImplementedError:  # TLS has no end of one direction alone
            raise Lost("the connection was closed in the middle of the body") from None
        return await _answer(stream, request.method)


async def send_half(request: Request, deadline_s: float) -> Answer:
    """Announce the whole body, send half of it, and wait. Raises NotSent or Lost."""
    async with _connected(request.url, deadline_s) as stream:
        await stream.send(head(request, len(request.body)) + request.body[: len(request.body) // 2])
        return await _answer(stream, request.method)


def head(request: Request, length: int) -> bytes:
    parts = urlsplit(request.url)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"{HEADER}: {text}" for text in request.signatures]
    if request.body:
        lines.append(f"Content-Length: {length}")
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
    """What came, as the socket that the standard library's parser reads from."""

    def makefile(self, *_: object) -> io.BytesIO:
        return self
