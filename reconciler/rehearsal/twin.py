"""The twin: an emulated platform that begins as the live one is, with a state of its own, on its own time."""

import asyncio
import random
from collections.abc import Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from reconciler.core.context import Attribution
from reconciler.core.errors import StoreError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import ManifestSet, Plan
from reconciler.execution.limits import Limits
from reconciler.planning.declared import Desired
from reconciler.project.project import Project
from reconciler.rehearsal.assumptions import Noting
from reconciler.rehearsal.line import TwinLine
from reconciler.rehearsal.placeholders import Placeholders
from reconciler.rehearsal.process import Process, TwinStore
from reconciler.rehearsal.seed import Seed, cannot_plant
from reconciler.rehearsal.timeline import TICK_S, Timeline
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.world import App
from reconciler.services.platform import platform_client
from reconciler.state.places.memory import MemoryStore, holding_state
from reconciler.state.store import State

T = TypeVar("T")

_URL = "https://twin.invalid"  # no request of a twin goes out
_TOKEN = "sandbox"  # noqa: S105 - the sandbox's default; it protects nothing
KEY = bytes(32)  # of fingerprints, which are all of placeholders


class Original(Struct, frozen=True):
    """What a rehearsal begins with: the plan, and all that it was made from. It can be sent to a process.

    `records`: with the fingerprints of placeholders where a secret is unchanged. `selected`: which of them
    the given manifests are about.
    """

    plan: Plan
    begin: datetime
    seed: Seed
    lineage: str
    records: Mapping[Address, StateRecord]
    resources: Sequence[Resource]
    policies: Sequence[Resource]
    focus: Collection[Address] | None
    targets: tuple[Address, ...]
    selected: frozenset[Address]
    declared: frozenset[Address]
    capabilities: frozenset[str]
    limits: Limits
    rate_limit: float | None
    switches: Mapping[str, Any]

    def desired(self) -> Desired:
        return Desired(
            self.resources,
            selected=lambda record: record.address in self.selected,
            policies=self.policies,
            focus=self.focus,
            targets=self.targets,
            declared=lambda record: record.address in self.declared,
            manifests=ManifestSet(),
        )


class Twin:
    """One world and one state, for one process after another."""

    def __init__(self, original: Original) -> None:
        """Raises ReconcilerError where the sandbox cannot hold what was seen."""
        self.original = original
        self.timeline = Timeline(original.begin)
        self._rng = random.Random("twin")  # noqa: S311 - ids and latencies
        try:
            self.sandbox = Sandbox(
                clock="real",
                profile="extended",
                seed=original.seed,
                seed_name="the world",
                switch=original.switches,
                stored=False,
                wall=original.begin.timestamp,
                monotonic=self.timeline.time,
                rng=self._rng,
            )
        except StoreError as failure:
            self.timeline.close()
            raise cannot_plant(failure) from None
        for app in self.sandbox.world.all(App):
            app.created_at = 0.0  # none of them is new
        self.switches = self.sandbox.world.switches = Noting(self.sandbox.world.switches)
        serials: dict[str, int] = {}
        for record in original.records.values():
            serials[record.scope] = max(record.serial, serials.get(record.scope, 0))
        state = State(original.lineage, original.records, (), frozenset(), serials=serials)
        self.memory = holding_state(state, KEY, _Clock(self.timeline))
        self.memory.randomness = self._rng.randbytes

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry `work` out on the twin's time."""
        asyncio.set_event_loop(self.timeline)
        try:
            return self.timeline.run_until_complete(work)
        finally:
            asyncio.set_event_loop(None)

    @property
    def records(self) -> Mapping[Address, StateRecord]:
        """What the state holds now."""
        return MemoryStore(self.memory).state.records

    def free(self) -> None:
        """Give back what a process that is gone has held, as an operating system does."""
        self.memory.held.clear()

    def close(self) -> None:
        self.timeline.close()

    def project(self, process: Process) -> Project:
        """What a verb of `process` needs."""
        clock, original = _Clock(self.timeline), self.original
        return Project(
            store=TwinStore(MemoryStore(self.memory), process),
            platform=platform_client(
                TwinLine(self.sandbox, process),
                _URL,
                lambda: _TOKEN,
                clock,
                rate_limit=original.rate_limit,
                jitter=self._rng.random,
            ),
            capabilities=original.capabilities,
            limits=original.limits,
            clock=clock,
            reporter=Reporter(),
            sources=Placeholders(),
            new_id=lambda: f"{self._rng.getrandbits(64):016x}",
            holder="the rehearsal",
            by=Attribution("the rehearsal"),
            environment=original.plan.context.environment,
            address=original.plan.context.platform or "",
            state_url=original.plan.context.state,
        )


class _Clock:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> datetime:
        return self._timeline.now()

    def monotonic(self) -> float:
        return self._timeline.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, TICK_S))
