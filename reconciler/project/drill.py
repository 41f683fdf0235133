"""Runs restore drills: restores a copy of an object, looks at what came of it, and deletes it again.

Both calls are those of ordinary applies, which are about nothing but the drill's scratch object. So they are
journaled, leased, and settled after a crash. The object is known by its record, which says that it is scratch
before the restore is sent. Whatever a drill could not delete, the next one deletes first.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.errors import Locked, ReconcilerError, Refused
from reconciler.core.extras import require_extra
from reconciler.core.model import SCRATCH_NAME, Address, Deletion, Lifecycle, Resource
from reconciler.core.spans import parse_span
from reconciler.drills.checks.model import Checked, Facts, Place, Wanted
from reconciler.drills.results import Proof, Result, proofs, remember_result
from reconciler.execution.executor import Executor
from reconciler.execution.open_intents import parse_intent
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HoldsData, located, secret_of
from reconciler.planning.declared import Desired
from reconciler.policies import find_policies
from reconciler.policies.drill import Before, RestoreDrillSpec, declared_drills
from reconciler.project.apply import apply
from reconciler.project.identity import require_state
from reconciler.project.project import Project, settle_left
from reconciler.project.run import Applied
from reconciler.secrets.sensitive import Sensitive
from reconciler.state.store import State

ONE_AT_A_TIME = "drills/all"  # the scope of its lease: what a drill finds left over is no other's
CHECKS_S = 600.0  # how long all looks into one restored cluster may take
_TIMES = 3  # so many times `recover_within` a restore is waited for: a slow one is to be measured, too
_LEAST_S, _MOST_S = 1800, 86_400

OnExecutor = Callable[[Executor | None], None]


class Ran(Struct, frozen=True):
    """A drill of one object. `result`: None where it could not be run, and `why`. `left`: the address of the
    scratch object, where it could not be deleted.
    """

    drill: Address
    of: Address
    result: Result | None = None
    why: str = ""
    left: Address | None = None

    @property
    def passed(self) -> bool:
        return self.result is not None and self.result.passed


def due(
    desired: Desired, state: State, wanted: Collection[Address], now: datetime
) -> Sequence[tuple[Resource, Resource, Proof | None]]:
    """The drills to run, each with its object and what it has proven: the `wanted` ones, or those due now."""
    known = {(proof.drill, proof.of): proof for proof in proofs(desired.policies, desired.resources, state)}
    return [
        (drill, source, proof)
        for drill, source in declared_drills(desired.policies, desired.resources)
        for proof in (known.get((drill.address, source.address)),)
        if drill.address in wanted or (not wanted and proof is not None and proof.due(now))
    ]


async def run_drills(
    project: Project,
    desired: Desired,
    wanted: Collection[Address] = (),
    on_executor: OnExecutor = lambda _: None,
    *,
    accept: bool = False,
) -> Sequence[Ran]:
    """Run the `wanted` drills, or those that are due, one after the other.

    First whatever earlier drills have left is deleted. `accept`: no earlier drill is compared with, since
    what has left the databases was meant to. Raises Locked while another drill runs.
    """
    await require_state(project)
    project.sources.runs_programs = True
    ran: list[Ran] = []
    async with project.actor().leased(project.store, {ONE_AT_A_TIME}):
        cleaned = await clean(project, desired, on_executor)
        if cleaned is not None and cleaned.interrupted:
            return ran
        state = await project.store.load()
        if left := left_over(state):  # each drill would add one, and all of them have a price
            raise ReconcilerError(f"no drill runs while {left[0]} of an earlier one cannot be deleted")
        for drill, source, proof in due(desired, state, wanted, project.clock.now()):
            facts = proof.facts if proof is not None and not accept else None
            run = _Drill(project, desired, drill, source, facts, on_executor)
            try:
                ran.append(await run.run())
            except Locked:
                await run.delete()
                raise
            except ReconcilerError as failure:
                problems = failure.diagnostics if isinstance(failure, Refused) else ()
                why = "; ".join([failure.message, *(problem.message for problem in problems)])
                ran.append(Ran(drill.address, source.address, why=why, left=await run.delete()))
            if run.interrupted or ran[-1].left is not None:
                break
    return ran


async def clean(project: Project, desired: Desired, on_executor: OnExecutor) -> Applied | None:
    """Delete whatever drills have left behind; None: nothing. An open call of one is settled first."""
    state = await project.store.load()
    opened = map(parse_intent, state.open_intents)
    if scopes := {intent.scope for intent in opened if intent.lifecycle.scratch}:
        await settle_left(project, state, lambda state: scopes)
        state = await project.store.load()
    if not (left := left_over(state)):
        return None
    return await _apply(project, desired, (), left, on_executor)


def left_over(state: State) -> list[Address]:
    """What drills have restored into, and not deleted."""
    return [address for address, record in state.records.items() if record.lifecycle.scratch]


async def _apply(
    project: Project,
    desired: Desired,
    resources: Sequence[Resource],
    focus: Collection[Address],
    on_executor: OnExecutor,
) -> Applied:
    """Apply a plan that is about `focus` and nothing else. Without `resources`, it deletes that."""
    selected = Desired(
        resources, selected=lambda record: record.address in focus, focus=focus, origin=desired.origin
    )
    followed: list[Executor] = []

    def follow(executor: Executor) -> None:
        followed.append(executor)
        on_executor(executor)

    try:
        applied = await apply(
            project,
            selected,
            approve=lambda plan: True,
            approved_deletes=frozenset(() if resources else map(str, focus)),
            on_executor=follow,
        )
    finally:
        on_executor(None)
    # Also by a signal after its last step, which nothing else would know of.
    return replace(applied, interrupted=any(executor.stopping for executor in followed))


@dataclass
class _Drill:
    """One drill of one object. `facts`: what it is compared with. `interrupted`: a signal ended it."""

    project: Project
    desired: Desired
    drill: Resource
    source: Resource
    facts: Facts | None
    on_executor: OnExecutor
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.spec: RestoreDrillSpec = self.drill.spec
        self.kind = find_kinds()[self.source.address.kind]
        restorable = self.kind.role(HoldsData)
        assert restorable is not None  # see `undrillable`
        self.restorable = restorable
        name = f"{SCRATCH_NAME}{self.drill.address.name}-{self.project.new_id()[:8]}"
        self.address = self.source.address._replace(name=name, ordinal=0)  # never used before, nor again

    async def run(self) -> Ran:
        """Restore, look, remember what was found, and delete. Raises ReconcilerError where it cannot run."""
        project, at, password = self.project, self.project.clock.now(), self._password()
        source = await self._live(self.source.address)
        if source is None:
            raise ReconcilerError(f"`{self.source.address}` is not there: apply it first")
        shown_at = project.platform.time() or project.clock.now()
        result, facts = Result(at, False, "there is no finished backup or snapshot of it", source.id), None
        if (chosen := await self._choose(source, shown_at)) is not None:
            spec, copy, point = chosen
            result = await self._restore(replace(result, copy=copy, point=point), spec)
            if self.interrupted:
                why = f"interrupted; the next drill deletes {self.address}"
                return Ran(self.drill.address, self.source.address, why=why, left=self.address)
            if result.recovery_s is not None:
                try:
                    result, facts = await self._look(result, source, password)
                except anyio.get_cancelled_exc_class():
                    project.reporter.note(f"{self.address} is still there: the next drill deletes it")
                    raise
                result = _judged(result, shown_at)
        await remember_result(project.store, project.actor(), self.drill, self.source.address, result, facts)
        return Ran(self.drill.address, self.source.address, result, left=await self.delete())

    def _password(self) -> Sensitive | None:
        """Raises SecretUnavailable, or ReconcilerError for a missing extra, before anything is restored."""
        if self.spec.connect is not None:
            require_extra("postgres", "a drill that looks into a cluster")
        ref = secret_of(find_policies()[self.drill.address.kind], self.drill)
        return self.project.sources.value(ref, lambda output: None) if ref is not None else None

    async def _choose(self, source: Any, at: datetime) -> tuple[Any, str, datetime] | None:
        """The spec of what is restored, the backup, snapshot or moment for people, and the time of its data.

        None: there is no copy. `at`: the platform's time.
        """
        if isinstance(self.spec.from_, Before):
            before = at - parse_span(self.spec.from_.before)
            spec = self.restorable.restoring(self.source, source, None, before)
            return spec, f"{before:%Y-%m-%dT%H:%M:%SZ}", before
        usable: list[tuple[datetime, Any]] = []
        reads = self.restorable.details(self.source.address, source.id, self.project.capabilities)
        for read in reads.values():
            copies = (await self.project.services.read(read)).objects
            made = ((self.restorable.copied(copy), copy) for copy in copies)
            usable += [(when[0], copy) for when, copy in made if when is not None]
        if not usable:
            return None
        point, copy = max(usable, key=itemgetter(0))
        return self.restorable.restoring(self.source, source, copy, None), copy.id, point

    async def _live(self, address: Address) -> Any:
        """The recorded object at `address` as the platform shows it; None where there is none."""
        project = self.project
        record = (await project.store.load()).records.get(address)
        if record is None:
            return None
        read = located(self.kind, address, record.id, project.capabilities, record=record)
        assert read is not None
        objects = (await project.services.read(read)).objects
        return next((item for item in objects if item.id == record.id and item.present), None)

    async def _restore(self, result: Result, spec: Any) -> Result:
        """`result`, with `recovery_s` where it was restored. Raises ReconcilerError while it may not be."""
        project, address = self.project, self.address
        wait_s = _TIMES * parse_span(self.spec.recover_within).total_seconds()
        scratch = Resource(
            address,
            spec,
            Lifecycle(Deletion.SCRATCH, (), timeout_s=int(min(max(wait_s, _LEAST_S), _MOST_S))),
            self.drill.file,
            self.drill.spans,
            self.source.labels,
            references=tuple(self.kind.references(spec, address)),
        )
        began_s = project.clock.monotonic()
        applied = await _apply(project, self.desired, (self.source, scratch), {address}, self.on_executor)
        took_s = round(project.clock.monotonic() - began_s, 1)
        self.interrupted = applied.interrupted
        bad = next((step for step in applied.results if step.outcome != "done"), None)
        if bad is not None and any(change.waits for change in applied.plan.changes):
            raise ReconcilerError(f"its restore {bad.error}")  # in a freeze, for example; nothing was sent
        if bad is not None:
            return replace(result, why=f"the restore is {bad.outcome}: {bad.error}")
        if not applied.results:
            return replace(result, why="nothing was done")
        return replace(result, why="", recovery_s=took_s)

    async def _look(
        self, result: Result, source: Any, password: Sensitive | None
    ) -> tuple[Result, Facts | None]:
        """`result`, with what can be seen in the restored object, and what later drills compare with."""
        live, connect = await self._live(self.address), self.spec.connect
        if live is None:
            return replace(result, why="the restored object is not shown"), None
        checks = [Checked("ready", "passed", "the platform shows it as ready")]
        if live.size_gb is not None and source.size_gb is not None:
            sizes = f"{live.size_gb} GB of {source.size_gb} GB"
            checks.append(Checked("size", "passed" if live.size_gb >= source.size_gb else "failed", sizes))
        if connect is None or password is None:
            none = "not verified: the drill has no `connect`"
            return replace(result, checks=(*checks, Checked("contents", "not configured", none))), None
        from reconciler.drills.checks import cluster  # few drills have its extra

        exact = isinstance(self.spec.from_, Before)
        try:
            endpoint = self.restorable.endpoint(live, connect.endpoint)
            if endpoint is None:
                raise ReconcilerError("the platform shows no endpoint through which anybody could look")
            version, postgis = live.pg_major_version, live.postgis_enabled
            wanted = Wanted(version, postgis, result.point, self.spec.checks, self.facts, exact)
            looked = await cluster.look(Place(*endpoint, connect, password), wanted, deadline_s=CHECKS_S)
        except ReconcilerError as failure:  # a result, too: else what is due is restored again and again
            unseen = Checked("contents", "could not verify", failure.message)
            return replace(result, checks=(*checks, unseen)), None
        facts = looked.facts
        return replace(
            result,
            checks=(*checks, *looked.checks),
            recovery_point=facts.recovery_point,
            size_bytes=facts.size_bytes,
        ), facts

    async def delete(self) -> Address | None:
        """Delete the scratch object; its address where that did not succeed: the next drill does it."""
        with suppress(ReconcilerError):
            applied = await clean(self.project, self.desired, self.on_executor)
            self.interrupted = applied is not None and applied.interrupted
        records = (await self.project.store.load()).records
        return self.address if self.address in records else None


def _judged(result: Result, at: datetime) -> Result:
    """`result`, with whether it passed. `at`: the platform's time when it began."""
    newest = result.recovery_point or result.point
    if not result.checks or newest is None:
        return result
    bad = next((check for check in result.checks if check.verdict in ("failed", "could not verify")), None)
    why = f"{bad.name}: {bad.verdict}: {bad.detail}" if bad is not None else ""
    return replace(result, passed=not why, why=why, lost_s=max(0.0, (at - newest).total_seconds()))
