"""The controller of one environment: when it looks at which scope, and what it does then.

In each round, all scopes are looked at together, as `plan` and `drift` do without a target. Scopes that could
not be read lately are looked at apart from the others, and less often. What is to be sent goes out scope by
scope, beside the rounds. Each look and each apply opens the project anew, as a command does.
"""

import gc
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from reconciler.approvals.judging import NOTHING, Given, read_approvals
from reconciler.controller import memory
from reconciler.controller.proposals import Proposals, approvals_of, rest_of, scope_of, unattended
from reconciler.controller.status import Look, ScopeStatus, Seen, Status, View, in_a_line, scopes_of
from reconciler.controller.telling import Silence, of_change
from reconciler.core.clock import Clock
from reconciler.core.context import BASE
from reconciler.core.diagnostics import refuse_all
from reconciler.core.errors import Diagnosed, Locked, ReconcilerError
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.execution.executor import Executor
from reconciler.notify.events import Event, Run
from reconciler.planning.declared import Desired
from reconciler.project.apply import read_saved, run_saved
from reconciler.project.attribution import attribution_of
from reconciler.project.open import Options, open_project
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.scopes import recorded_bindings
from reconciler.project.sections import ControllerSection, HeartbeatSection
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import Opening, require_own_place, store_of
from reconciler.state.spooling import Spooling
from reconciler.state.store import WHOLE_STATE, State

_POLL_S = 5.0  # how often orders and approvals are looked for
_JITTER = 0.1  # of a round's time, at most, to either side
_MOST_ROUNDS = 4  # a scope that could not be read is looked at after at most so many rounds
_AT_ONCE = 8  # applies
_SAVE_S = 60.0  # how often the times of looks are kept where nothing else changed

Tell = Callable[..., None]  # an event's name, with its fields by keyword


class Loaded(NamedTuple):
    """The settings and manifests of now. `state_url`: the place of the state; None for the configured one."""

    config: ProjectSettings
    desired: Desired
    state_url: str | None = None

    @property
    def section(self) -> ControllerSection:
        return self.config.settings.controller


class Door(Struct, frozen=True):
    """What the controller gets from outside.

    `load`: reads settings and manifests, those of `fetch`, if there is one. `fetch`: fetches the source, and
    returns its commit; takes the commit that a person accepts. `out`: the folder of proposals. `tell`: takes
    events for the log. `notify`, `beat`: send messages and a heartbeat, and never fail.
    """

    load: Callable[[], Coroutine[Any, Any, Loaded]]
    fetch: Callable[[str], Coroutine[Any, Any, str]]
    out: Path
    clock: Clock
    tell: Tell
    notify: Callable[[Sequence[Event], ProjectSettings], Coroutine[Any, Any, None]]
    beat: Callable[[HeartbeatSection, ProjectSettings], Coroutine[Any, Any, None]]
    reporter: Reporter


