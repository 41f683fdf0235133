"""Histories under a budget: `python -m tests.reliability.budgets [--histories N] [--seed S] [--state URL]`.

Runners apply parts of three apps: by target, by saved plan, two at once, with lost answers, refusals and
deaths before and after a call. The platform's side is watched: in no window may more than the budget have
taken effect, or have been sent and perhaps done so, as far as anybody knew.

The state is in memory; with `--state sqlite:`, `postgresql:` or `s3:` in a file or on a server of its own.
"""

import argparse
import json
import random
import sys
import tempfile
from asyncio import current_task
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio
from anyio.lowlevel import checkpoint

from reconciler.approvals.creates import Everything
from reconciler.approvals.rules import Authority, Said
from reconciler.core.context import Attribution
from reconciler.core.errors import Lost, ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.execution.decisions import MADE, remember
from reconciler.execution.limits import Limits
from reconciler.guardrails.limit import Limit
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.rehearsal.process import Killed
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request
from reconciler.secrets.sources import Sources
from reconciler.services.platform import platform_client
from reconciler.services.transport import Answer
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, Lease, State, Store
from tests.execution.stage import BASE_URL, START, TOKEN, Time
from tests.reliability.shared import File, Prefix, server
from tests.state.doubles import known_as

APPS = ("app0", "app1", "app2")
WINDOWS = {"5m": 300, "1h": 3600, "24h": 24 * 3600}
FAULTS = ("lost_before", "lost_after", "error_after", "refused", "dies_before", "dies_after")


@dataclass
class Effect:
    """What one call did, or perhaps did. `call`: run and step that sent it. `lost`: it had no effect."""

    at: datetime
    uses: Mapping[str, int]
    call: tuple[str, str]
    lost: bool = False


@dataclass
class Process:
    """One run of the program. `unlucky`: how likely a call meets a fault."""

    rng: random.Random
    unlucky: float
    alive: bool = True
    has_sent: bool = False
    bury: Callable[[], None] = lambda: None
    intended: dict[Any, tuple[str, str]] = field(default_factory=dict)

    def require_alive(self) -> None:
        if not self.alive:
            raise Killed

    def die(self) -> None:
        self.alive = False
        self.bury()  # others need not wait until its leases end
        raise Killed

    async def dawdle(self) -> None:
        """Let others go first."""
        for _ in range(self.rng.randrange(4)):
            await checkpoint()
        self.require_alive()


