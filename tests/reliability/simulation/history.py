"""One history: a scenario is carried out, the faults end, and what is left must come to rest."""

import asyncio
import copy
import json
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from anyio import to_thread

from reconciler.approvals.creates import Everything
from reconciler.cli.apply import exit_code
from reconciler.core.clock import SystemClock
from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.errors import Diagnosed, Locked, ReconcilerError
from reconciler.core.model import Action, Address, Deletion, StateRecord
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.execution.decisions import Actor
from reconciler.moves.compare import only_left
from reconciler.planning.declared import Desired
from reconciler.planning.saved import dump_plan, load_saved
from reconciler.project.apply import apply, run_saved
from reconciler.project.identity import create_state
from reconciler.project.plan import make_plan
from reconciler.project.records import claim, forget
from reconciler.project.resolve import resolve_unknown, settle_restarts
from reconciler.project.run import Applied
from reconciler.rehearsal.twin import START, Timeline
from reconciler.sandbox.core import Sandbox
from reconciler.state import backend_of, spooling
from reconciler.state.log import open_state
from reconciler.state.log import store as log_store
from reconciler.state.places.sqlite.database import connect, use_wal
from reconciler.state.places.sqlite.store import SqliteStore
from tests.execution.stage import Permitted
from tests.reliability.proof import SHELF
from tests.reliability.simulation import invariants, objects, people, postgres, wishes
from tests.reliability.simulation.bucket import Shared
from tests.reliability.simulation.database import database, serving
from tests.reliability.simulation.faults import STALE_S
from tests.reliability.simulation.ghost import CANARY, Endless, Ghost, Violation
from tests.reliability.simulation.network import Network
from tests.reliability.simulation.power import AT_REST, wanted_power
from tests.reliability.simulation.process import Process
from tests.reliability.simulation.scenario import Round, Run, Scenario
from tests.reliability.simulation.server import Server
from tests.reliability.simulation.store import Inline
from tests.reliability.simulation.tally import Tally
from tests.reliability.simulation.threads import acting

RUNS_TO_REST = 3
LAG_S = 30.0  # so long may reads show the platform as it was, and lost calls take effect
LOCK_TIMEOUT_S = 120.0  # a lease that a dead process left behind ends within it
DECISIONS = 6  # so often may a person be asked before nothing is left to ask
REST_S = 3 * 3600.0  # hourly figures change meanwhile

_NEW_STATE: dict[str, bytes] = {}  # its files, by name


@dataclass(frozen=True, slots=True)
class Report:
    """What one history came to. `hash` is of its trace; `simulated_s` how long it took in its own time."""

    violation: Violation | None
    hash: str
    events: int
    tally: Tally
    simulated_s: float
    trace: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Ended:
    """How one process ended: one of these, or none of them when it died."""

    applied: Applied | None = None
    plan: Plan | None = None
    failure: ReconcilerError | None = None

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        found: list[Diagnostic] = []
        if isinstance(self.failure, Diagnosed):
            found += self.failure.diagnostics
        if self.applied is not None:
            found += [*self.applied.notices, *self.applied.plan.diagnostics]
        if self.plan is not None:
            found += self.plan.diagnostics
        return [item for item in found if item.severity is Severity.ERROR]


def play(scenario: Scenario, *, keep_trace: bool = False) -> Report:
    """Carry `scenario` out, on a loop, a platform and a state of its own."""
    root = Path(tempfile.mkdtemp(prefix="history-", dir=SHELF))
    timeline = Timeline()
    threaded = [cast("Any", module) for module in (open_state, log_store, spooling)]
    for module in threaded:
        module.to_thread = Inline
    try:
        with serving(scenario.state):
            history = History(scenario, root, timeline, keep_trace=keep_trace)
            timeline.set_exception_handler(history.complain)
            asyncio.set_event_loop(timeline)
            with history.on_simulated_time(), closing(history):
                try:
                    timeline.run_until_complete(history.play())
                except Endless as endless:  # outside of a process, as when a lock is broken by hand
                    history.ghost.violate("nothing-goes-on-for-ever", str(endless))
            return history.report()
    finally:
        for module in threaded:
            module.to_thread = to_thread
        asyncio.set_event_loop(None)
        timeline.close()
        shutil.rmtree(root)