class _Act:
    """What is sent in one scope. It can be cancelled until its first call."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.executor: Executor | None = None

    def cancel(self) -> None:
        if self.executor is not None:
            self.executor.stop()
        else:
            self.scope.cancel()


class Controller:
    """Looks, decides and acts until the event `stopped` is set."""

    def __init__(self, door: Door, stopped: anyio.Event) -> None:
        self._door, self._clock, self._tell = door, door.clock, door.tell
        self.statuses: dict[str, ScopeStatus] = {}
        self._seen: dict[str, Seen] = {}
        self._applied: dict[str, datetime] = {}
        self._calls: Counter[str] = Counter()
        self._asked: dict[str, str] = {}  # the last order to look at once, by scope, that was carried out
        self._failures: Counter[str] = Counter()
        self._due_s: dict[str, float] = {}  # when a scope that could not be read is due again
        self._round_s = 0.0
        self._saved_s, self._is_saved, self._is_first = 0.0, False, True
        self._seen_approvals: dict[Path, Collection[Path]] = {}
        self._again: set[str] = set()  # scopes to look at with the next tick
        self._busy: dict[str, _Act] = {}  # scopes that are acted on
        self._probing: anyio.CancelScope | None = None
        self._loaded: Loaded | None = None
        self._kept = memory.Kept()
        self._commit, self._fetch_s = "", 0.0
        self._stopped = stopped
        self._looking = anyio.CancelScope()
        self._proposals = Proposals(door.out)
        self._events: list[Event] = []  # of changes, to be sent
        self._silence = Silence()
        self._store: Spooling | None = None
        self._place: Any = None  # of the state whose store is open
        self._slots = anyio.CapacityLimiter(_AT_ONCE)

    async def run(self, *, once: bool = False) -> None:
        """Until it is stopped; with `once`, until each scope was looked at and acted on once."""
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._stop)
            async with anyio.create_task_group() as tasks:
                with self._looking:
                    while not self._stopped.is_set():
                        is_whole = await self._tick(tasks, once=once)
                        if once:
                            break
                        self._send_messages(watching, whole=is_whole)
                        await self._clock.sleep(min(_POLL_S, self._every_s))
            if once and not self._stopped.is_set():
                async with anyio.create_task_group() as tasks:
                    if self._again:
                        await self._round(tasks, {*self._again}, acts=False)
                    self._send_messages(tasks, whole=True)
            watching.cancel_scope.cancel()
        await self._close()

    async def _stop(self) -> None:
        """Once stopped: no look and no call begins any more; calls under way may end."""
        await self._stopped.wait()
        self._looking.cancel()
        if self._probing is not None:
            self._probing.cancel()
        for act in self._busy.values():
            act.cancel()

    # --- when ---

    @property
    def _every_s(self) -> float:
        return self._loaded.section.every_s if self._loaded is not None else _POLL_S

    async def _tick(self, tasks: TaskGroup, *, once: bool) -> bool:
        """Begin the round or the looks that are due now; whether it was a whole round."""
        now_s = self._clock.monotonic()
        if await self._fetched(now_s) or now_s >= self._round_s:
            await self._round(tasks, None, waits=once)
            self._round_s = now_s + self._every_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
            gc.collect()  # a command would end here; the collector looks rarely, so as not to slow one down
            return True
        await self._read_orders()
        asked = {
            scope
            for scope, order in self._kept.orders.items()
            if order.now and self._asked.get(scope) != order.now
        }
        for file, known in self._seen_approvals.items():
            if approvals_of(file) != known:
                asked.add(scope_of(file))
        if wanted := asked | self._again:
            self._again.clear()
            await self._round(tasks, wanted)
        return False

    async def _fetched(self, now_s: float) -> bool:
        """Whether the source is at another commit. Where it cannot be fetched, the last one goes on."""
        if now_s < self._fetch_s:
            return False
        try:
            commit = await self._door.fetch(self._kept.accepted)
        except ReconcilerError as failure:
            self._tell("source.unread", reason=_reason(failure))
            commit = self._commit
        source = self._loaded.section.source if self._loaded is not None else None
        self._fetch_s = now_s + (source.fetch_s if source is not None else self._every_s)
        is_other, self._commit = commit != self._commit, commit
        return is_other

    async def _newest(self) -> Loaded:
        """As a call must be planned by. Raises ReconcilerError where the newest commit is not known."""
        await self._door.fetch(self._kept.accepted)
        return await self._door.load()

    async def _read_orders(self) -> None:
        """Orders by people, and where they cannot be read the last ones."""
        if self._loaded is None:
            return
        try:
            self._kept = memory.read(await self._state(self._loaded))
        except ReconcilerError as failure:
            self._tell("state.unread", reason=failure.message)

    @property
    def view(self) -> View:
        """What it knows now, for those who watch."""
        environment = self._loaded.config.env if self._loaded is not None else ""
        return View(environment or BASE, dict(self.statuses), self._seen, self._applied, self._calls)

    def _run(self) -> Run:
        """This controller, as messages name it."""
        assert self._loaded is not None
        config = self._loaded.config
        who, platform = attribution_of(config), config.settings.platform.base_url or ""
        return Run("controller", config.env or BASE, platform, 0, who.actor, who.url, self._clock.now())

    def _send_messages(self, tasks: TaskGroup, *, whole: bool) -> None:
        """Send what changed, and after a `whole` round also what is silent, and the heartbeat."""
        if self._loaded is None:
            return
        section, config = self._loaded.section, self._loaded.config
        if whole:
            every = timedelta(seconds=section.every_s)
            self._events += self._silence.events(self.statuses, every, self._run())
            unseen = any(status.status is Status.UNKNOWN for status in self.statuses.values())
            if section.heartbeat is not None and not (unseen and section.heartbeat.after == "success"):
                tasks.start_soon(self._door.beat, section.heartbeat, config)
        events, self._events = self._events, []
        if events and config.settings.notify:
            tasks.start_soon(self._door.notify, events, config)

    async def _state(self, loaded: Loaded) -> State:
        """The state. Its store stays open: each look for orders then costs next to nothing."""
        place = loaded.config.settings.state, loaded.state_url
        try:
            if self._store is None or self._place != place:
                await self._close()
                require_own_place(loaded.config, loaded.state_url or loaded.config.settings.state_url)
                self._store = store_of(loaded.config, Opening(loaded.state_url))
                self._place = place
            return await self._store.load()
        except ReconcilerError:
            await self._close()
            raise

    async def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with anyio.CancelScope(shield=True):
                await store.close()

    # --- looking ---

    async def _round(
        self, tasks: TaskGroup, wanted: Collection[str] | None, *, waits: bool = False, acts: bool = True
    ) -> None:
        """Look at all scopes, or at those `wanted`; where it may act (`acts`), in tasks of their own.

        `waits`: scopes that could not be read lately are looked at whether they are due or not.
        """
        try:
            loaded = await self._door.load()
            self._loaded = loaded
            names = await self._scopes(loaded)
        except ReconcilerError as failure:
            idle = [scope for scope in self.statuses if scope not in self._busy]
            self._note({scope: Seen(Status.UNKNOWN, _reason(failure)) for scope in idle})
            self._tell("round.failed", reason=_reason(failure))
            return
        now_s = self._clock.monotonic()
        free = {scope for scope in names if scope not in self._busy} & {*(wanted or names)}
        suspended = {scope: why for scope in free if (why := self._kept.order(scope).suspended)}
        self._note({scope: Seen(Status.SUSPENDED, why) for scope, why in suspended.items()})
        free -= suspended.keys()
        failing = {scope for scope in free if self._failures[scope]}
        probed = {scope for scope in failing if wanted or waits or now_s >= self._due_s.get(scope, 0.0)}
        if probed and self._probing is None:
            self._probing = anyio.CancelScope()
            tasks.start_soon(self._probe, self._probing, tasks, loaded, probed, names)
        if healthy := free - failing:
            await self._look_at(tasks if acts else None, loaded, healthy, names)

    async def _scopes(self, loaded: Loaded) -> Collection[str]:
        """All scopes that are declared or recorded. Takes up what the state keeps."""
        state = await self._state(loaded)
        self._kept = memory.read(state)
        if self._is_first:
            self._is_first = False
            self._asked = {scope: order.now for scope, order in self._kept.orders.items()}
            self.statuses = {**self._kept.statuses, **self.statuses}
        names = {*scopes_of(state, loaded.desired.resources).values()} - {WHOLE_STATE}
        self.statuses = {scope: status for scope, status in self.statuses.items() if scope in names}
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
        for scope in looked_at:
            self._asked[scope] = self._kept.order(scope).now
        try:
            options = Options(loaded.state_url, read_only=True, take_signals=False)
            async with self._open(loaded, options) as project:
                whole = {*looked_at} == {*names}
                seen = await _look(project, loaded.desired, looked_at, whole=whole)
                self._again |= {*looked_at} - seen.keys()
                self._note(seen)
                await self._save(project)
        except ReconcilerError as failure:
            self._note({scope: Seen(Status.UNKNOWN, _reason(failure)) for scope in looked_at})
            return
        if tasks is None or loaded.section.mode == "observe":
            return
        for scope, found in seen.items():
            if not found.acts:
                self._proposals.drop(scope)
            elif found.success and scope not in self._busy and not self._stopped.is_set():
                self._busy[scope] = _Act()
                tasks.start_soon(self._act, scope)

    def _open(self, loaded: Loaded, options: Options) -> Any:
        desired = loaded.desired
        return open_project(loaded.config, options, self._door.reporter, desired.resources, desired.policies)

    def _note(self, seen: Mapping[str, Seen]) -> None:
        """Take up what was seen, and tell what changed."""
        now, now_s = self._clock.now(), self._clock.monotonic()
        for scope, found in seen.items():
            before, self._seen[scope] = self.statuses.get(scope), found
            if found.status is Status.CHANGES and before is not None and before.status is Status.PROPOSED:
                found = Seen(Status.PROPOSED, before.reason, found.acts)  # until the plan was made again
            status = (before or ScopeStatus(scope, found.status, now)).after(found, now)
            self.statuses[scope] = status
            told = (before.status, before.reason) if before is not None else None
            self._is_saved &= told == (status.status, status.reason)
            if before is None or before.status is not status.status:
                self._events += of_change(status, self._run())
                self._tell(
                    "scope.changed",
                    scope=scope,
                    status=str(status.status),
                    before=str(before.status) if before is not None else None,
                    reason=status.reason,
                )
            if found.status is Status.UNKNOWN:
                self._failures[scope] += 1
                rounds = min(2 ** (self._failures[scope] - 1), _MOST_ROUNDS)
                spread = random.uniform(1 - _JITTER, 1)  # noqa: S311 - no secret
                self._due_s[scope] = now_s + self._every_s * rounds * spread
            else:
                del self._failures[scope]

    async def _save(self, project: Project) -> None:
        """Keep all statuses in the state, where it can be written and something changed."""
        now_s = self._clock.monotonic()
        if self._is_saved and now_s < self._saved_s + max(_SAVE_S, self._every_s):
            return
        state = await project.store.load()
        self._is_saved, self._saved_s = True, now_s
        if not state.lineage:
            return
        gone = frozenset(memory.read(state).statuses.keys() - self.statuses.keys())
        try:
            await memory.write(project.store, project.actor(), self.statuses, gone)
        except ReconcilerError as failure:
            self._tell("statuses.unsaved", reason=_reason(failure))

    # --- acting ---

    async def _act(self, scope: str) -> None:
        """Send what may be sent in one scope, and propose the rest."""
        try:
            async with self._slots:
                with self._busy[scope].scope:
                    loaded = await self._newest()
                    options = Options(loaded.state_url, take_signals=False)
                    async with self._open(loaded, options) as project:
                        if (found := await self._sent_and_proposed(scope, loaded, project)) is not None:
                            self._note({scope: found})
                            await self._save(project)
        except Locked as failure:
            self._note({scope: Seen(Status.LOCKED, failure.message)})
        except ReconcilerError as failure:
            self._tell("apply.refused", scope=scope, reason=_reason(failure))
            self._note({scope: Seen(Status.CHANGES, _reason(failure))})
        finally:
            del self._busy[scope]

    async def _sent_and_proposed(self, scope: str, loaded: Loaded, project: Project) -> Seen | None:
        """None: another look tells."""
        section, proposals = loaded.section, self._proposals
        state = await project.store.load()
        about = _about(loaded.desired, state, {scope})
        plan = await make_plan(project, about)
        impacts = section.apply_impacts if section.mode == "apply" else ()
        sent = unattended(plan, impacts)
        rest = rest_of(plan, sent)
        left_open = any(opened.data.get("scope") == scope for opened in state.open_intents)
        if _does_something(sent) or recorded_bindings(sent, about.by_address) or left_open:
            await self._apply(scope, project, about, sent, NOTHING)
            now = await project.store.load()
            if now.heads.get(scope) != state.heads.get(scope):  # else nothing came of it, as of a question
                self._again.add(scope)
        if not _does_something(rest):
            proposals.drop(scope)
            return None
        if refuse_all(plan.diagnostics):
            return None
        file, is_new = proposals.keep(scope, rest)
        if is_new:
            self._tell("plan.proposed", scope=scope, file=str(file))
        signed = approvals_of(file)
        self._seen_approvals = {
            known: files for known, files in self._seen_approvals.items() if known.exists()
        } | {file: signed}
        why = "waits for approvals"
        if signed:
            try:
                saved = read_saved(file, loaded.config.env)
                await self._apply(scope, project, about, saved.plan, Given(read_approvals(signed)))
            except Locked:
                raise
            except ReconcilerError as failure:
                why = _reason(failure)
            else:
                proposals.drop(scope)
                self._again.add(scope)
                return None
        return Seen(Status.PROPOSED, f"{file.name}: {why}", acts=True)

    async def _apply(self, scope: str, project: Project, about: Desired, plan: Plan, given: Given) -> None:
        """As `apply --plan`. The plan is made anew, and what differs is refused."""

        def follow(executor: Executor) -> None:
            self._busy[scope].executor = executor
            self._note({scope: Seen(Status.APPLYING)})
            if self._stopped.is_set():
                executor.stop()

        applied = await run_saved(project, about, plan, (), given=given, on_executor=follow)
        outcomes = Counter(result.outcome for result in applied.results)
        self._calls.update(outcomes)
        self._applied[scope] = self._clock.now()
        self._tell("apply.ended", scope=scope, run=applied.run, **dict(outcomes))


async def _look(
    project: Project, desired: Desired, looked_at: Collection[str], *, whole: bool
) -> Mapping[str, Seen]:
    """One look at these scopes. `whole`: they are all there are."""
    state = await project.store.load()
    about = desired if whole else _about(desired, state, looked_at)
    drift = await find_drift(project, about)
    plan = await make_plan(project, about)
    before, state = state, await project.store.load()
    held = await project.store.holders(looked_at)
    # What was recorded meanwhile may stand on one side of a comparison alone: another look tells.
    quiet = {scope for scope in looked_at if state.heads.get(scope) == before.heads.get(scope)}
    return Look(
        drift,
        plan,
        state,
        desired.by_address,
        scopes_of(state, desired.resources),
        {scope: f"{locked.holder} is at work{locked.doubt}" for scope, locked in held.items()},
    ).seen(quiet | held.keys())


def _about(desired: Desired, state: State, scopes: Collection[str]) -> Desired:
    """`desired`, about what is declared or recorded in `scopes`; about all of it where nothing is."""
    known = {*desired.by_address, *state.records}
    by_address = scopes_of(state, desired.resources).items()
    return desired.with_targets(
        [address for address, scope in by_address if scope in scopes and address in known]
    )


def _does_something(plan: Plan) -> bool:
    return bool(plan.steps or plan.moves) or any(change.action.changes_something for change in plan.changes)


def _reason(failure: ReconcilerError) -> str:
    """The first problem of a failure in one line."""
    first = next(iter(failure.diagnostics), None) if isinstance(failure, Diagnosed) else None
    return in_a_line(first) if first is not None else failure.message
