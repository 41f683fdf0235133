"""The controller of one environment: looks at its scopes, and does what it may.

In each round, all scopes are looked at together, as `plan` and `drift` do without a target. Scopes that could
not be read lately are looked at apart from the others, and less often. What is to be sent goes out scope by
scope, beside the rounds. Each look and each apply opens the project anew, as a command does.
"""

import gc
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from reconciler.approvals.judging import NOTHING, Given, read_approvals
from reconciler.controller import memory
from reconciler.controller.proposals import Proposals, rest_of, unattended, within
from reconciler.controller.schedule import Schedule
from reconciler.controller.status import Look, Seen, Status, reason_of, scopes_of
from reconciler.controller.statuses import Statuses, Tell
from reconciler.controller.workers import OpenState
from reconciler.core.clock import Clock
from reconciler.core.diagnostics import APPROVAL_NEEDED, has_errors, refuse_all
from reconciler.core.errors import Locked, ReconcilerError
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.core.tracing import span
from reconciler.drift.find import find_drift
from reconciler.execution.executor import Executor
from reconciler.execution.open_intents import parse_intent
from reconciler.notify.events import Event
from reconciler.planning.declared import Desired
from reconciler.project.apply import read_saved, run_saved
from reconciler.project.drill import ONE_AT_A_TIME, due, left_over, run_drills
from reconciler.project.looks import Seen as Looks
from reconciler.project.looks import record_looks, see
from reconciler.project.open import Options, Rates, open_project
from reconciler.project.plan import make_plan
from reconciler.project.project import Project, settle_left
from reconciler.project.scopes import recorded_bindings
from reconciler.project.sections import ControllerSection, HeartbeatSection
from reconciler.project.settings import ProjectSettings
from reconciler.reports.history import run_line
from reconciler.secrets.sources import Sources
from reconciler.state.store import WHOLE_STATE, State

_POLL_S = 5.0  # how often orders and approvals are looked for
_LEAST_S = 1.0  # between two ticks, however often hooks ask for one
_LAST_S = 3.0  # for messages that are under way when it is stopped
_AT_ONCE = 8  # applies
_DRILL_AGAIN_S = 3600.0  # before a drill that could not be run is tried again
_SHOWN, _MOST_SHOWN = timedelta(days=7), 10  # runs on the page
_NO_STATE = State("", {}, (), frozenset())


class Loaded(NamedTuple):
    """The settings and manifests of now, and their secrets. `state_url`: None for the configured state."""

    config: ProjectSettings
    desired: Desired
    sources: Sources
    state_url: str | None = None

    @property
    def section(self) -> ControllerSection:
        return self.config.settings.controller


class Door(Struct, frozen=True):
    """What the controller gets from outside.

    `load`: reads settings and manifests, those of `fetch`, if there is one. `fetch`: fetches the source, and
    returns its commit; takes the commit that a person accepts. `out`: the folder of proposals. `tell`: takes
    events for the log. `notify`, `beat`: send messages and a heartbeat, and never fail. `shares`: the scopes
    with other workers.
    """

    load: Callable[[], Coroutine[Any, Any, Loaded]]
    fetch: Callable[[str], Coroutine[Any, Any, str]]
    out: Path
    clock: Clock
    tell: Tell
    notify: Callable[[Sequence[Event], ProjectSettings], Coroutine[Any, Any, None]]
    beat: Callable[[HeartbeatSection, ProjectSettings], Coroutine[Any, Any, None]]
    reporter: Reporter
    shares: bool


