"""The twin: a sandbox that begins as the live platform is, with a state of its own, on simulated time.

The event loop of simulated time (`Timeline`) never waits: it jumps to its next timer when nothing is ready.
"""

import asyncio
import itertools
import random
import selectors
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import Context
from datetime import UTC, datetime, timedelta
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
from reconciler.rehearsal.placeholders import Placeholders
from reconciler.rehearsal.process import Process, TwinStore, TwinTransport
from reconciler.rehearsal.results import Assumption
from reconciler.rehearsal.seed import Seed, cannot_plant
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.world import App
from reconciler.services.platform import platform_client
from reconciler.services.rate import RateLimit
from reconciler.services.transport import Transport
from reconciler.state.places.memory import MemoryStore, holding_state
from reconciler.state.spooling import Spooling
from reconciler.state.store import State

MOST_TURNS = 100_000  # of the loop without any time passing; some dozens are usual
TICK_S = 1e-6  # the shortest sleep: less could be lost in the rounding of a float
START = datetime(2026, 1, 1, tzinfo=UTC)


class Standstill(Exception):
    """Every task waits for another one and no timer is set; or the tasks run on without time passing."""


class _NoFiles(selectors.BaseSelector):
    """A selector without files: waiting only advances the time."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._turns = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turns = self._turns + 1 if timeout == 0 else 0
        if timeout is None or self._turns > MOST_TURNS:
            raise Standstill
        self.elapsed_s += timeout
        return []


class Timeline(asyncio.SelectorEventLoop):
    """An event loop in simulated time, and its `Clock`. `time()` starts at 0, which is `begin`."""

    def __init__(self, begin: datetime = START) -> None:
        self._begin = begin
        self._waiting = _NoFiles()
        super().__init__(self._waiting)
        self._clock_resolution = TICK_S / 10  # the usual 1 ns is lost in the rounding after 194 days
        self._numbers = itertools.count()
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._waiting.elapsed_s

    def now(self) -> datetime:
        return self._begin + timedelta(seconds=self.time())

    monotonic = time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, TICK_S))

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        return _NumberedTask(coroutine, next(self._numbers), loop=loop, context=context)


class _NumberedTask(asyncio.Task[Any]):
    """A task with its number as hash: anyio cancels a set of tasks, in an order that must be repeatable."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


T = TypeVar("T")

_URL = "https://twin.invalid"  # no request of a twin goes out
_TOKEN = "sandbox"  # noqa: S105 - the sandbox's default; it protects nothing
KEY = bytes(32)  # of fingerprints, which are all of placeholders


class Original(Struct, frozen=True):
    """The plan of a rehearsal, and everything that it was made from. Worker processes get it pickled.

    `records`: with the fingerprints of placeholders where a secret is unchanged. `selected`: the records that
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
        """The manifests, as a plan takes them."""
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
        self.switches = self.sandbox.world.switches = NotedSwitches(self.sandbox.world.switches)
        serials: dict[str, int] = {}
        for record in original.records.values():
            serials[record.scope] = max(record.serial, serials.get(record.scope, 0))
        state = State(original.lineage, original.records, (), frozenset(), serials=serials)
        self.memory = holding_state(state, KEY, self.timeline)
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
        """The present records of the state."""
        return MemoryStore(self.memory).state.records

    def free(self) -> None:
        """Release the locks of a process that is gone, as an operating system does."""
        self.memory.held.clear()

    def close(self) -> None:
        """Close the event loop."""
        self.timeline.close()

    def project(
        self,
        process: Process,
        *,
        store: Spooling | None = None,
        transport: Transport | None = None,
        jitter: Callable[[], float] | None = None,
    ) -> Project:
        """The project of a verb of `process`.

        `store`, `transport`: other handles on the state and the sandbox. `jitter`: of retries, from 0 to 1.
        """
        clock, original = self.timeline, self.original
        platform = platform_client(
            transport or TwinTransport(self.sandbox, process),
            _URL,
            lambda: _TOKEN,
            clock,
            rate=RateLimit(original.rate_limit, clock),
            jitter=jitter or self._rng.random,
        )
        return Project(
            store=store or TwinStore(MemoryStore(self.memory), process),
            platform=platform,
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


# --- assumptions: behaviour that the API document leaves open, and that the twin plays one way ---

# The switches whose setting an end may depend on. How a null or an error text looks changes nothing for a
# client that takes all forms.
ASSUMED: Mapping[str, str] = {
    "attached_none": "an unattached volume is reported as unattached",
    "cluster_name_collision": "two clusters of an organization may have one name",
    "cluster_outcome": "a new cluster becomes ready",
    "detach_lag_s": "a volume is free as soon as its machine is destroyed",
    "extend_needs_restart": "an extend needs a restart of the machine that holds the volume, and of no other",
    "pitr_window_days": "any time of the last seven days can be restored",
    "placement": "there is room for new volumes where they are to be",
    "rate_limit": "no call is refused because of those before it",
    "read_lag_s": "reads show a change immediately",
    "restart_repeated": "a restart of a machine that is starting is accepted",
    "secret_digest": "an equal secret value has an equal digest",
    "snapshot_fields": "listed snapshots say what state they are in",
    "snapshot_outcome": "a snapshot that was asked for is made",
    "snapshot_reply": "the answer to a snapshot names it",
    "start_repeated": "a start of a machine that runs is accepted",
    "suspend_repeated": "a suspend of a machine that is suspended is accepted",
    "suspending_s": "a machine is suspended within ten seconds",
    "zones_per_region": "a region has five zones",
}


class NotedSwitches(dict[str, Any]):
    """The switches of the sandbox. It notes which of them an answer depended on."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)


def assumptions(asked: Collection[str], known: Collection[str] = ()) -> tuple[Assumption, ...]:
    """The assumptions behind the switches that were `asked` for, without those whose setting is `known`."""
    named = set(asked) - set(known)
    return tuple(Assumption(name, says) for name, says in ASSUMED.items() if name in named)
