"""A whole apply in one process and in simulated time: the sandbox's core behind a Transport."""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from reconciler.approvals.creates import Everything
from reconciler.core.errors import Lost
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.execution.executor import Executor
from reconciler.execution.limits import Limits
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request
from reconciler.secrets.sources import Sources
from reconciler.services.client import Client
from reconciler.services.platform import platform_client
from reconciler.services.transport import Answer
from reconciler.state.store import Event
from tests.state.doubles import Failing, NoRoom, made, spooling

START = datetime(2026, 1, 1, tzinfo=UTC)
SETTLE_S = 60.0
TOKEN = "sandbox"
BASE_URL = "http://127.0.0.1:9"


class Time:
    """Only sleeping moves it. `at` sets what happens meanwhile."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s

    def at(self, elapsed_s: float, what: Callable[[], object]) -> None:
        self._due.append((elapsed_s, what))

    async def sleep(self, seconds: float) -> None:
        until = self.elapsed_s + seconds
        for moment, what in [due for due in self._due if due[0] <= until]:
            self._due.remove((moment, what))
            self.elapsed_s = moment
            what()
        self.elapsed_s = until
        await checkpoint()


class Line:
    """The sandbox's core as a Transport.

    A cut connection is Lost. Answers to a method in `hangs` never come. No mutation is carried
    out before `together` of them are under way.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.sent: list[tuple[str, str]] = []
        self.hangs: set[str] = set()
        self.together = 1
        self._gathered = anyio.Event()
        self.reached = anyio.Event()
        self.under_way = 0
        self.most_under_way = 0

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        parts = urlsplit(url)
        self.sent.append((method, parts.path))
        if method != "GET":
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if method != "GET":
                if self.under_way >= self.together:
                    self._gathered.set()
                await self._gathered.wait()
            answer = self._sandbox.handle(Request(method, parts.path, parts.query, headers, body or b""))
            if method in self.hangs:
                self.reached.set()
                await anyio.sleep_forever()
        finally:
            if method != "GET":
                self.under_way -= 1
        if answer.cut:
            raise Lost("the connection failed before the answer was complete")
        return Answer(answer.status, answer.headers, answer.body)

    async def aclose(self) -> None:
        return None

    @property
    def mutations(self) -> list[str]:
        return [method for method, _ in self.sent if method != "GET"]