class Handle(Spooling):
    """The process's handle on the state: others may come between any two of its calls."""

    def __init__(self, inner: Store, process: Process) -> None:
        Store.__init__(self, inner)
        self._process = process

    async def load(self, scopes: Any = None) -> State:
        await self._process.dawdle()
        return await self.inner.load(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        await self._process.dawdle()
        return await self.inner.journal(since=since)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        await self._process.dawdle()
        return await self.inner.lease(scopes, holder, timeout_s=timeout_s)

    async def release(self, lease: Lease) -> None:
        self._process.require_alive()
        await self.inner.release(lease)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        await self._process.dawdle()
        stored = await self.inner.commit(lease, entries, put, remove)
        for entry in entries:
            if entry.event is Event.INTENT:
                self._process.intended[current_task()] = (entry.run, entry.step)
        await self._process.dawdle()
        return stored

    async def spooled(self) -> list[Any]:
        return []


class Line:
    """The process's way to the platform, which may fail."""

    def __init__(self, world: "World", process: Process) -> None:
        self._world, self._process = world, process

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        parts, process = urlsplit(url), self._process
        request = Request(method, parts.path, parts.query, headers, body or b"")
        await process.dawdle()
        if method == "GET":
            if process.has_sent and process.rng.random() < self._world.slow:
                await self._world.time.sleep(process.rng.random() * self._world.window.total_seconds() / 2)
            return self._answered(request)
        process.has_sent = True
        call = process.intended.pop(current_task(), ("", ""))
        fault = process.rng.choice(FAULTS) if process.rng.random() < process.unlucky else ""
        self._world.tally[fault or "sent"] += 1
        await self._world.time.sleep(process.rng.random() * 5)
        if fault == "refused":
            return Answer(422, {"content-type": "application/json"}, b'{"error":"no"}')
        if fault == "dies_before":
            process.die()
        if fault == "lost_before":
            self._world.watch(request, call, sent_only=True)
            raise Lost("the connection failed before the answer was complete")
        answer = self._world.watch(request, call)
        await process.dawdle()
        if fault == "dies_after":
            process.die()
        if fault == "lost_after":
            raise Lost("the connection failed before the answer was complete")
        if fault == "error_after":
            return Answer(502, {"content-type": "application/json"}, b'{"error":"bad gateway"}')
        return answer

    def _answered(self, request: Request) -> Answer:
        answer = self._world.sandbox.handle(request)
        return Answer(answer.status, answer.headers, answer.body)

    async def aclose(self) -> None:
        return None


class Place(Protocol):
    """Where the state is, as `tests.reliability.shared.Place`."""

    def open(self) -> Store: ...

    def lease_over(self) -> None: ...


@dataclass
class Memory:
    state: MemoryState

    def open(self) -> Store:
        return MemoryStore(self.state)

    def lease_over(self) -> None:
        return None


class World:
    """A platform with three apps, a state, and manifests that change."""

    def __init__(self, seed: int, root: Path, place: Place | None = None) -> None:
        self.rng, self.root, self.time = random.Random(seed), root, Time()
        self.sandbox = Sandbox(
            clock="real",
            profile="extended",
            apps=[{"name": app} for app in APPS],
            wall=START.timestamp,
            monotonic=self.time.monotonic,
            rng=random.Random(seed),
        )
        self._place = place or Memory(known_as("lineage-1", bytes(32), self.time))
        self.effects: list[Effect] = []
        self.settled: dict[tuple[str, str], list[datetime]] = defaultdict(list)  # as without effect
        self.tally: Counter[str] = Counter()
        self.wanted: dict[tuple[str, str], int] = {}
        self.saved: list[tuple[Desired, Plan]] = []
        self._ids = iter(range(10**9))
        self.slow = self.rng.choice((0.0, 0.5))
        window = self.rng.choice([*WINDOWS])
        self.window = timedelta(seconds=WINDOWS[window])
        lines = {"deletes": 2, "gb_deleted": 40, "creates": 4, "gb_added": 60, "calls": 9}
        chosen = self.rng.sample([*lines], self.rng.randrange(1, 4))
        self.most = {line: self.rng.randrange(lines[line] // 2, lines[line] + 1) for line in chosen}
        self.budget = Limit("Budget", "some", json.dumps({"window": window, "most": self.most}))

    # --- what the platform sees ---

    def watch(self, request: Request, call: tuple[str, str], *, sent_only: bool = False) -> Answer:
        """Carry the request out, and note what that did."""
        before = self._sizes()
        if not sent_only:
            answer = self.sandbox.handle(request)
        after = self._sizes()
        grown = sum(max(0, size - before.get(id, 0)) for id, size in after.items())
        uses = {
            "creates": len(after.keys() - before.keys()),
            "deletes": len(before.keys() - after.keys()),
            "gb_deleted": sum(before[id] for id in before.keys() - after.keys()),
            "gb_added": grown,
            "calls": 1 if sent_only or answer.status < 400 else 0,
        }
        self.effects.append(Effect(self.time.now(), uses, call, lost=sent_only))
        return Answer(answer.status, answer.headers, answer.body) if not sent_only else Answer(0, {}, b"")

    def _sizes(self) -> dict[str, int]:
        request = Request("GET", "/_sandbox/world", "", {"authorization": f"Bearer {TOKEN}"}, b"")
        found = self.sandbox.handle(request).json()["volumes"]
        return {each["id"]: each["size_gb"] for each in found if each.get("destroyed_at") is None}

    def violations(self) -> Iterator[str]:
        """Each line of the budget that some window goes over."""
        for line, most in self.most.items():
            for last in self.effects:
                calls, total = set[tuple[str, str]](), 0
                for effect in self.effects:
                    if last.at - self.window < effect.at <= last.at and not self._is_void(effect, last.at):
                        again = line == "calls" and effect.call in calls
                        total += 0 if again else effect.uses[line]
                        calls |= {effect.call} if effect.uses[line] else set()
                if total > most:
                    yield f"{line}: {total} of {most} within {self.window} before {last.at:%d %H:%M:%S}"
                    break

    def _is_void(self, effect: Effect, at: datetime) -> bool:
        """Whether it was known at that time that a lost call had had no effect."""
        return effect.lost and any(effect.at <= settled <= at for settled in self.settled[effect.call])

    # --- what people do ---

    def project(self, process: Process) -> tuple[Project, Store]:
        store = self._place.open()
        client = platform_client(Line(self, process), BASE_URL, lambda: TOKEN, self.time, jitter=lambda: 1.0)
        number = next(self._ids)
        return Project(
            store=Handle(store, process),
            platform=client,
            capabilities=frozenset(),
            limits=Limits(8, 30.0, 60.0, True, 64),
            clock=self.time,
            reporter=Reporter(),
            sources=Sources(self.root, {}),
            new_id=lambda: f"id{next(self._ids)}",
            holder=f"runner {number}",
            by=Attribution(actor=f"runner-{number}"),
            authority=Authority(Said((self.budget,))),
        ), store

    async def begin(self) -> None:
        """A state that is older than the window."""
        project, store = self.project(Process(self.rng, 0))
        if not (await store.load()).lineage:
            await store.create()
        long_ago = (self.time.now() - timedelta(days=40)).isoformat()
        await remember(project.store, project.actor(), MADE, lambda known: {"at": long_ago})
        await store.close()

    def desired(self, own: Sequence[str]) -> Desired:
        """The manifests of some apps; perhaps only one of their volumes is meant."""
        apps = own or self.rng.sample(APPS, self.rng.randrange(1, 3))
        for app in apps:
            for name in self.rng.sample(("a", "b", "c"), self.rng.choice((1, 1, 1, 2))):
                size = self.wanted.pop((app, name), 0)
                if not size or self.rng.random() < 0.5:
                    self.wanted[app, name] = size + self.rng.choice((5, 10, 20))
        text = "".join(
            f"---\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: {name}, app: {app}}}\n"
            f"spec: {{region: ams, size_gb: {size}, require_unique_zone: false}}\n"
            f"lifecycle: {{deletion: delete, snapshot_before: [{'extend, delete' if self.slow else ''}]}}\n"
            for (app, name), size in self.wanted.items()
            if app in apps
        )
        found = load(["-"] if text else [], root=self.root, stdin=text.encode)
        assert not found.diagnostics, found.diagnostics
        desired = Desired(found.resources, selected=lambda record: record.address.app in apps)
        if found.resources and self.rng.random() < 0.2:
            desired = desired.with_targets([self.rng.choice(found.resources).address])
        return desired

    async def run(self, unlucky: float, *own: str) -> None:
        """One apply, or a plan that is kept for later. `own`: the app that it is about."""
        place = self._place
        # What an object store's driver starts survives no fork, as `lease_over` makes one.
        bury = place._end_leases if isinstance(place, Prefix) else place.lease_over
        process = Process(self.rng, unlucky, bury=bury)
        project, store = self.project(process)
        before = dict(self.wanted)
        try:
            if self.saved and not own and self.rng.random() < 0.3:
                desired, plan = self.saved.pop(self.rng.randrange(len(self.saved)))
                await run_saved(project, desired, plan, Anything(), Everything())
            else:
                desired = self.desired(own)
                if self.rng.random() < 0.15:
                    self.saved.append((desired, await make_plan(project, desired)))
                    return
                await apply(
                    project,
                    desired,
                    approve=lambda plan: True,
                    approved_deletes=Anything(),
                    approved_creates=Everything(),
                )
            self.tally["applied"] += 1
        except ReconcilerError as failure:
            codes = {each.code for each in getattr(failure, "diagnostics", ()) if each.severity == "error"}
            self.wanted = before
            self.tally[" ".join(sorted(codes)) or type(failure).__name__] += 1
        except Killed:
            self.tally["killed"] += 1
        except BaseExceptionGroup as several:
            if several.split(Killed)[1] is not None:
                raise
            self.tally["killed"] += 1
        finally:
            with anyio.CancelScope(shield=True):
                await store.close()

    async def play(self, runs: int) -> None:
        await self.begin()
        unlucky = self.rng.choice((0.0, 0.1, 0.3))
        for _ in range(runs):
            async with anyio.create_task_group() as group:
                if self.rng.random() < 0.25:
                    for app in APPS:
                        group.start_soon(self.run, unlucky, app)
                for _ in range(self.rng.choice((0, 1, 1, 2))):
                    group.start_soon(self.run, unlucky)
            await self.time.sleep(self.rng.random() * 0.4 * self.window.total_seconds())
        store = self._place.open()
        for _, entry in await store.journal():
            if entry.event is Event.SETTLED and entry.data.get("landed") is False:
                self.settled[entry.run, entry.step].append(entry.at)
        await store.close()


class Anything(frozenset[str]):
    """Approvals of whatever is to be deleted, which name nothing that must match."""

    def __contains__(self, address: object) -> bool:
        return True


def play(seed: int, root: Path, runs: int = 15, place: Place | None = None) -> World:
    world = World(seed, root, place)
    try:
        anyio.run(world.play, runs)
    finally:
        world.sandbox.close()
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", default="")
    chosen = parser.parse_args()
    tally, bad = Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        shared = server(chosen.state, stack) if chosen.state not in ("", "sqlite:") else None
        for seed in range(chosen.seed, chosen.seed + chosen.histories):
            place: Place | None = File(Path(folder) / f"{seed}" / "state.db") if chosen.state else None
            world = play(seed, Path(folder), place=shared.new() if shared is not None else place)
            tally += world.tally
            for violation in world.violations():
                bad += 1
                sys.stdout.write(f"seed {seed}: {violation}\n")
    said = ", ".join(f"{count} {what}" for what, count in tally.most_common())
    sys.stdout.write(f"{chosen.histories} histories, {bad} over their budget\n{said}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
