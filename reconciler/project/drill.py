"""Runs restore drills: restores a copy of an object, looks at what came of it, and deletes it again.

Both calls are those of ordinary applies, which are about nothing but the drill's scratch object. So they are
journaled, leased, and settled after a crash. The object is known by its record, which says that it is scratch
before the restore is sent. Whatever a drill could not delete, the next one deletes first.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from reconciler.core.errors import Locked, ReconcilerError, Refused
from reconciler.core.extras import require_extra
from reconciler.core.model import SCRATCH_NAME, Address, Deletion, Lifecycle, Resource, is_scratch
from reconciler.core.spans import parse_span
from reconciler.drills.checks import look_into
from reconciler.drills.checks.model import Checked, Facts, Place, SqlCheck, Wanted
from reconciler.drills.results import Proof, Result, proofs, remember_result
from reconciler.execution.executor import Executor
from reconciler.execution.open_intents import parse_intent
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HoldsData, located, secret_of
from reconciler.planning.declared import Desired
from reconciler.policies import find_policies
from reconciler.policies.drill import Before, Connect, RestoreDrillSpec, drilled
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


def due(
    desired: Desired, state: State, wanted: Collection[Address], now: datetime
) -> Sequence[tuple[Resource, Resource, Proof | None]]:
    """The drills to run, each with its object and what it has proven: the `wanted` ones, or those due now."""
    known = {(proof.drill, proof.of): proof for proof in proofs(desired.policies, desired.resources, state)}
    found = []
    for drill in desired.policies:
        for source in drilled(drill, desired.resources) if isinstance(drill.spec, RestoreDrillSpec) else ():
            proof = known.get((drill.address, source.address))
            if drill.address in wanted or (not wanted and proof is not None and proof.due(now)):
                found.append((drill, source, proof))
    return found


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
        await clean(project, desired, on_executor)
        state = await project.store.load()
        if left := _left(state):  # each drill would add one, and all of them have a price
            raise ReconcilerError(f"no drill runs while {left[0]} of an earlier one cannot be deleted")
        for drill, source, proof in due(desired, state, wanted, project.clock.now()):
            good = proof.good if proof is not None and not accept else None
            run = _Drill(project, desired, drill, source, good, on_executor)
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
    scopes = {
        intent.scope
        for opened in state.open_intents
        if (intent := parse_intent(opened)).lifecycle.deletion is Deletion.SCRATCH
    }
    if scopes:
        await settle_left(project, state, lambda state: scopes)
        state = await project.store.load()
    if not (left := _left(state)):
        return None
    return await _apply(project, _only(desired, (), left), on_executor, deletes=left)


def _left(state: State) -> list[Address]:
    """What drills have restored into, and not deleted."""
    return [address for address in state.records if is_scratch(address, {}, state.records)]


def _only(desired: Desired, resources: Sequence[Resource], focus: Collection[Address]) -> Desired:
    """Manifests that declare `resources`, for a plan that is about `focus` and nothing else."""
    return Desired(
        resources, selected=lambda record: record.address in focus, focus=focus, origin=desired.origin
    )


async def _apply(
    project: Project,
    desired: Desired,
    on_executor: OnExecutor,
    deletes: Collection[Address] = (),
) -> Applied:
    try:
        return await apply(
            project,
            desired,
            approve=lambda plan: True,
            approved_deletes=frozenset(map(str, deletes)),
            on_executor=on_executor,
        )
    finally:
        on_executor(None)


class _Restoring(Struct, frozen=True):
    """A restore into an object of this `spec`. `copy`: the backup, snapshot or moment, for people.

    `point`: the newest time of the data that are promised.
    """

    spec: Any
    copy: str
    point: datetime


class _Drill:
    """One drill of one object. `interrupted`: a signal ended it."""

    def __init__(
        self,
        project: Project,
        desired: Desired,
        drill: Resource,
        source: Resource,
        good: Result | None,
        on_executor: OnExecutor,
    ) -> None:
        self.project, self.desired, self.drill, self.source = project, desired, drill, source
        self.spec: RestoreDrillSpec = drill.spec
        self.good, self.on_executor = good, on_executor
        self.interrupted = False
        kind = find_kinds()[source.address.kind]
        restorable = kind.role(HoldsData)
        assert restorable is not None  # see `undrillable`
        self.kind, self.restorable = kind, restorable
        name = f"{SCRATCH_NAME}{drill.address.name}-{project.new_id()[:8]}"
        self.address = source.address._replace(name=name, ordinal=0)  # never used before, nor again

    async def run(self) -> Ran:
        """Restore, look, remember what was found, and delete. Raises ReconcilerError where it cannot run."""
        project, at = self.project, self.project.clock.now()
        password = self._password()
        restoring = await self._restoring()
        if restoring is None:
            result = Result(at, False, "there is no finished backup or snapshot of it", self.id)
        else:
            result = await self._restore(at, restoring, password)
            if self.interrupted:
                why = f"interrupted; the next drill deletes {self.address}"
                return Ran(self.drill.address, self.source.address, why=why, left=self.address)
        await remember_result(project.store, project.actor(), self.drill, self.source.address, result)
        return Ran(self.drill.address, self.source.address, result, left=await self.delete())

    def _password(self) -> Sensitive | None:
        """Raises SecretUnavailable, or ReconcilerError for a missing extra, before anything is restored."""
        if self.spec.connect is not None:
            require_extra("postgres", "a drill that looks into a cluster")
        ref = secret_of(find_policies()[self.drill.address.kind], self.drill)
        return self.project.sources.value(ref, lambda output: None) if ref is not None else None

    async def _restoring(self) -> _Restoring | None:
        """What is restored; None: there is no copy. Raises ReconcilerError for a source that is not there."""
        live = await self._live(self.source.address)
        if live is None:
            raise ReconcilerError(f"`{self.source.address}` is not there: apply it first")
        self.id, self.size_gb = live.id, getattr(live, "size_gb", None)
        self.platform_at = self.project.platform.time() or self.project.clock.now()
        if isinstance(self.spec.from_, Before):
            before = self.platform_at - parse_span(self.spec.from_.before)
            spec = self.restorable.restoring(self.source, live, None, before)
            return _Restoring(spec, f"{before:%Y-%m-%dT%H:%M:%SZ}", before)
        usable: list[tuple[datetime, Any]] = []
        for read in self.restorable.details(self.source.address, live.id, self.project.capabilities).values():
            copies = (await self.project.services.read(read)).objects
            made = ((self.restorable.copied(copy), copy) for copy in copies)
            usable += [(when[0], copy) for when, copy in made if when is not None]
        if not usable:
            return None
        point, copy = max(usable, key=itemgetter(0))
        return _Restoring(self.restorable.restoring(self.source, live, copy, None), copy.id, point)

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

    async def _restore(self, at: datetime, restoring: _Restoring, password: Sensitive | None) -> Result:
        """Restore into the scratch object, and look at it. Raises ReconcilerError while it may not."""
        project, address = self.project, self.address
        within_s = parse_span(self.spec.recover_within).total_seconds()
        scratch = Resource(
            address,
            restoring.spec,
            Lifecycle(Deletion.SCRATCH, (), timeout_s=int(min(max(_TIMES * within_s, _LEAST_S), _MOST_S))),
            self.drill.file,
            self.drill.spans,
            self.source.labels,
            references=tuple(self.kind.references(restoring.spec, address)),
        )
        result = Result(at, False, "", self.id, restoring.copy, point=restoring.point)
        began_s = project.clock.monotonic()
        only = _only(self.desired, (self.source, scratch), {address})
        applied = await _apply(project, only, self.on_executor)
        took_s = round(project.clock.monotonic() - began_s, 1)
        self.interrupted = applied.interrupted
        bad = next((step for step in applied.results if step.outcome != "done"), None)
        if bad is not None and any(change.waits for change in applied.plan.changes):
            raise ReconcilerError(f"its restore {bad.error}")  # in a freeze, for example; nothing was sent
        if bad is not None or not applied.results:
            return replace(
                result, why=f"the restore is {bad.outcome}: {bad.error}" if bad else "nothing was done"
            )
        result = replace(result, recovery_s=took_s)
        live = await self._live(address)
        if live is None:
            return replace(result, why="the restored object is not shown")
        result = await self._looked(result, live, password)
        if (newest := result.recovery_point or result.point) is not None:
            result = replace(result, lost_s=max(0.0, (self.platform_at - newest).total_seconds()))
        bad_check = next(
            (check for check in result.checks if check.verdict in ("failed", "could not verify")), None
        )
        if bad_check is not None:
            return replace(result, why=f"{bad_check.name}: {bad_check.verdict}: {bad_check.detail}")
        return replace(result, passed=True)

    async def _looked(self, result: Result, live: Any, password: Sensitive | None) -> Result:
        """`result`, with what can be seen in the restored object."""
        connect, size_gb = self.spec.connect, getattr(live, "size_gb", None)
        checks = [Checked("ready", "passed", "the platform shows it as ready")]
        if size_gb is not None and self.size_gb is not None:
            fits = size_gb >= self.size_gb
            checks.append(
                Checked("size", "passed" if fits else "failed", f"{size_gb} GB of {self.size_gb} GB")
            )
        if connect is None or password is None:
            none = "not verified: the drill has no `connect`"
            return replace(result, checks=(*checks, Checked("contents", "not configured", none)))
        endpoint = self.restorable.endpoint(live, connect.endpoint)
        try:
            if endpoint is None:
                raise ReconcilerError("the platform shows no endpoint through which anybody could look")
            looked = await look_into(
                _place(endpoint, connect, password), self._wanted(result, live), deadline_s=CHECKS_S
            )
        except ReconcilerError as failure:  # a result, too: else what is due is restored again and again
            unseen = Checked("contents", "could not verify", failure.message)
            return replace(result, checks=(*checks, unseen))
        return replace(
            result,
            checks=(*checks, *looked.checks),
            recovery_point=looked.recovery_point,
            size_bytes=looked.size_bytes,
            facts=to_builtins(looked.facts),
        )

    def _wanted(self, result: Result, live: Any) -> Wanted:
        before = self.good.facts if self.good is not None else {}
        return Wanted(
            pg_major_version=live.pg_major_version,
            postgis_enabled=live.postgis_enabled,
            point=result.point,
            checks=tuple(SqlCheck(check.sql, check.expect) for check in self.spec.checks),
            before=convert(before, Facts) if before else None,
            exact=isinstance(self.spec.from_, Before),
        )

    async def delete(self) -> Address | None:
        """Delete the scratch object; its address where that did not succeed: the next drill does it."""
        with suppress(ReconcilerError):
            applied = await clean(self.project, self.desired, self.on_executor)
            self.interrupted = applied is not None and applied.interrupted
        records = (await self.project.store.load()).records
        return self.address if self.address in records else None


def _place(endpoint: tuple[str, int], connect: Connect, password: Sensitive) -> Place:
    host, port = endpoint
    return Place(host, port, connect.user, password, connect.database, connect.sslmode)