class Controller:
    """Looks, decides and acts until the event `stopped` is set.

    `loaded`: the settings and manifests that it goes by; None before it could read them.
    """

    def __init__(self, door: Door, stopped: anyio.Event) -> None:
        self._door, self._clock, self._tell = door, door.clock, door.tell
        self._stopped = stopped
        self.statuses = Statuses(door.tell, door.clock)
        self._schedule = Schedule(door.clock)
        self._state = OpenState(door.reporter, shares=door.shares)
        self._proposals = Proposals(door.out)
        self.loaded: Loaded | None = None
        self._kept = memory.Kept()
        self._commit, self._fetched_s = "", -math.inf
        self._looking, self._pause = anyio.CancelScope(), anyio.CancelScope()
        self._probing: anyio.CancelScope | None = None
        self._busy: dict[str, Callable[[], None]] = {}  # what stops the act in a scope, before its next call
        self._slots = anyio.CapacityLimiter(_AT_ONCE)
        self._drills_from_s = -math.inf
        self._rates: Rates = {}  # all looks and applies keep to the platform's limits together

    async def run(self, *, once: bool = False) -> None:
        """Until it is stopped; with `once`, until each scope was looked at and acted on once."""
        async with anyio.create_task_group() as sending:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._stop)
                await self._look_and_act(sending, once=once)
                watching.cancel_scope.cancel()
            if self._stopped.is_set():
                sending.cancel_scope.deadline = anyio.current_time() + _LAST_S
            self._send_messages(sending, whole=once)
        await self._state.close()

    async def _look_and_act(self, sending: TaskGroup, *, once: bool) -> None:
        async with anyio.create_task_group() as tasks:
            with self._looking:
                while not self._stopped.is_set():
                    self._pause = anyio.CancelScope()
                    is_whole = await self._tick(tasks, once=once)
                    self._hold_back_suspended()
                    if once:
                        break
                    self._send_messages(sending, whole=is_whole)
                    await self._clock.sleep(_LEAST_S)
                    with self._pause:
                        await self._clock.sleep(min(_POLL_S, self._every_s) - _LEAST_S)
        if once and self._schedule.again and not self._stopped.is_set():
            async with anyio.create_task_group() as tasks:
                await self._round(tasks, self._schedule.again, acts=False)

    async def _stop(self) -> None:
        """Once stopped: no look and no call begins any more; calls under way may end."""
        await self._stopped.wait()
        self._looking.cancel()
        if self._probing is not None:
            self._probing.cancel()
        for stop in self._busy.values():
            stop()

    def _hold_back_suspended(self) -> None:
        """Where a person suspended a scope, no call begins in it any more; calls under way may end."""
        for scope in [scope for scope in self._busy if self._kept.order(scope).suspended]:
            self._busy[scope]()
            self._busy[scope] = lambda: None  # once: each stop gives calls under way their whole time again

    # --- when ---

    @property
    def _every_s(self) -> float:
        return self.loaded.section.every_s if self.loaded is not None else _POLL_S

    async def _tick(self, tasks: TaskGroup, *, once: bool) -> bool:
        """Begin the round or the looks that are due now; whether it was a whole round."""
        now_s = self._clock.monotonic()
        if await self._fetched(now_s) or self._schedule.is_round_due:
            await self._round(tasks, None, waits=once)
            self._schedule.round_began(now_s, self._every_s)
            gc.collect()  # a command would end here; the collector looks rarely, so as not to slow one down
            return True
        await self._read_orders()
        wanted = self._schedule.wanted(self._kept.orders, self._busy) | self._proposals.news()
        if wanted := wanted.intersection(self.statuses.ours).difference(self._busy):
            await self._round(tasks, wanted)
        return False

    async def _fetched(self, now_s: float) -> bool:
        """Whether the source is at another commit. Where it cannot be fetched, the last one goes on."""
        source = self.loaded.section.source if self.loaded is not None else None
        if now_s < self._fetched_s + (source.fetch_s if source is not None else self._every_s):
            return False
        self._fetched_s = now_s  # before the fetch: a hook that comes meanwhile asks for another one
        try:
            commit = await self._door.fetch(self._kept.accepted)
        except ReconcilerError as failure:
            self._tell("source.unread", reason=reason_of(failure))
            commit = self._commit
        is_other, self._commit = commit != self._commit, commit
        return is_other

    async def _newest(self) -> Loaded:
        """As a call must be planned by. Raises ReconcilerError where the newest commit is not known."""
        await self._door.fetch(self._kept.accepted)
        return await self._door.load()

    async def _read_orders(self) -> None:
        """Orders by people, and where they cannot be read the last ones."""
        if self.loaded is None:
            return
        try:
            self._kept = memory.read(await self._state.load(self.loaded.config, self.loaded.state_url))
        except ReconcilerError as failure:
            self._tell("state.unread", reason=failure.message)

    async def runs(self) -> Mapping[str, str]:
        """The last runs on the state, by id in a line each; none where it cannot be read now."""
        with suppress(ReconcilerError):
            found = await self._state.runs(self._clock.now() - _SHOWN)
            runs = found.history.runs[: -_MOST_SHOWN - 1 : -1]
            return {run.id: run_line(run, running=run.id in found.running) for run in runs}
        return {}

    def _look_again(self, scopes: Collection[str]) -> None:
        if scopes:
            self._schedule.again.update(scopes)
            self.hurry()

    def hurry(self, *, fetch: bool = False) -> None:
        """Look for orders within a second, and with `fetch` for a new commit."""
        if fetch:
            self._fetched_s = -math.inf
        self._pause.cancel()

    def _send_messages(self, tasks: TaskGroup, *, whole: bool) -> None:
        """Send what changed, and after a `whole` round also what is silent, and the heartbeat."""
        if self.loaded is None:
            return
        section, config, statuses = self.loaded.section, self.loaded.config, self.statuses
        if whole:
            statuses.end_round(section.every_s)
            if section.heartbeat is not None and not (
                statuses.is_blind and section.heartbeat.after == "success"
            ):
                tasks.start_soon(self._door.beat, section.heartbeat, config)
        events = statuses.events()
        if events and config.settings.notify:
            tasks.start_soon(self._door.notify, events, config)

    # --- looking ---

    async def _round(
        self, tasks: TaskGroup, wanted: Collection[str] | None, *, waits: bool = False, acts: bool = True
    ) -> None:
        """Look at all of our scopes, or at those `wanted`; where it may act (`acts`), in tasks of their own.

        `waits`: scopes that could not be read lately are looked at whether they are due or not.
        """
        try:
            loaded = await self._door.load()
            self.loaded, self.statuses.config = loaded, loaded.config
            names = await self._scopes(loaded)
        except ReconcilerError as failure:
            self._schedule.again.update(wanted or ())
            if (now := self.loaded) is not None and not (self.statuses.ours or self._door.shares):
                declared = scopes_of(_NO_STATE, now.desired.resources)  # at least that is known
                self.statuses.ours = {*declared.values()} - {WHOLE_STATE}
            idle = [scope for scope in self.statuses.ours if scope not in self._busy]
            # No failure of these scopes: the first round that can begin looks at them again.
            self.statuses.note({scope: Seen(Status.UNKNOWN, reason_of(failure)) for scope in idle})
            self._tell("round.failed", reason=reason_of(failure))
            await self._keep_unknown()
            return
        free = {scope for scope in self.statuses.ours if scope not in self._busy} & {*(wanted or names)}
        suspended = {scope: why for scope in free if (why := self._kept.order(scope).suspended)}
        self._note({scope: Seen(Status.SUSPENDED, why) for scope, why in suspended.items()})
        free -= suspended.keys()
        failing = self._schedule.failing(free)
        probed = {scope for scope in failing if wanted or waits or self._schedule.is_due(scope)}
        if probed and self._probing is None:
            self._probing = anyio.CancelScope()
            tasks.start_soon(self._probe, self._probing, tasks, loaded, probed, names)
        if healthy := free - failing:
            await self._look_at(tasks if acts else None, loaded, healthy, names)
        if acts and wanted is None and loaded.section.mode == "apply" and ONE_AT_A_TIME not in self._busy:
            await self._begin_drills(tasks, loaded)

    async def _keep_unknown(self) -> None:
        """Where nothing could be seen: for those who ask the state, as long as that can be written."""
        if self.loaded is None:
            return
        with suppress(ReconcilerError):
            async with self._open(self.loaded) as project:
                await self.statuses.save(project, self._every_s)

    async def _scopes(self, loaded: Loaded) -> Collection[str]:
        """All scopes that are declared or recorded. Takes up what the state keeps, and which are ours."""
        state = await self._state.load(loaded.config, loaded.state_url)
        self._kept = memory.read(state)
        names = {*scopes_of(state, loaded.desired.resources).values()} - {WHOLE_STATE}
        ours = await self._state.ours(state, names)
        if self._door.shares and ours != self.statuses.ours:
            self._tell("share.changed", ours=len(ours), all=len(names))
        self.statuses.take_up(self._kept.statuses, names, ours)
        return names

    async def _probe(
        self,
        scope: anyio.CancelScope,
        tasks: TaskGroup,
        loaded: Loaded,
        probed: Collection[str],
        names: Collection[str],
    ) -> None:
        """Look at scopes that could not be read, beside the rounds."""
        try:
            with scope:
                await self._look_at(tasks, loaded, probed, names)
        finally:
            self._probing = None

    async def _look_at(
        self, tasks: TaskGroup | None, loaded: Loaded, looked_at: Collection[str], names: Collection[str]
    ) -> None:
        self._schedule.obey(self._kept.orders, looked_at)
        try:
            async with self._open(loaded) as project:
                whole = {*looked_at} == {*names}
                looks: Looks = {}
                seen = await _look(project, loaded.desired, looked_at, looks, whole=whole)
                self._look_again({*looked_at} - seen.keys())
                self._note(seen)
                await self.statuses.save(project, self._every_s)
                await self._record(project, looks)
        except ReconcilerError as failure:
            self._note({scope: Seen(Status.UNKNOWN, reason_of(failure)) for scope in looked_at})
            await self._keep_unknown()
            return
        if tasks is None or loaded.section.mode == "observe":
            return
        if not self._door.shares:  # else the folder may hold those of a worker that has fetched more
            self._proposals.keep_only(names)
        for scope, found in seen.items():
            if not found.success:
                continue
            if not found.acts:
                self._proposals.drop(scope)
            elif scope not in self._busy and not self._stopped.is_set():
                acting = anyio.CancelScope()
                self._busy[scope] = acting.cancel
                tasks.start_soon(self._act, scope, acting)

    async def _record(self, project: Project, looks: Looks) -> None:
        try:
            await record_looks(project, looks)
        except ReconcilerError as failure:
            self._tell("looks.unsaved", reason=reason_of(failure))

    @asynccontextmanager
    async def _open(self, loaded: Loaded, *, acts: bool = False) -> AsyncIterator[Project]:
        desired, tell = loaded.desired, self._door.reporter
        options = Options(loaded.state_url, read_only=not acts, take_signals=False, rates=self._rates)
        opened = open_project(loaded.config, options, tell, desired.resources, desired.policies)
        with span("act" if acts else "look", new=True):
            async with opened as project:
                try:
                    yield project
                finally:
                    self.statuses.waited_s = sum(rate.waited_s for rate in self._rates.values())

    def _note(self, seen: Mapping[str, Seen]) -> None:
        self.statuses.note(seen)
        self._schedule.looked(seen, self._every_s)

    # --- acting ---

    async def _act(self, scope: str, acting: anyio.CancelScope) -> None:
        """Send what may be sent in one scope, and propose the rest."""
        try:
            async with self._slots:
                with acting:
                    loaded = await self._newest()
                    async with self._open(loaded, acts=True) as project:
                        if (found := await self._sent_and_proposed(scope, loaded, project)) is not None:
                            self._note({scope: found})
                            await self.statuses.save(project, self._every_s)
        except Locked as failure:
            self._note({scope: Seen(Status.LOCKED, failure.message)})
        except ReconcilerError as failure:
            self._tell("apply.refused", scope=scope, reason=reason_of(failure))
            if self.statuses.by_scope[scope].status is Status.APPLYING:
                self._schedule.again.add(scope)
        finally:
            del self._busy[scope]
            if scope in self._schedule.again:
                self.hurry()

    async def _begin_drills(self, tasks: TaskGroup, loaded: Loaded) -> None:
        with suppress(ReconcilerError):  # the next look tells
            state = await self._state.load(loaded.config, loaded.state_url)
            late = self._clock.monotonic() >= self._drills_from_s and not self._stopped.is_set()
            if late and (left_over(state) or due(loaded.desired, state, (), self._clock.now())):
                drilling = anyio.CancelScope()
                self._busy[ONE_AT_A_TIME] = drilling.cancel
                tasks.start_soon(self._drill, loaded, drilling)

    async def _drill(self, loaded: Loaded, drilling: anyio.CancelScope) -> None:
        """Delete what earlier drills have left, and run those that are due."""

        def follow(executor: Executor | None) -> None:
            self._busy[ONE_AT_A_TIME] = executor.stop if executor is not None else drilling.cancel
            if self._stopped.is_set():
                self._busy[ONE_AT_A_TIME]()

        try:
            with drilling:
                async with self._open(loaded, acts=True) as project:
                    for ran in await run_drills(project, loaded.desired, on_executor=follow):
                        if ran.result is None or ran.left is not None:
                            self._drills_from_s = self._clock.monotonic() + _DRILL_AGAIN_S
                        why = ran.result.why if ran.result is not None else f"not run: {ran.why}"
                        about = {"drill": str(ran.drill), "of": str(ran.of), "passed": ran.passed}
                        self._tell("drill.ended", **about, why=why)
        except Locked:
            pass  # another one runs them
        except ReconcilerError as failure:
            self._drills_from_s = self._clock.monotonic() + _DRILL_AGAIN_S
            self._tell("drill.refused", reason=reason_of(failure))
        finally:
            del self._busy[ONE_AT_A_TIME]

    async def _sent_and_proposed(self, scope: str, loaded: Loaded, project: Project) -> Seen | None:
        """None: another look tells."""
        section, proposals = loaded.section, self._proposals
        state = await project.store.load()
        if why := memory.read(state).order(scope).suspended:
            return Seen(Status.SUSPENDED, why)
        left_open = any(parse_intent(opened).scope == scope for opened in state.open_intents)
        about = _about(loaded.desired, state, {scope})
        if not about.targets:  # what was declared there is gone again
            if left_open:
                await settle_left(project, state, lambda now: {scope})
            proposals.drop(scope)
            return None
        scopes = scopes_of(state, loaded.desired.resources)
        plan = within(await make_plan(project, about), scope, scopes)
        impacts = section.apply_impacts if section.mode == "apply" else ()
        sent = unattended(plan, impacts)
        rest = rest_of(plan, sent)
        if _does_something(sent) or recorded_bindings(sent, about.by_address) or left_open:
            await self._apply(scope, project, about, sent, NOTHING)
            now = await project.store.load()
            if now.heads.get(scope) != state.heads.get(scope):  # else nothing came of it, as of a question
                self._look_again({scope})
        if not _does_something(rest):
            if not has_errors(plan.diagnostics):
                proposals.drop(scope)
            return None
        if refuse_all(plan.diagnostics):
            return None
        file, is_new = proposals.keep(scope, rest)
        if is_new:
            self._tell("plan.proposed", scope=scope, file=str(file))
            self.statuses.proposed(scope, file.name)
        signed = proposals.approvals(file)
        asked = (problem.message for problem in plan.diagnostics if problem.code == APPROVAL_NEEDED)
        why = "; ".join(asked) or "waits for approvals"
        if signed:
            try:
                saved = read_saved(file, loaded.config.env)
                await self._apply(scope, project, about, saved.plan, Given(read_approvals(signed)))
            except Locked:
                raise
            except ReconcilerError as failure:
                why = reason_of(failure)
            else:
                proposals.drop(scope)
                self._look_again({scope})
                return None
        return Seen(Status.PROPOSED, f"{file.name}: {why}", acts=True)

    async def _apply(self, scope: str, project: Project, about: Desired, plan: Plan, given: Given) -> None:
        """As `apply --plan`. The plan is made anew, and what differs is refused."""

        def follow(executor: Executor) -> None:
            self._busy[scope] = executor.stop
            self._note({scope: Seen(Status.APPLYING)})
            if self._stopped.is_set() or self._kept.order(scope).suspended:
                executor.stop()

        applied = await run_saved(project, about, plan, (), given=given, on_executor=follow)
        outcomes = Counter[str](result.outcome for result in applied.results)
        self.statuses.applied(scope, outcomes)
        self._tell("apply.ended", scope=scope, run=applied.run, **dict(outcomes))


