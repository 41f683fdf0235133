"""Drift: what moved on the platform without us."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import Address, Change, Observation, Resource, StateRecord, owed_work
from reconciler.core.steps import Plan, Read
from reconciler.drift.compare import drift_of
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import located
from reconciler.moves.records import follow_moves
from reconciler.pipeline.project import Desired, Project, read_all
from reconciler.planning.decide import many_missing, may_be_invisible
from reconciler.planning.ignores import in_force


@dataclass(frozen=True, slots=True)
class Drifted:
    """An object with a change: as the manifest wants it, as it is recorded, and as it is (None: nowhere)."""

    resource: Resource
    record: StateRecord
    live: Any


@dataclass(frozen=True, slots=True)
class Drift:
    """A plan without steps, and behind each of its changes what was compared."""

    plan: Plan
    drifted: Mapping[Address, Drifted]


async def find_drift(project: Project, desired: Desired) -> Plan:
    """A plan without steps: what differs between the records and the platform. Sends nothing but GET."""
    return (await look_for_drift(project, desired)).plan


async def look_for_drift(project: Project, desired: Desired) -> Drift:
    """As `find_drift`, with what it found."""
    state = await project.store.load()
    kinds = find_kinds()
    followed = follow_moves(kinds, desired.policies, desired.resources, state.records)
    records = followed.records
    wanted: dict[Address, Resource] = {}
    problems: list[Diagnostic] = []
    remarks: list[Diagnostic] = []
    for resource in desired.resources:
        wanted[resource.address], expired = in_force(resource, project.clock.now())
        problems += expired
    by_read: dict[Read, list[StateRecord]] = {}
    unseen: Counter[Kind] = Counter()
    for record in records.values():
        kind = kinds.get(record.address.kind)
        if kind is None or record.address not in wanted:
            continue
        read = located(kind, record.address, record.id, project.capabilities, record=record)
        if read is not None:
            by_read.setdefault(read, []).append(record)
        else:
            unseen[kind] += 1
    changes: list[Change] = []
    drifted: dict[Address, Drifted] = {}
    missing: list[StateRecord] = []

    def compare(read: Read, observation: Observation) -> None:
        if not observation.complete:
            problems.append(error("unreadable", f"cannot read {read.path}: {observation.problem}"))
            return
        by_id = {item.id: item for item in observation.objects}
        for record in by_read[read]:
            kind, resource = kinds[record.address.kind], wanted[record.address]
            live = by_id.get(record.id)
            if live is None and may_be_invisible(record, project.clock.now()):
                continue
            if live is None:
                missing.append(record)
            change, ignored = drift_of(kind, record, resource, live)
            remarks.extend(ignored)
            if change is not None:
                changes.append(change)
                drifted[record.address] = Drifted(resource, record, live)

    await read_all(project, list(by_read), compare)
    compared = sum(map(len, by_read.values()))
    wave = many_missing(missing, compared)
    if wave is not None:
        problems.append(wave)
    plan = Plan(
        id=project.new_id(),
        lineage=state.lineage,
        created_at=project.clock.now(),
        changes=tuple(sorted(changes, key=lambda change: str(change.address))),
        steps=(),
        expectations=(),
        bindings=(),
        owed=owed_work(records),
        diagnostics=(
            *desired.diagnostics,
            *followed.refused.values(),
            *followed.diagnostics,
            *problems,
            *sorted(remarks, key=lambda remark: remark.message),  # answers come in no certain order
            *map(_not_compared, unseen.items()),
        ),
        unchanged=compared - len(changes),
    )
    return Drift(plan, drifted)


def _not_compared(unseen: tuple[Kind, int]) -> Diagnostic:
    kind, count = unseen
    message = f"{kind.name}: {count} recorded, not compared ({kind.unreadable})"
    return Diagnostic("not-compared", Severity.INFO, message)
