"""How the provider's server treats connections and who it believes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from reconciler.core import listening
from reconciler.providers.kit import server


async def _who(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    await PlainTextResponse(request.client.host if request.client else "")(scope, receive, send)


@asynccontextmanager
async def _connected(
    proxies: Sequence[str] = (),
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config = Config(
        _who,
        http=server._Connection,
        lifespan="off",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    config.load()
    state = ServerState()
    listening = await asyncio.get_running_loop().create_server(
        lambda: server._Connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
    try:
        yield reader, writer
    finally:
        writer.close()
        listening.close()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost:"])
async def test_a_connection_without_a_head_is_ended(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEAD_S", 0.05)
    async with _connected() as (reader, writer):
        writer.write(first)
        with anyio.fail_after(5):
            assert await reader.read() == b""


async def test_half_a_head_after_an_answer_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEAD_S", 0.05)
    async with _connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with anyio.fail_after(5):
            await reader.readuntil(b"127.0.0.1")
            writer.write(b"GET / HTTP/1.1\r\n")
            assert await reader.read() == b""


@pytest.mark.parametrize(("proxies", "seen"), [((), b"127.0.0.1"), (("127.0.0.0/8",), b"203.0.113.9")])
async def test_forwarded_addresses_are_believed_from_named_proxies_only(
    proxies: tuple[str, ...], seen: bytes
) -> None:
    async with _connected(proxies) as (reader, writer):
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n"
        )
        with anyio.fail_after(5):
            assert (await reader.read()).endswith(b"\r\n\r\n" + seen)
