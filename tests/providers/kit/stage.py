"""The kit without a network: functions that count, a clock that a test moves, requests as ASGI sees them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.lowlevel import checkpoint
from starlette.applications import Starlette

from reconciler.providers.kit import (
    Cost,
    Kit,
    ProviderSettings,
    Provisioned,
    Report,
    Resource,
    Visitor,
    create_app,
)
from reconciler.services import signing
from reconciler.services.transport import Transport
from tests.providers.serve import Platform, Reply, order

START = datetime(2026, 1, 1, tzinfo=UTC)
PUBLIC_URL = "https://databases.example.com"
SECRET = "the platform's secret"


class StageClock:
    """Stands still until `advance`; who sleeps is woken in order."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._sleepers: list[tuple[float, anyio.Event]] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        woken = anyio.Event()
        self._sleepers.append((self.elapsed_s + seconds, woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        end = self.elapsed_s + seconds
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end]:
            first = min(due, key=lambda item: item[0])
            self._sleepers.remove(first)
            self.elapsed_s = max(self.elapsed_s, first[0])
            first[1].set()
            await settle()
        self.elapsed_s = end


async def settle() -> None:
    """Let every task go on until it waits for something that is not there yet."""
    for _ in range(50):
        await checkpoint()


@dataclass
class Counting:
    """Five functions over a dictionary. `gate`: provision waits there before it makes anything."""

    made: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    provisioned: Provisioned = field(default_factory=lambda: Provisioned({}))
    report: Report = field(default_factory=lambda: Report("ready"))
    fails: Exception | None = None
    gate: anyio.Event | None = None
    visitors: list[Visitor | None] = field(default_factory=list)

    async def provision(self, resource: Resource) -> Provisioned:
        self.calls.append(("provision", resource.order.id))
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        self.made.setdefault(resource.order.id, resource.secret("password"))
        return replace(self.provisioned, config={"PASSWORD": self.made[resource.order.id]})

    async def update(self, resource: Resource) -> None:
        self.calls.append(("update", ",".join(resource.order.read_regions or [])))

    async def get(self, resource: Resource, visitor: Visitor | None) -> Report:
        self.visitors.append(visitor)
        return self.report

    async def deprovision(self, resource: Resource) -> None:
        self.calls.append(("deprovision", resource.order.id))
        if self.fails is not None:
            raise self.fails
        self.made.pop(resource.order.id, None)

    async def costs(self, resources: Sequence[Resource]) -> Sequence[Cost]:
        return [Cost(resource.id, "1.50") for resource in resources]


@dataclass
class Stage:
    """One worker of a provider, and the platform that calls it."""

    app: Starlette
    kit: Kit
    clock: StageClock
    platform: Platform
    nonce: int = 0

    def sign(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> signing.Signed:
        self.nonce += 1
        nonce = f"{id(self)}-{self.nonce}"
        return self.platform.sign(
            method, path, body, timestamp=int(self.clock.now().timestamp()), nonce=nonce
        )

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        return await self.send(self.sign(method, path, body))

    async def provision(self, id: str, **changes: Any) -> Reply:
        return await self.call("POST", "/extensions", order(id, **changes))

    async def send(self, request: signing.Signed, **headers: str) -> Reply:
        given = [(signing.HEADER, signature) for signature in request.signatures]
        given += [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await self.raw(request.method, request.url, given, request.body)

    async def raw(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        receive: Callable[[], Awaitable[Any]] | None = None,
    ) -> Reply:
        """One request. `url`: only its path and query are used, as by a server."""
        path, _, query = url.removeprefix(PUBLIC_URL).partition("?")
        sent: list[Any] = []

        async def whole() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": urlsplit(path).path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "client": ("192.0.2.1", 1),
            "server": ("10.0.0.1", 80),
        }
        await self.app(scope, receive or whole, send)
        start, *rest = sent
        found: dict[str, str] = {}
        for name, value in start["headers"]:
            text = value.decode()
            found[name.decode()] = f"{found[name.decode()]}\n{text}" if name.decode() in found else text
        return Reply(start["status"], b"".join(part.get("body", b"") for part in rest), found)


@asynccontextmanager
async def staged(
    store: Path,
    functions: Counting,
    clock: StageClock | None = None,
    *,
    transport: Transport | None = None,
    on_event: Any = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A worker for the block; a second one on the same store is another worker."""
    clock = clock or StageClock()
    given = ProviderSettings(
        **{
            "public_url": PUBLIC_URL,
            "store": store,
            "signing_secrets": [SECRET.encode()],
            "rate": 0.0,
            **settings,
        }
    )

    def open_transport(_: str) -> Transport:
        assert transport is not None
        return transport

    app = create_app(
        given, functions, on_event=on_event, clock=clock, random=Random(1), open_transport=open_transport
    )
    kit: Kit = app.state.kit
    async with kit.running():
        yield Stage(app, kit, clock, Platform(PUBLIC_URL, secret=SECRET))


def error_of(reply: Reply) -> str:
    """The text of a refusal."""
    found: str = json.loads(reply.body)["error"]
    return found