class History:
    """What all rounds of one history share."""

    def __init__(self, scenario: Scenario, root: Path, timeline: Timeline, *, keep_trace: bool) -> None:
        self._scenario = scenario
        self._root = root
        self._timeline = timeline
        self._rng = random.Random(f"history {scenario.seed}")
        sandbox = Sandbox(
            clock="real",
            profile="extended",
            apps=[{"name": "shop"}, {"name": "blog"}],
            machines=[{"app": "shop", "id": id} for id in scenario.machines],
            stored=False,
            wall=START.timestamp,
            monotonic=timeline.time,
            rng=self._rng,
        )
        sandbox.world.switches.update(scenario.switches)
        self.sandbox = sandbox
        self.ghost = Ghost(sandbox, timeline, scenario.machines, keep_trace=keep_trace)
        self.ghost.shared = scenario.state != "sqlite"
        self._shared = self._store_of_all()
        self.network = Network(sandbox, self.ghost, timeline, self._rng)
        self.manifests: list[dict[str, Any]] = []
        self.desired = Desired(())
        self._secret = 0
        self._saved: tuple[bytes, Desired] | None = None
        self._processes = 0
        self._robberies: list[asyncio.Task[None]] = []
        self._end = ExitStack()

    def _store_of_all(self) -> Shared | Server | None:
        rng = random.Random(f"store {self._scenario.seed}")
        match self._scenario.state:
            case "objects":
                return Shared(self.ghost, rng)
            case "postgresql":
                return Server(database(), self.ghost, rng)
            case "sqlite":
                return None

    def on_simulated_time(self) -> AbstractContextManager[None]:
        """What the store of all runners needs for it."""
        match self._shared:
            case Shared():
                return objects.on_simulated_time(self._timeline)
            case Server():
                return postgres.on_simulated_time(self._shared)
            case None:
                return nullcontext()

    def close(self) -> None:
        if isinstance(self._shared, Server):
            self._shared.close()
        self._end.close()
        self.sandbox.close()

    def report(self) -> Report:
        ghost = self.ghost
        return Report(
            ghost.violation, ghost.hash, ghost.events, ghost.tally, self._timeline.time(), ghost.trace
        )

    def complain(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Whatever fails outside of a process."""
        self.ghost.violate("nothing-fails-unseen", repr(context.get("exception") or context["message"]))

    async def until(self, elapsed_s: float) -> None:
        await asyncio.sleep(max(0.0, elapsed_s - self._timeline.time()))

    async def play(self) -> None:
        await self._make_the_state()
        for number, each in enumerate(self._scenario.rounds):
            await self._round(number, each)
            if self.ghost.violation is not None:
                return
        await self._come_to_rest()
        if self.ghost.violation is None:
            self._search_for_secrets()

    async def _make_the_state(self) -> None:
        """The state of a new project: made once in a process, and copied for each history."""
        if isinstance(self._shared, Server):
            return
        if self._shared is not None:
            process = self._process("the state", Run())
            with acting(process):
                await create_state(process.store, process.project.actor())
            return
        if not _NEW_STATE:
            randomness = random.Random("the state").randbytes
            store = SqliteStore(self._root / "state.db", SystemClock(), randomness, backups=False)
            await create_state(store, Actor(SystemClock(), "the state"))
            await store.close()
            _NEW_STATE.update({file.name: file.read_bytes() for file in self._root.iterdir()})
        for name, content in _NEW_STATE.items():
            (self._root / name).write_bytes(content)
        # As long as somebody has the file open, SQLite does not fold the WAL in with each process that ends.
        use_wal(self._end.enter_context(closing(connect(self._root / "state.db"))))

    # --- rounds ---

    async def _round(self, number: int, wished: Round) -> None:
        await asyncio.sleep(wished.pause_s)
        self.ghost.note("round", number)
        self._want(wished.manifests, wished.secret)
        edits = [self._timeline.call_later(edit.at_s, people.edit, self, edit) for edit in wished.edits]
        async with asyncio.TaskGroup() as group:
            for index, run in enumerate(wished.runs):
                process = self._process(f"p{number}.{index}", run)
                process.rob = self._rob
                alone = len(wished.runs) == 1
                process.task = group.create_task(self._later(run.after_s, process, alone=alone))
        for planned in edits:
            planned.cancel()
        await asyncio.gather(*self._robberies)
        if self.ghost.violation is None:
            await self._look_at_the_state()

    def _rob(self, scopes: Sequence[str]) -> asyncio.Task[None]:
        robbery: asyncio.Task[None] = self._timeline.create_task(self._unlock(scopes))
        self._robberies.append(robbery)
        return robbery

    async def _unlock(self, scopes: Sequence[str]) -> None:
        """A person frees leases by force, in a process of its own."""
        process = self._process("person", Run())
        with acting(process):
            try:
                for scope in scopes:
                    await process.store.inner.unlock(scope, force=True, by=process.name)
            except ReconcilerError as failure:
                self.ghost.note("a person cannot unlock", failure.message)
            await process.store.close()

    def _want(self, manifests: Sequence[Mapping[str, Any]], secret: int) -> None:
        self.manifests = copy.deepcopy([dict(each) for each in manifests])
        self._secret = secret
        self._load()

    def _load(self) -> None:
        self.desired = Desired(wishes.resources(json.dumps(self.manifests)))

    def _process(self, name: str, run: Run) -> Process:
        self._processes += 1
        return Process(
            name,
            run,
            ghost=self.ghost,
            network=self.network,
            timeline=self._timeline,
            rng=self._rng,
            root=self._root,
            shared=self._shared,
            secret=self._secret,
            capabilities=self._scenario.capabilities,
            desired=self.desired,
        )

    async def _later(self, after_s: float, process: Process, *, alone: bool) -> None:
        try:
            await asyncio.sleep(after_s)
        except asyncio.CancelledError:
            return
        ended = await self._live(process)
        if alone:
            self._check_exit(process, ended)

    # --- one process ---

    async def _live(self, process: Process) -> _Ended:
        """The whole life of a process, to its end or its death."""
        ghost, ended = self.ghost, _Ended()
        process.began_s = self._timeline.time()
        process.power_at_first = ghost.power()
        ghost.note(process.name, "begins", process.run.verb)
        with acting(process):
            try:
                ended = await self._carry_out(process)
            except ReconcilerError as failure:
                ended = _Ended(failure=failure)
            except BaseException as error:
                if process.alive:
                    ghost.violate("no-traceback", f"{process.name} {process.run.verb}: {error!r}")
                _uncancel()
            try:
                await (process.store.close() if process.alive else process.store.inner.bury())
            except ReconcilerError as failure:
                ended = ended if ended.failure else _Ended(failure=failure)
        if not process.alive:
            for scope, (epoch, holder) in ghost.leases.items():
                if holder is process:
                    ghost.leases[scope] = (epoch, None)
                    ghost.promises.pop((scope, epoch), None)
        self._note_end(process, ended)
        return ended

    async def _carry_out(self, process: Process) -> _Ended:
        project, desired, run = process.project, process.desired, process.run
        if run.approves_deletes:
            process.approved_deletes = self._may_be_deleted(desired)
        match run.verb:
            case "plan":
                return _Ended(plan=await make_plan(project, desired))
            case "drift":
                return _Ended(plan=(await find_drift(project, desired)).plan)
            case "save":
                plan = await make_plan(project, desired)
                self._saved = (dump_plan(plan), desired)
                return _Ended(plan=plan)
            case "run_saved":
                return await self._run_saved(process)
            case "apply":
                applied = await apply(
                    project,
                    desired,
                    approve=process.show,
                    approved_deletes=Permitted(process.approved_deletes),
                    approved_creates=Everything(),
                    on_executor=process.follow,
                )
                return _Ended(applied)

    async def _run_saved(self, process: Process) -> _Ended:
        if self._saved is None:
            return _Ended()
        text, process.desired = self._saved
        plan = load_saved(text).plan
        process.approved_deletes = (
            self._may_be_deleted(process.desired) if process.run.approves_deletes else frozenset()
        )
        if not process.run.approves:
            return _Ended()

        def tell(made: Plan) -> None:  # what runs is made anew, and only compared with the file
            process.show(made)

        return _Ended(
            await run_saved(
                process.project,
                process.desired,
                plan,
                Permitted(process.approved_deletes),
                Everything(),
                on_executor=process.follow,
                tell=tell,
            )
        )

    def _may_be_deleted(self, desired: Desired) -> frozenset[str]:
        wanted = {resource.address for resource in desired.resources}
        return frozenset(str(address) for address in self.ghost.records if address not in wanted)

    def _note_end(self, process: Process, ended: _Ended) -> None:
        ghost = self.ghost
        words: list[object] = [process.name, "ends" if process.alive else "is dead"]
        said: list[str] = []
        if ended.failure is not None:
            words += [type(ended.failure).__name__, ended.failure.message]
            said += [ended.failure.message, ended.failure.help]
            if isinstance(ended.failure, Locked):
                ghost.tally.note("locked out")
        for item in ended.diagnostics:
            words.append(item.code)
            said += [item.message, *item.notes, item.help or ""]
            ghost.tally.note("decision", item.code)
        if ended.applied is not None:
            for result in ended.applied.results:
                words.append(f"{result.step}={result.outcome}")
                if result.outcome != "done":
                    process.doubtful.add(result.address)
                said.append(result.error)
                ghost.tally.note("outcome", result.outcome)
            said.append(repr(ended.applied))
        shown = ended.plan or (ended.applied.plan if ended.applied is not None else None)
        if shown is not None:
            for change in shown.changes:
                ghost.tally.note("action", change.action)
        ghost.note(*words)
        if any(CANARY in text for text in said):
            ghost.violate("no-secret-leaves-memory", f"{process.name} said a secret value")

    def _check_exit(self, process: Process, ended: _Ended) -> None:
        """Exit 0 means that everything is as the manifests say, unless somebody moved it meanwhile."""
        ghost, applied = self.ghost, ended.applied
        if applied is None or applied.declined or applied.interrupted or process.run.verb != "apply":
            return
        if exit_code(applied) != 0 or ghost.in_flight or process.lease_lost or process.deceived:
            return
        if self.sandbox.world.switches["auto_extend_gb"]:
            return  # a volume may have grown a moment ago
        if ghost.last_disturbance_s > process.began_s - STALE_S:
            return
        for difference in self._differences():
            ghost.violate("exit-0-only-if-converged", difference)

    async def _look_at_the_state(self) -> None:
        """Another process reads the state: it is sound as a whole, and holds what was stored."""
        if isinstance(self._shared, Server):
            await asyncio.sleep(self._shared.down_s)
        observer = self._process("observer", Run(verb="plan"))
        with acting(observer):
            try:
                state = await observer.store.load()
                await backend_of(observer.store).verify()
            except ReconcilerError as failure:
                self.ghost.violate("state-loads", failure.message)
            else:
                invariants.check_stored(self.ghost, state)
            await observer.store.close()

    # --- the end ---

    async def _come_to_rest(self) -> None:
        """The faults have ended: a few runs, and true answers to what is asked, leave nothing to do."""
        ghost = self.ghost
        await asyncio.sleep(LAG_S)
        people.put_right(self)
        await asyncio.sleep(LAG_S)
        for decision in range(DECISIONS):
            codes = await self._run_to_rest(decision)
            if ghost.violation is not None:
                return
            if not codes:
                await self._rest()
                return
            ghost.note("a person is asked", *sorted(codes))
            strange = sorted(codes - people.ANSWERS.keys())
            if strange:
                ghost.violate("converges", f"{strange} are no questions that a person can answer")
                return
            answers = dict.fromkeys(people.ANSWERS[code] for code in sorted(codes))
            if not sum([await answer(self) for answer in answers]):  # one answer may settle other questions
                ghost.violate("converges", f"{sorted(codes)} was said without a cause")
                return
            self._load()
            await asyncio.sleep(LAG_S)
        ghost.violate("converges", "a person is asked again and again")

    async def _run_to_rest(self, decision: int) -> set[str]:
        """The codes of what a person must decide; empty when nothing is left to do."""
        left: Plan | None = None
        for attempt in range(RUNS_TO_REST):
            await asyncio.sleep(LAG_S if attempt else 0.0)
            run = Run(approves_deletes=True, lock_timeout_s=LOCK_TIMEOUT_S)
            process = self._process(f"calm{decision}.{attempt}", run)
            ended = await self._live(process)
            if isinstance(ended.failure, Locked):
                self.ghost.violate("nothing-is-unlocked-by-hand", ended.failure.message)
            self._check_exit(process, ended)
            codes = {item.code for item in ended.diagnostics}
            if codes:
                return codes
            looked = await self._live(self._process(f"look{decision}.{attempt}", Run(verb="plan")))
            left = looked.plan
            if left is None or self.ghost.violation is not None:
                self.ghost.violate("converges", f"the plan failed: {looked.failure}")
                return set()
            codes = {item.code for item in looked.diagnostics}
            if codes:
                return codes
            if _is_empty(left):
                for difference in self._differences():
                    self.ghost.violate("converges", f"the plan is empty, but {difference}")
                return set()
        assert left is not None
        changes = ", ".join(f"{change.action} {change.address}" for change in left.changes)
        self.ghost.violate("converges", f"after {RUNS_TO_REST} runs there is still: {changes}")
        return set()

    async def _rest(self) -> None:
        """Hours pass, in which hourly figures change: nothing is to be done, and nothing drifted."""
        await self._settle_restarts()
        await self._look_at_the_state()
        await asyncio.sleep(REST_S)
        planned = await self._live(self._process("quiet", Run(verb="plan")))
        self._look_for_untold(planned)
        drifted = await self._live(self._process("drift", Run(verb="drift")))
        wanted = {resource.address for resource in self.desired.resources}
        for ended in (planned, drifted):
            if ended.plan is None:
                self.ghost.violate("volatile-fields-are-no-drift", f"no plan: {ended.failure}")
                continue
            for change in ended.plan.changes:
                # Hours without a snapshot do miss an objective.
                moved = [each for each in change.fields if each.path != "snapshot_max_age_h"]
                if change.address not in wanted:
                    continue  # what people did to it stays: no manifest says what it should be
                if change.action not in (Action.RETAIN, Action.SNAPSHOT) or moved:
                    said = f"{change.action} of {change.address} although nobody changed anything"
                    self.ghost.violate("volatile-fields-are-no-drift", said)

    def _look_for_untold(self, planned: _Ended) -> None:
        """What calls made that came too late to be waited for: plans name it, if its address is declared.

        Otherwise whoever sent the call has said that its outcome is not known, if it lived to hear of it.
        """
        said = [repr(item) for item in planned.plan.diagnostics] if planned.plan is not None else []
        tracked = {record.id for record in self.ghost.records.values()}
        declared = {resource.address for resource in self.desired.resources}
        for id, sending in self.ghost.strays.items():
            assert sending.opened is not None
            address, sender = sending.opened.address, sending.process
            if not self.ghost.alive(id) or id in tracked:
                continue
            by_plan, by_sender = any(id in text for text in said), address in sender.doubtful
            self.ghost.tally.note("late object", "told" if by_plan or by_sender else "untold")
            listed = address.kind == "Volume" or "postgres.list" in self._scenario.capabilities
            due = listed if address in declared else sender.alive
            if due and not (by_plan or (by_sender and address not in declared)):
                self.ghost.violate("what-came-too-late-is-told", f"nobody names {id}, made for {address}")

    async def _settle_restarts(self) -> None:
        """What is owed at the end is needed and cannot be carried out; a person says that it is done."""
        for address, record in list(self.ghost.records.items()):
            if record.obligations:
                if self._could_restart(address, record):
                    self.ghost.violate("what-is-owed-is-carried-out", f"{address} still owes a restart")
                self.ghost.owing.pop(record.id, None)
                await self._ask(partial(settle_restarts, addresses=[address]))

    def _could_restart(self, address: Address, record: StateRecord) -> bool:
        """Whether nothing is in the way of the restart that `record` owes."""
        wanted = {each.address: each for each in self.desired.resources}
        holder = self.ghost.holder(record.id)
        machine = self.ghost.machine(holder) if holder is not None else None
        auto = address in wanted and wanted[address].lifecycle.restart == "auto"
        able = "machine.restart" in self._scenario.capabilities
        if machine is None or wanted_power(wanted.values(), machine.id) in AT_REST:
            return False
        return auto and able

    def _differences(self) -> list[str]:
        """Where the world is not as the manifests say."""
        ghost, found = self.ghost, []
        wanted = {resource.address for resource in self.desired.resources}
        for resource in self.desired.resources:
            record = ghost.records.get(resource.address)
            if resource.address.kind == "Machine":  # which is recorded only once something was sent
                if not self._is_hidden(resource.spec.id):
                    found += wishes.differences(ghost, resource, resource.spec.id, self._secret)
            elif record is None:
                found.append(f"{resource.address} has no record")
            else:
                found += wishes.differences(ghost, resource, record.id, self._secret)
        for address, record in ghost.records.items():
            if address not in wanted and record.lifecycle.deletion is Deletion.DELETE:
                volume = ghost.volume(record.id)
                if volume is not None and volume.present:
                    found.append(f"{address} left the manifests and is still there")
        return found

    def _is_hidden(self, id: str) -> bool:
        """Whether nothing shows us a machine, and a person changed its power after our last call."""
        if "machine.get" in self._scenario.capabilities:
            return False
        called_s = self.ghost.called_at.get(id, 0.0)
        return any(touch.at_s >= called_s for touch in self.ghost.touched.get(id, ()))

    def _search_for_secrets(self) -> None:
        for file in sorted(self._root.rglob("*")):
            if file.is_file() and CANARY.encode() in file.read_bytes():
                self.ghost.violate("no-secret-leaves-memory", f"{file.name} holds a secret value")
        if self._saved is not None and CANARY.encode() in self._saved[0]:
            self.ghost.violate("no-secret-leaves-memory", "a saved plan holds a secret value")

    # --- a person at the command line ---

    async def resolve(self, address: Address, id: str | None) -> None:
        """A person, who knows what became of the call, may have to insist: others change what it made."""

        async def work(project: Any) -> None:
            try:
                await resolve_unknown(project, address, adopt=id)
            except ReconcilerError as refused:
                if "--force" not in refused.help:
                    raise
                await resolve_unknown(project, address, adopt=id, force=True)

        await self._ask(work)

    async def forget(self, address: Address) -> None:
        record = self.ghost.records.get(address)
        if record is None:
            return
        self.ghost.forgotten.add(record.id)

        async def work(project: Any) -> None:
            await forget(project.store, address, project.actor(project.new_id()))

        await self._ask(work)

    async def claim_untracked(self) -> int:
        """A person has looked at each object that a late outcome named, and wants to hear no more of it."""
        claimed = list(self.ghost.strays)

        async def work(project: Any) -> None:
            for id in claimed:
                if not await claim(project.store, id, project.actor(project.new_id())):
                    self.ghost.strays.pop(id)

        await self._ask(work)
        return sum(id in self.ghost.strays for id in claimed)

    async def _ask(self, work: Any) -> None:
        """Run one verb of a person, in a process of its own."""
        process = self._process("person", Run(lock_timeout_s=LOCK_TIMEOUT_S))
        process.run.approves = True
        with acting(process):
            try:
                await work(process.project)
            except ReconcilerError as failure:
                self.ghost.violate("converges", f"a person's answer was refused: {failure.message}")
            finally:
                await process.store.close()


def _uncancel() -> None:
    """A dead process's task was cancelled from outside; the round goes on without it."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


def _is_empty(plan: Plan) -> bool:
    return (
        not plan.steps
        and all(map(only_left, plan.bindings))
        and all(change.action is Action.RETAIN for change in plan.changes)
    )
