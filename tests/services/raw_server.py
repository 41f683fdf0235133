"""A loopback server that answers with exactly the bytes it is given, whole or broken."""

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener, TLSStream

from reconciler.services.transport import Answer, HttpTransport

PATIENCE_S = 120  # for what only a bug makes that long: a third of it is for the connection
Behaviour = Callable[[ByteStream], Awaitable[None]]


@dataclass
class RawServer:
    """`requests`: the heads received; `connections`: how many were accepted."""

    url: str
    requests: list[str] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def serving(
    *behaviours: Behaviour, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Serve while the block runs. The n-th request meets the n-th behaviour, later ones the last."""
    plain = await anyio.create_tcp_listener(local_host=host)
    port = plain.extra(SocketAttribute.local_port)
    name = "localhost" if tls else f"[{host}]" if ":" in host else host
    server = RawServer(f"{'https' if tls else 'http'}://{name}:{port}")
    listener = TLSListener(plain, tls, standard_compatible=False) if tls else plain

    async def handle(stream: ByteStream) -> None:
        server.connections += 1
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            async with stream:
                while True:
                    head = await stream.receive()
                    server.requests.append(head.decode("latin-1"))
                    await behaviours[min(len(server.requests), len(behaviours)) - 1](stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield server
        tasks.cancel_scope.cancel()


@dataclass
class Asking:
    """A transport with one connection to `server`; called, it sends one request."""

    server: RawServer
    transport: HttpTransport

    async def __call__(
        self,
        method: str = "GET",
        body: bytes | None = None,
        deadline_s: float = PATIENCE_S,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        return await self.transport.request(
            method, f"{self.server.url}/v1", headers=headers, body=body, deadline_s=deadline_s
        )


@asynccontextmanager
async def asking(
    *behaviours: Behaviour, connections: int = 1, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Asking]:
    """As `serving`, with a transport that is closed afterwards."""
    async with serving(*behaviours, host=host, tls=tls) as server:
        asking = Asking(server, HttpTransport(server.url, connections=connections))
        yield asking
        await asking.transport.aclose()


def answer(body: bytes = b"{}", status: str = "200 OK", **headers: str) -> Behaviour:
    """A well-formed answer; `content_type="x"` gives the header `content-type`."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines, "", ""])
    return sends(head.encode() + body)


def sends(raw: bytes) -> Behaviour:
    return lambda stream: stream.send(raw)


def then_closes(first: Behaviour) -> Behaviour:
    async def behave(stream: ByteStream) -> None:
        await first(stream)
        await stream.aclose()

    return behave


def tunnels(tls: ssl.SSLContext, *behaviours: Behaviour) -> Behaviour:
    """What a proxy does after CONNECT, and then the service: the n-th request meets the n-th behaviour."""

    async def behave(stream: ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n")
        inner = await TLSStream.wrap(stream, server_side=True, ssl_context=tls, standard_compatible=False)
        for behaviour in behaviours:
            await inner.receive()
            await behaviour(inner)
        await inner.receive()

    return behave


async def closes(stream: ByteStream) -> None:
    await stream.aclose()


async def resets(stream: ByteStream) -> None:
    """Closing with a linger time of 0 sends RST instead of FIN."""
    raw = stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def stalls(stream: ByteStream) -> None:
    await anyio.sleep_forever()


async def drips(stream: ByteStream) -> None:
    """Sends bytes one by one without end, so that no single read ever waits long."""
    await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
    while True:
        await stream.send(b" ")
