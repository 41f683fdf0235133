"""Forecasts: the events until a later time. The clock of the twin moves on, and its objects are compared.

The twin does what the platform does by itself: snapshots are taken and expire. Manifests, settings and
records tell the rest: ignores that end, approvals that expire, and how fast volumes fill up.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from reconciler.approvals.in_force import Terms
from reconciler.approvals.judging import needed_by
from reconciler.approvals.rules import Needed
from reconciler.approvals.windows import Windows
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import Plan, Read
from reconciler.core.wire import many, parse_time
from reconciler.core.words import counted
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Subject
from reconciler.kinds.roles import GIB, Look, most_gb
from reconciler.planning.declared import Desired
from reconciler.project.looks import recorded_looks
from reconciler.project.plan import make_plan
from reconciler.project.project import Project, read_all
from reconciler.project.run import run_plan
from reconciler.project.trends import full_at, pace, recent
from reconciler.rehearsal.rehearse import original_of, rehearse
from reconciler.rehearsal.results import Forecast, Item, Rehearsal, by_time
from reconciler.reports.grouping import touches
from reconciler.services.machines.wire.volume import Snapshot
from reconciler.state.store import State

if TYPE_CHECKING:
    from reconciler.rehearsal.twin import Original, Twin


async def look_ahead(
    project: Project,
    desired: Desired,
    *,
    with_exec: bool = False,
    rehearses: bool = False,
    at: datetime | None = None,
    after_apply: bool = False,
) -> tuple[Plan, Rehearsal | None, Forecast | None]:
    """Return the plan, its rehearsal, and the forecast for `at`, as far as they are asked for.

    A plan with errors has neither, since it cannot be carried out.
    """
    seen: dict[Read, Observation] = {}
    plan = await make_plan(project, desired, with_exec=with_exec, on_answer=seen.__setitem__)
    if has_errors(plan.diagnostics):
        return plan, None, None
    rehearsal = await rehearse(project, desired, plan, seen) if rehearses else None
    ahead = None
    if at is not None:
        ahead = await forecast(project, desired, plan, seen, at, after_apply=after_apply)
    return plan, rehearsal, ahead


async def forecast(
    project: Project,
    desired: Desired,
    plan: Plan,
    observed: Mapping[Read, Observation],
    at: datetime,
    *,
    after_apply: bool = False,
) -> Forecast:
    """Return the events until `at`, with `plan` carried out first or with nothing done.

    `observed`: the answers that `plan` was made from. The platform is only read. Raises ReconcilerError where
    the sandbox is not installed, cannot hold the observed objects, or refuses the plan.
    """
    require_extra("sandbox", "a forecast")
    seen, begin = dict(observed), plan.context.at
    state = await project.store.load()
    records = state.records
    reads = _snapshot_reads(records, project.capabilities)
    await read_all(project, [read for read in reads.values() if read not in seen], seen.__setitem__)
    original, _ = await original_of(project, desired, plan, seen, {})
    platform_now = max((answer.at for answer in observed.values()), default=begin)  # by its own clock
    original = replace(original, begin=platform_now)
    then, items = await to_thread.run_sync(
        _on_twin, original, platform_now + (at - begin), after_apply, abandon_on_cancel=True
    )
    items += _ignores_over(desired.resources, then, begin, at)
    terms = Terms(project.authority, desired.by_address, state, plan)
    items += _windows(Windows(terms), plan, at)
    if not after_apply:  # whose approvals were used
        items += _approval_over(needed_by(terms), begin, at)
    items += _full_soon(state, desired.resources, seen, begin, at)
    items += [
        Item(address, f"its snapshots cannot be read: {seen[read].problem}", None)
        for address, read in reads.items()
        if not seen[read].complete
    ]
    return Forecast(at, tuple(sorted(items, key=by_time)), after_apply)


# --- on the twin ---


class _Objective(Struct, frozen=True):
    """`due`: when it is missed if nothing is done. `missed`: what it wants, if it is missed; else ""."""

    due: datetime
    missed: str


class _View(Struct, frozen=True):
    """What is there at one moment. `objectives`: by name. `snapshots`: the usable ones, by id."""

    now: datetime
    plan: Plan
    objectives: Mapping[tuple[Address, str], _Objective]
    snapshots: Mapping[Address, Mapping[str, Snapshot]]


def _on_twin(original: "Original", at: datetime, after_apply: bool) -> tuple[Plan, list[Item]]:
    """The plan that is made at `at`, and the events until then."""
    from reconciler.rehearsal.twin import Twin

    twin = Twin(original)
    try:
        return twin.run(_ahead(twin, at, after_apply))
    finally:
        twin.close()


async def _ahead(twin: "Twin", at: datetime, after_apply: bool) -> tuple[Plan, list[Item]]:
    if after_apply:
        await _carried_out(twin)
    before = await _view(twin)
    await asyncio.sleep(max(0.0, (at - twin.timeline.now()).total_seconds()))
    after = await _view(twin)
    missed = list(_newly_missed(before, after))
    return after.plan, [*missed, *_expired(before, after)]


async def _carried_out(twin: "Twin") -> None:
    from reconciler.rehearsal.process import Process

    plan = twin.original.plan
    resources = twin.original.desired().by_address
    deletes = frozenset(map(str, plan.deletes))
    try:
        await run_plan(twin.project(Process()), plan, approved_deletes=deletes, resources=resources)
    except ReconcilerError as failure:
        message = f"no forecast after the apply: on the twin, the plan is refused: {failure.message}"
        raise ReconcilerError(message, help="leave `--after-apply` out, or plan again") from None
    finally:
        twin.free()


async def _view(twin: "Twin") -> _View:
    from reconciler.rehearsal.process import Process

    seen: dict[Read, Observation] = {}
    project = twin.project(Process())
    plan = await make_plan(project, twin.original.desired(), on_answer=seen.__setitem__)
    records = twin.records
    reads = _snapshot_reads(records, project.capabilities)
    await read_all(project, [read for read in reads.values() if read not in seen], seen.__setitem__)
    live = {item.id: item for observation in seen.values() for item in observation.objects}
    listed = {address: seen[read].objects for address, read in reads.items() if seen[read].complete}
    objectives: dict[tuple[Address, str], _Objective] = {}
    for resource in twin.original.resources:
        address, record = resource.address, records.get(resource.address)
        if record is not None and record.id in live and address in listed:
            extra = {many(Snapshot): listed[address]}
            subject = Subject(address, resource, record, live[record.id], project.clock.now(), extra=extra)
            objectives |= {(address, name): found for name, found in _objectives(subject)}
    usable = {address: {item.id: item for item in items if item.usable} for address, items in listed.items()}
    return _View(project.clock.now(), plan, objectives, usable)


def _objectives(subject: Subject) -> Iterator[tuple[str, _Objective]]:
    kind = find_kinds()[subject.address.kind]
    if not subject.live.present:
        return
    missed = {change.path: change for change in kind.missed(subject)}
    for name, due in kind.due(subject).items():
        change = missed.get(name)
        yield name, _Objective(due, f"{name}: {change.before}" if change is not None else "")


def _newly_missed(before: _View, after: _View) -> Iterator[Item]:
    """Objectives that are not missed yet, and will be, for example when a snapshot expires."""
    for key, then in after.objectives.items():
        now = before.objectives.get(key)
        since = max(then.due, now.due) if now is not None else then.due
        if then.missed and since > before.now:
            yield Item(key[0], f"the objective `{then.missed}` is missed", since)


def _expired(before: _View, after: _View) -> Iterator[Item]:
    """The snapshots that expire, of objects that still exist; and the objects with no usable one left."""
    for address, had in before.snapshots.items():
        left = after.snapshots.get(address)
        gone = [snapshot for id, snapshot in had.items() if left is not None and id not in left]
        if not gone:
            continue
        times = [at for snapshot in gone if (at := _expires(snapshot)) is not None]
        names = ", ".join(sorted(snapshot.id for snapshot in gone))
        verb = "expires" if len(gone) == 1 else "expire"
        yield Item(address, f"{counted(len(gone), 'snapshot')} {verb}: {names}", min(times, default=None))
        if not left:
            yield Item(address, "no usable snapshot is left", max(times, default=None))


def _expires(snapshot: Snapshot) -> datetime | None:
    made = parse_time(snapshot.created_at)
    if made is None or snapshot.retention_days is None:
        return None
    return made + timedelta(days=snapshot.retention_days)


def _snapshot_reads(
    records: Mapping[Address, StateRecord], capabilities: frozenset[str]
) -> dict[Address, Read]:
    """The GET that lists the snapshots, of each recorded object that can have some."""
    kinds, found = find_kinds(), dict[Address, Read]()
    for address, record in records.items():
        if record.id:
            details = kinds[address.kind].details(address, record.id, capabilities).values()
            found.update((address, read) for read in details if read.shape == many(Snapshot))
    return found


# --- without it ---


def _ignores_over(resources: Sequence[Resource], then: Plan, begin: datetime, at: datetime) -> Iterator[Item]:
    """Ignores that end, and the changes that the plan `then` has for their fields."""
    fields = {change.address: change.fields for change in then.changes}
    for resource in resources:
        for ignore in resource.ignores if not resource.address.ordinal else ():
            if ignore.until is None or not begin.date() <= ignore.until < at.astimezone(UTC).date():
                continue
            differs = [
                f"{change.path} {change.before} -> {change.after}"
                for change in fields.get(resource.address, ())
                if change.path.partition(".")[0] == ignore.field
            ]
            then_done = f"; the plan is then {', '.join(differs)}" if differs else ""
            until = f"ignored until {ignore.until} ({ignore.reason})"
            what = f"`{ignore.field}` is compared again, {until}{then_done}"
            over = datetime.combine(ignore.until + timedelta(days=1), time(), UTC)
            yield Item(resource.address, what, over)


def _full_soon(
    state: State,
    resources: Sequence[Resource],
    seen: Mapping[Read, Observation],
    begin: datetime,
    at: datetime,
) -> Iterator[Item]:
    """The objects that reach the upper end of their range until `at`, and those without a trend."""
    live = {item.id: item for observation in seen.values() for item in observation.objects}
    for resource in resources:
        address, record = resource.address, state.records.get(resource.address)
        most = most_gb(find_kinds()[address.kind], resource.spec)
        if record is None or most is None:
            continue
        looks = recorded_looks(state, address.kind, record.id)
        now = Look.of(live[record.id], begin) if record.id in live else Look(begin)
        paces = {name: pace(recent(looks, name)) for name in ("total_bytes", "used_bytes")}
        if all(speed is None for speed in paces.values()):
            yield Item(address, "no trend known: no two runs have recorded how full it was", None)
        for name, speed in paces.items():
            amount = getattr(now, name)
            if speed is None or amount is None:
                continue
            when = full_at((begin, amount), most * GIB, speed)
            if when is not None and when <= at:
                what = "size" if name == "total_bytes" else "data"
                a_day = f"{speed * 86400 / GIB:.1f} GB more a day"
                what = f"its {what} reaches {most} GB, the upper end of its range ({a_day})"
                yield Item(address, what, when)


def _windows(windows: Windows, plan: Plan, at: datetime) -> Iterator[Item]:
    """What changes that wait, now or at `at`, find then."""
    for change in plan.changes:
        if touches(change) and (then := windows.waits(change, at)) is not None:
            yield Item(change.address, then.said(at), at)
        elif (now := change.waits) is not None:
            yield Item(change.address, f"does not wait for {now.window} any more", now.until)


def _approval_over(asked: Sequence[Needed], begin: datetime, at: datetime) -> Iterator[Item]:
    """The end of an approval that is given now. The rule with the shortest validity counts for the plan."""
    first = min(asked, key=lambda needed: needed.rule.lasts, default=None)
    if first is None or at < begin + first.rule.lasts:
        return
    others = len({address for needed in asked for address in needed.addresses}) - 1
    also = f", and for {counted(others, 'other resource')}" if others else ""
    what = (
        f"an approval given now has expired (valid {first.rule.valid}); one is needed for this change{also}"
    )
    yield Item(first.addresses[0], what, begin + first.rule.lasts)
