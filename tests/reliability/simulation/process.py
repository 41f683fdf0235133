"""One process of ours: it can die at any seam, and then nothing of it runs any more."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from reconciler.core.context import Attribution
from reconciler.core.diagnostics import refuse_all
from reconciler.core.model import Action, Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan, Step
from reconciler.execution.executor import Executor
from reconciler.execution.limits import Limits
from reconciler.planning.declared import Desired
from reconciler.project.project import Project
from reconciler.rehearsal.twin import TICK_S, Timeline
from reconciler.secrets.sources import Sources
from reconciler.services.platform import platform_client
from reconciler.services.transport import Answer
from reconciler.state.places.sqlite.files import spool_path
from reconciler.state.store import Lease
from tests.reliability.simulation.bucket import Shared
from tests.reliability.simulation.faults import Channel
from tests.reliability.simulation.ghost import CANARY, Ghost, Opened
from tests.reliability.simulation.network import Network
from tests.reliability.simulation.objects import SimulatedObjects
from tests.reliability.simulation.postgres import SimulatedPostgres
from tests.reliability.simulation.runner import RunnerStore
from tests.reliability.simulation.scenario import Fault, Moment, Pause, Run
from tests.reliability.simulation.server import Server
from tests.reliability.simulation.store import SimulatedSpooling, SimulatedStore
from tests.reliability.simulation.threads import Died

BASE_URL = "http://127.0.0.1:9"


def secret_value(number: int) -> str:
    return f"{CANARY}/{number}+x"


class Process:
    """What one run consists of: its own store, client, clock and project, and what may befall it."""

    def __init__(
        self,
        name: str,
        run: Run,
        *,
        ghost: Ghost,
        network: Network,
        timeline: Timeline,
        rng: Random,
        root: Path,
        shared: Shared | Server | None,
        secret: int,
        capabilities: Sequence[str],
        desired: Desired,
    ) -> None:
        self.name = name
        self.run = run
        self.alive = True
        self.ghost = ghost
        self.desired = desired
        self.task: asyncio.Task[Any] | None = None
        self.rob: Callable[[Sequence[str]], asyncio.Task[None]] | None = None
        self.robbery: asyncio.Task[None] | None = None
        self.executor: Executor | None = None
        self.approved = False
        self.approved_deletes: frozenset[str] = frozenset()
        self.approved_ids: set[tuple[Address, str]] = set()
        self.plan = ""
        self.refused: list[str] = []
        self.refuses_all = False
        self.planned_s: float | None = None
        self._intended: dict[asyncio.Task[Any] | None, Opened] = {}
        self.began_s = timeline.time()
        self.leased_s: float | None = None
        self.listed_s: dict[str, float] = {}  # by path, of when the last list was that it read
        self.looked_s: dict[str, float] = {}  # when it last read each volume itself
        self.power_at_first: Mapping[str, str | None] = {}
        self.power_shown: Mapping[str, str | None] = {}
        self.power_leased: Mapping[str, str | None] = {}
        self.lease_lost = False
        self.deceived = False
        self._timeline = timeline
        self._spell_began_s: float | None = None
        self._passed: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._commits = 0
        self._checked: dict[asyncio.Task[Any] | None, float] = {}
        self.doubtful: set[Address] = set()  # what it said is not done, or not known
        self.stopped_until_s = self.hangs_until_s = 0.0
        self._unreachable_until_s = 0.0
        self.rate = 1 + run.drift
        self.store_clock = _StoreClock(self)
        path = root / "state.db"
        self.store = SimulatedSpooling(self, _store(self, shared, path, rng), spool_path(path))
        self.project = Project(
            store=self.store,
            platform=platform_client(
                _Line(self, network), BASE_URL, lambda: "sandbox", _Clock(self), jitter=rng.random
            ),
            capabilities=frozenset(capabilities),
            limits=Limits(8, 30.0, 180.0, True, 64),
            clock=_Clock(self),
            reporter=_Told(self.doubtful),
            sources=Sources(root, {"PASSWORD": secret_value(secret)}),
            new_id=lambda: f"{rng.getrandbits(64):016x}",
            holder=name,
            by=Attribution(name),
            lock_timeout_s=run.lock_timeout_s,
        )

    # --- what befalls it ---

    def pass_by(self, seam: str) -> None:
        """Where it may die, be stopped, or lose its lease. Raises Died once it is dead."""
        if self.alive:
            self._befall(seam)
        if not self.alive:
            raise Died

    def pass_by_outside(self, seam: str) -> None:
        """The same, at a moment that is the platform's and not this process's own."""
        if self.alive:
            self._befall(seam)
            if not self.alive and self.task is not None:
                self.task.cancel()

    def _befall(self, seam: str) -> None:
        nth = self._passed[seam]
        self._passed[seam] += 1
        if _is_now(self.run.robbed, seam, nth):
            self._lose_leases()
        if self.run.spell is not None and _is_now(self.run.spell.begins, seam, nth):
            self.ghost.note(self.name, "spell of", self.run.spell.fault.kind)
            self._spell_began_s = self._timeline.time()
        if self.run.pause is not None and _is_now(self.run.pause.begins, seam, nth):
            self._stand_still(self.run.pause)
        if self.run.store_spell is not None and _is_now(self.run.store_spell.begins, seam, nth):
            self.ghost.tally.note("store", "cut off")
            self.ghost.note(self.name, "is cut off from the store")
            self._unreachable_until_s = self._timeline.time() + self.run.store_spell.lasts_s
        if _is_now(self.run.signal, seam, nth) and self.executor is not None:
            self.ghost.tally.note("signal")
            self.ghost.note(self.name, "signal")
            self.executor.stop()
        if _is_now(self.run.crash, seam, nth):
            self.ghost.tally.note("crash", seam)
            self.ghost.note(self.name, "dies at", seam)
            self.alive = False

    def _stand_still(self, pause: Pause) -> None:
        self.ghost.tally.note("pause", pause.how)
        self.ghost.note(self.name, pause.how, "for", pause.lasts_s)
        self.hangs_until_s = self._timeline.time() + pause.lasts_s
        if pause.how == "stopped":
            self.stopped_until_s = self.hangs_until_s

    async def wake(self) -> None:
        """Where it is stopped, or its loop hangs, its tasks go on once that is over."""
        while (left_s := self.hangs_until_s - self._timeline.time()) > 0:
            await asyncio.sleep(max(left_s, TICK_S))
            if not self.alive:
                raise Died

    async def wake_thread(self) -> None:
        """Where it is stopped, so are its threads."""
        while (left_s := self.stopped_until_s - self._timeline.time()) > 0:
            await asyncio.sleep(max(left_s, TICK_S))

    def _lose_leases(self) -> None:
        held = [scope for scope, (_, holder) in self.ghost.leases.items() if holder is self]
        if held and self.rob is not None:
            self.robbery = self.rob(held)

    def fault(self, channel: Channel) -> Fault | None:
        """The fault that hits its next request of `channel`, if one does."""
        nth = self._requests[channel]
        self._requests[channel] += 1
        faults = self.run.read_faults if channel == "read" else self.run.mutation_faults
        fault = self._fault_of_spell() or faults.get(nth)
        if fault is None or (fault.kind == "empty_list" and self.ghost.open_intents()):
            return (
                None  # while evidence is needed, an empty list would be a lie that no one could see through
            )
        self.deceived = self.deceived or fault.kind in ("empty_list", "stale_list")
        self.ghost.tally.note("fault", channel, fault.kind)
        self.ghost.note(self.name, "fault", channel, fault.kind)
        return fault

    def _fault_of_spell(self) -> Fault | None:
        spell, began_s = self.run.spell, self._spell_began_s
        if spell is None or began_s is None or self._timeline.time() > began_s + spell.lasts_s:
            return None
        self.ghost.tally.note("spell", spell.fault.kind)
        return spell.fault

    def commit_fault(self) -> str | None:
        nth = self._commits
        self._commits += 1
        place = self.run.commit_faults.get(nth)
        if place is not None:
            self.ghost.tally.note("commit fault", place)
            self.ghost.note(self.name, "commit fault", place)
        return place

    def store_fault(self, what: str) -> str:
        """What befalls its next read from, write to, or connection to a shared store; "" for nothing."""
        nth = self._requests[f"store {what}"]
        self._requests[f"store {what}"] += 1
        fault = (self.run.store_writes if what == "write" else self.run.store_reads).get(nth, "")
        if self._timeline.time() < self._unreachable_until_s:
            fault = "unreachable"
        if fault:
            self.ghost.tally.note("store", what, fault)
            self.ghost.note(self.name, "store", what, fault)
        return fault

    def checked(self, task: asyncio.Task[Any] | None, began_s: float) -> None:
        """`task` has checked its lease, from `began_s` on, and may send what it intends."""
        self._checked[task] = began_s

    def checked_s(self) -> float | None:
        return self._checked.pop(asyncio.current_task(), None)

    def leased(self, lease: Lease) -> None:
        if any(lease.scopes):  # under that of the whole state, nothing is looked at
            self.leased_s = self._timeline.time()
            self.power_leased = self.ghost.power()
        self.ghost.note(self.name, "leases", *lease.scopes)

    def intend(self, task: asyncio.Task[Any] | None, opened: Opened) -> None:
        """`task` has made this intent durable, and may send it."""
        self._intended[task] = opened

    def intended(self) -> Opened | None:
        """What the running task intended last, and has not sent yet."""
        return self._intended.pop(asyncio.current_task(), None)

    # --- what its person does ---

    def follow(self, executor: Executor) -> None:
        self.executor = executor

    def show(self, plan: Plan) -> bool:
        """The plan is shown to a person, who says yes to exactly what stands in it."""
        self.plan = plan.id if plan.steps else ""
        self.planned_s = self._timeline.time()
        self.power_shown = self.ghost.power()
        self.refused = [str(change.address) for change in plan.changes if change.action is Action.REFUSED]
        self.refuses_all = refuse_all(plan.diagnostics)
        self.approved = self.run.approves
        self.approved_ids = {
            (change.address, change.id or "")
            for change in plan.changes
            if change.action is Action.DELETE and str(change.address) in self.approved_deletes
        }
        return self.approved


def _store(
    process: Process, shared: Shared | Server | None, path: Path, rng: Random
) -> SimulatedStore | RunnerStore:
    match shared:
        case Shared():
            return RunnerStore(process, SimulatedObjects(process, shared, rng), shared.rng)
        case Server():
            return RunnerStore(process, SimulatedPostgres(process, shared, rng), shared.rng)
        case None:
            return SimulatedStore(process, path, rng)


def _is_now(moment: Moment | None, seam: str, nth: int) -> bool:
    return moment is not None and moment.seam == seam and moment.nth == nth


class _Told(Reporter):
    """What a person who looks on is told of steps that are not done, or of which that is not known."""

    def __init__(self, doubtful: set[Address]) -> None:
        self._doubtful = doubtful

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        if outcome != "done":
            self._doubtful.add(step.address)


class _Clock:
    """That of its machine, which may show another time than others, and go a little faster or slower."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._timeline = process.ghost.timeline

    def now(self) -> datetime:
        return self._timeline.now() + timedelta(seconds=self._process.run.skew_s)

    def monotonic(self) -> float:
        return self._process.rate * self._timeline.time()

    async def sleep(self, seconds: float) -> None:
        self._process.pass_by("sleep")
        await self._let_pass(seconds)
        self._process.pass_by("woken")
        await self._process.wake()

    async def _let_pass(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds / self._process.rate, TICK_S))


class _StoreClock(_Clock):
    """Where the store waits for a lease, its process may die like everywhere else."""

    async def sleep(self, seconds: float) -> None:
        self._process.pass_by("waiting for a lease")
        await self._let_pass(seconds)
        await self._process.wake()


class _Line:
    """The process's transport."""

    def __init__(self, process: Process, network: Network) -> None:
        self._process = process
        self._network = network

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        return await self._network.request(self._process, method, url, headers, body, deadline_s)

    async def aclose(self) -> None:
        """Nothing is open."""
