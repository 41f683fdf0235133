"""Rehearses a plan: makes its twin, chooses the calls that meet faults, and plays the matrix of both."""

import dataclasses
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import chain, zip_longest
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from msgspec.structs import replace

from reconciler.core.extras import require_extra
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import PLATFORM, Plan, Read, Step
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import OnService, secret_of
from reconciler.planning.declared import Desired
from reconciler.project.apply import about_targets
from reconciler.project.plan import make_plan, unchanged_in
from reconciler.project.project import Project
from reconciler.rehearsal.placeholders import Placeholders, placeholder
from reconciler.rehearsal.results import CALL_FAULTS, NONE, Rehearsal, Unrehearsed
from reconciler.secrets.fingerprint import fingerprint

if TYPE_CHECKING:
    from reconciler.rehearsal.cells import Played
    from reconciler.rehearsal.twin import Original

MOST_STEPS = 20  # of a larger plan a sample is rehearsed
_CELLS_A_WORKER = 24  # with fewer cells, a process costs more than it saves


async def rehearse_saved(project: Project, desired: Desired, plan: Plan) -> Rehearsal:
    """Rehearse a plan from a file, on the platform as it is now. No source of secrets is read.

    Only the resources of `desired` that the plan is about are rehearsed.
    """
    desired = about_targets(desired, plan)
    seen: dict[Read, Observation] = {}
    without_secrets = dataclasses.replace(project, sources=Placeholders())
    await make_plan(without_secrets, desired, on_answer=seen.__setitem__)
    return await rehearse(project, desired, plan, seen)


async def rehearse(
    project: Project,
    desired: Desired,
    plan: Plan,
    observed: Mapping[Read, Observation],
    *,
    switches: Mapping[str, Any] | None = None,
) -> Rehearsal:
    """Carry `plan` out on a twin of the observed platform, once clean and once for each call and fault.

    It does not touch the platform, the state or a source of secrets. `switches`: of the sandbox. Raises
    ReconcilerError where the sandbox is not installed, or cannot hold the observed objects.
    """
    require_extra("sandbox", "a rehearsal")
    from reconciler.rehearsal.twin import assumptions

    original, left = await original_of(project, desired, plan, observed, switches or {})
    plan = original.plan
    (clean,) = await to_thread.run_sync(_play_all, original, [("", NONE)], abandon_on_cancel=True)
    sent = {call.step for call in clean.sent}
    sending = [step for step in plan.steps if step.mutates and step.id in sent]
    struck = _sample(sending)
    cells = [(step.id, fault) for step in struck for fault in CALL_FAULTS]
    played = await to_thread.run_sync(_play_all, original, cells, abandon_on_cancel=True)
    return Rehearsal(
        tuple(step.id for step in struck),
        len(sending),
        (clean.cell, *(run.cell for run in played)),
        clean.differences,
        tuple(Unrehearsed(address, why) for address, why in left.items()),
        assumptions(clean.asked.union(*(run.asked for run in played)), known=original.switches),
    )


def _play_all(original: "Original", cells: Sequence[tuple[str, str]]) -> "Sequence[Played]":
    from reconciler.rehearsal.cells import play

    with _pool(min(os.cpu_count() or 1, len(cells) // _CELLS_A_WORKER)) as pool:
        runs = [pool.submit(play, original, step, fault) for step, fault in cells]
        return [run.result() for run in runs]


def _pool(workers: int) -> Executor:
    if workers < 2:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


async def original_of(
    project: Project,
    desired: Desired,
    plan: Plan,
    observed: Mapping[Read, Observation],
    switches: Mapping[str, Any],
) -> "tuple[Original, Mapping[Address, str]]":
    """The original of a twin, and the resources that have no twin, with the reason."""
    from reconciler.rehearsal.seed import seed_of
    from reconciler.rehearsal.twin import Original

    left = _without_twin(plan, desired)
    plan = plan.without(left)
    state = await project.store.load()
    resources = [resource for resource in desired.resources if resource.address not in left]
    records = {address: record for address, record in state.records.items() if address not in left}
    lineage = state.lineage or "rehearsal"
    original = Original(
        plan=replace(plan, context=replace(plan.context, lineage=lineage)),
        begin=plan.context.at,
        seed=seed_of(observed, resources, records),
        lineage=lineage,
        records=_with_placeholders(records, resources, unchanged_in(plan, desired)),
        resources=resources,
        policies=desired.policies,
        focus=desired.focus,
        targets=desired.targets,
        selected=frozenset(address for address, record in records.items() if desired.selected(record)),
        declared=frozenset(address for address, record in records.items() if desired.declared(record)),
        capabilities=project.capabilities,
        limits=project.limits,
        rate_limit=project.platform.rate.per_second,
        switches=switches,
    )
    return original, left


def _with_placeholders(
    records: Mapping[Address, StateRecord], resources: Sequence[Resource], unchanged: Sequence[Address]
) -> dict[Address, StateRecord]:
    """`records` with the fingerprint of the placeholder for each unchanged secret."""
    from reconciler.rehearsal.twin import KEY

    kinds, found = find_kinds(), dict(records)
    for resource in resources:
        address = resource.address
        ref = secret_of(kinds[address.kind], resource)
        if ref is not None and address in found and address in unchanged:
            applied = {**found[address].applied, "fingerprint": fingerprint(KEY, address, placeholder(ref))}
            found[address] = replace(found[address], applied=applied)
    return found


def _without_twin(plan: Plan, desired: Desired) -> dict[Address, str]:
    """The resources that are not rehearsed: those of other services, and those that refer to them."""
    kinds = find_kinds()
    left: dict[Address, str] = {}
    for resource in desired.resources:
        service = kinds[resource.address.kind].role(OnService)
        if service is not None:
            left[resource.address] = _no_twin_of(service.service(resource.spec, None))
    for step in plan.steps:
        if step.call.service != PLATFORM:
            left.setdefault(step.address, _no_twin_of(step.call.service))
    size = -1
    while size < len(left):
        size = len(left)
        for resource in desired.resources:
            needed = kinds[resource.address.kind].references(resource.spec, resource.address)
            missing = next((to.address for to in needed if to.address in left), None)
            if missing is not None:
                left.setdefault(resource.address, f"it needs `{missing}`, which is not rehearsed")
    return left


def _no_twin_of(service: str) -> str:
    return f"the provider `{service}` has no twin"


def _sample(steps: Sequence[Step]) -> Sequence[Step]:
    """At most `MOST_STEPS` steps, in the order of the plan: one of each sort by turns."""
    if len(steps) <= MOST_STEPS:
        return steps
    sorts: dict[Any, list[Step]] = defaultdict(list)
    for step in steps:
        sorts[step.address.kind, step.call.method, step.recovery.how, step.wait is None].append(step)
    by_turns = [step for step in chain.from_iterable(zip_longest(*sorts.values())) if step is not None]
    chosen = {step.id for step in by_turns[:MOST_STEPS]}
    return [step for step in steps if step.id in chosen]