class Notes(Reporter):
    """Keeps what people are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, message: str) -> None:
        self.told.append(message)


class Permitted(Collection[str]):
    """Approvals of these addresses by somebody who does not know which of them a plan is about."""

    def __init__(self, addresses: Collection[object]) -> None:
        self._addresses = frozenset(map(str, addresses))

    def __contains__(self, address: object) -> bool:
        return address in self._addresses

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass
class Stage:
    """One app `shop` on one platform, one project, one state."""

    root: Path
    time: Time = field(default_factory=Time)

    def __post_init__(self) -> None:
        self.sandbox = Sandbox(
            clock="real",
            profile="extended",
            apps=[{"name": "shop"}],
            wall=START.timestamp,
            monotonic=self.time.monotonic,
            rng=random.Random(1),
        )
        self.line = Line(self.sandbox)
        self.store = spooling(made(self.time), self.time, self.root)
        self.limits = Limits(8, 30.0, SETTLE_S, True, 64)
        self.capabilities: frozenset[str] = frozenset()
        self.reporter = Reporter()
        self.lock_timeout_s = 0.0
        self.platform: Client | None = None  # another one than `line` at a loopback address
        self.env = {"PASSWORD": "value"}
        self._ids = count(1)

    async def close(self) -> None:
        await self.store.close()
        self.sandbox.close()

    def project(self) -> Project:
        near = platform_client(self.line, BASE_URL, lambda: TOKEN, self.time, jitter=lambda: 1.0)
        return Project(
            store=self.store,
            platform=self.platform or near,
            capabilities=self.capabilities,
            limits=self.limits,
            clock=self.time,
            reporter=self.reporter,
            sources=Sources(self.root, self.env),
            new_id=lambda: f"id{next(self._ids)}",
            holder="the test",
            lock_timeout_s=self.lock_timeout_s,
        )

    async def apply(
        self,
        manifests: str,
        on_executor: Callable[[Executor], None] = lambda executor: None,
        approved_deletes: Collection[str] = (),
        selected: Callable[[StateRecord], bool] = lambda record: True,
        approve: Callable[[Plan], bool] = lambda plan: True,
    ) -> Applied:
        return await apply(
            self.project(),
            Desired(loaded(self, manifests), selected=selected),
            approve=approve,
            approved_deletes=approved_deletes,
            approved_creates=Everything(),
            on_executor=on_executor,
        )

    def fault(self, **fault: Any) -> None:
        self.call("POST", "/_sandbox/faults", fault)

    def call(self, method: str, path: str, body: Any) -> Any:
        import json

        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = self.sandbox.handle(Request(method, path, "", headers, json.dumps(body).encode()))
        assert answer.status < 300, answer.body
        return answer.json()

    def switch(self, **switches: Any) -> None:
        self.call("POST", "/_sandbox/switches", switches)

    def make_volume(self, name: str = "data", size_gb: int = 10) -> str:
        body = {"name": name, "region": "ams", "size_gb": size_gb}
        found: str = self.call("POST", "/v1/apps/shop/volumes", body)["id"]
        return found

    def hold(self) -> None:
        """Attach the only volume to a machine that runs."""
        (held,) = self.volumes()
        self.call("POST", "/_sandbox/machines", {"app": "shop", "volumes": [held["id"]]})

    def unused_space(self) -> list[str]:
        """Volumes whose added space the only machine does not use."""
        (machine,) = self.call("GET", "/_sandbox/world", {})["machines"]
        found: list[str] = machine["pending_restart"]
        return found

    def volumes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", "/_sandbox/world", {})["volumes"]
        return found

    async def record(self, address: str = "Volume/shop/data") -> StateRecord:
        return (await self.store.load()).records[Address.parse(address)]

    async def open_steps(self) -> list[str]:
        return [entry.step for entry in (await self.store.load()).open_intents]

    def fail_at(self, event: Event, *, spools: bool = True) -> None:
        """From now on the disk is full at commits of `event`. `spools`: outcomes can be spooled."""
        failing = Failing(self.store.inner, event)
        if spools:
            self.store = spooling(failing, self.time, self.root)
        else:
            self.store = NoRoom(failing, self.root / "outcomes.spool", self.time)

    def mend(self) -> None:
        assert isinstance(self.store.inner, Failing)
        self.store = spooling(self.store.inner.inner, self.time, self.root)

    def limit(self, **limits: Any) -> None:
        self.limits = replace(self.limits, **limits)


def loaded(stage: Stage, manifests: str) -> Sequence[Resource]:
    found = load(["-"] if manifests else [], root=stage.root, stdin=manifests.encode)
    assert found.diagnostics == ()
    return found.resources


def of_shop(record: StateRecord) -> bool:
    """As if the other app's manifests stood elsewhere."""
    return record.address.app == "shop"


async def left_open(stage: Stage, manifests: str, method: str) -> None:
    """Apply, and kill it while it waits for the answer to a `method`, which never comes."""
    stage.fail_at(Event.UNKNOWN)  # a killed process writes nothing any more
    stage.line.hangs.add(method)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(stage.apply, manifests, selected=of_shop))
        await stage.line.reached.wait()
        group.cancel_scope.cancel()
    stage.mend()
    stage.line.hangs.clear()
    stage.line.reached = anyio.Event()


async def plan(stage: Stage, manifests: str) -> Plan:
    return await make_plan(stage.project(), Desired(loaded(stage, manifests)))


def outcomes(applied: Applied) -> dict[str, str]:
    return {result.step: result.outcome for result in applied.results}


def volume(name: str = "data", spec: str = "region: ams, size_gb: 10", rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: {name}, app: shop}}\n"
        f"spec: {{{spec}}}\n{rest}"
    )


def cluster(rest: str = "", name: str = "orders") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {{name: {name}}}\n"
        f"spec: {{org_slug: personal, plan: starter, region: ams}}\n{rest}"
    )


def secret(name: str = "PASSWORD", source: str = "{env: PASSWORD}", rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: {name}, app: shop}}\n"
        f"spec: {{value_from: {source}}}\n{rest}"
    )