async def _look(
    project: Project, desired: Desired, looked_at: Collection[str], looks: Looks, *, whole: bool
) -> Mapping[str, Seen]:
    """One look at these scopes. `whole`: they are all there are."""
    project = replace(project, answers={})
    state = await project.store.load()
    about = desired if whole else _about(desired, state, looked_at)
    drift = await find_drift(project, about)
    plan = await make_plan(project, about, on_answer=partial(see, looks))
    before, state = state, await project.store.load()
    held = await project.store.holders(looked_at)
    # What was recorded meanwhile may stand on one side of a comparison alone: another look tells.
    quiet = {scope for scope in looked_at if state.heads.get(scope) == before.heads.get(scope)}
    scopes = scopes_of(state, desired.resources)
    return Look(drift, plan, state, desired.by_address, scopes, held).seen(quiet | held.keys())


def _about(desired: Desired, state: State, scopes: Collection[str]) -> Desired:
    """`desired`, about what is declared or recorded in `scopes`. Where nothing is, it has no targets."""
    known = {*desired.by_address, *state.records}
    by_address = scopes_of(state, desired.resources).items()
    return desired.with_targets(
        [address for address, scope in by_address if scope in scopes and address in known]
    )


def _does_something(plan: Plan) -> bool:
    return bool(plan.steps or plan.moves) or any(change.action.changes_something for change in plan.changes)
