"""Drift: what moved on the platform without us."""

from collections import Counter

from reconciler.diagnostics import Diagnostic, Severity, error
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind
from reconciler.model import Change, Observation, StateRecord, owed_work
from reconciler.pipeline.project import Desired, Project, read_all
from reconciler.planning.decide import many_missing, may_be_invisible
from reconciler.planning.drift import drift_of
from reconciler.planning.moves import follow_moves
from reconciler.steps import Plan, Read


async def find_drift(project: Project, desired: Desired) -> Plan:
    """A plan without steps: what differs between the records and the platform. Sends nothing but GET."""
    state = await project.store.load()
    kinds = find_kinds()
    followed = follow_moves(kinds, desired.policies, desired.resources, state.records)
    records = followed.records
    wanted = {resource.address: resource for resource in desired.resources}
    by_read: dict[Read, list[StateRecord]] = {}
    unseen: Counter[Kind] = Counter()
    for record in records.values():
        kind = kinds.get(record.address.kind)
        if kind is None or record.address not in wanted:
            continue
        read = kind.located(record.address, record.id, project.capabilities, record=record)
        if read is not None:
            by_read.setdefault(read, []).append(record)
        else:
            unseen[kind] += 1
    changes: list[Change] = []
    problems: list[Diagnostic] = []
    missing: list[StateRecord] = []

    def compare(read: Read, observation: Observation) -> None:
        if not observation.complete:
            problems.append(error("unreadable", f"cannot read {read.path}: {observation.problem}"))
            return
        by_id = {item.id: item for item in observation.objects}
        for record in by_read[read]:
            kind = kinds[record.address.kind]
            live = by_id.get(record.id)
            if live is None and may_be_invisible(record, project.clock.now()):
                continue
            if live is None:
                missing.append(record)
            change = drift_of(kind, record, wanted[record.address], live)
            if change is not None:
                changes.append(change)

    await read_all(project, list(by_read), compare)
    compared = sum(map(len, by_read.values()))
    wave = many_missing(missing, compared)
    if wave is not None:
        problems.append(wave)
    return Plan(
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
            *map(_not_compared, unseen.items()),
        ),
        unchanged=compared - len(changes),
    )


def _not_compared(unseen: tuple[Kind, int]) -> Diagnostic:
    kind, count = unseen
    message = f"{kind.name}: {count} recorded, not compared ({kind.unreadable})"
    return Diagnostic("not-compared", Severity.INFO, message)
