"""Planning: what apply would do."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span, as_warning, error
from reconciler.core.errors import Locked, SecretUnavailable
from reconciler.core.model import Action, Address, Deletion, Observation, Resource, StateRecord
from reconciler.core.steps import Ask, OutputRef, Plan, Read
from reconciler.execution.open_intents import load_with_holders, overlay, parse_intent
from reconciler.execution.outputs import Outputs
from reconciler.execution.settling import Settlement
from reconciler.kinds import find_kinds
from reconciler.kinds.base import UNCHECKED_VALUE
from reconciler.kinds.roles import OnService, SendsSecret, service_of
from reconciler.moves.records import earlier_addresses, follow_moves
from reconciler.pipeline.authority import APPROVALS
from reconciler.pipeline.create_approvals import creates_to_approve, with_reasons
from reconciler.pipeline.declared import Desired, declared_scopes
from reconciler.pipeline.elsewhere import look_elsewhere
from reconciler.pipeline.identity import perhaps_other_state, state_missing
from reconciler.pipeline.in_force import loosened_ages
from reconciler.pipeline.older import Older
from reconciler.pipeline.project import Project, read_all
from reconciler.pipeline.targets import declared_in_focus, focused, moves_in_focus
from reconciler.pipeline.unrecorded import no_record_of
from reconciler.planning.lookalikes import lookalike_warnings, without_told
from reconciler.planning.planner import Planner
from reconciler.planning.request import PlanRequest
from reconciler.planning.reviewed import NOT_IN_PLAN
from reconciler.planning.siblings import Siblings
from reconciler.secrets.fingerprint import fingerprint
from reconciler.services.registry import providers_of
from reconciler.state.store import State

NOTHING_KNOWN = "the objects that were created before are not known, and this plan cannot be applied"


async def make_plan(
    project: Project,
    desired: Desired,
    *,
    undecided: Mapping[Address, Settlement] | None = None,
    with_exec: bool = False,
    approved_deletes: Collection[str] | None = None,
    found: tuple[State, Mapping[str, Locked]] | None = None,
) -> Plan:
    """What apply would do. `found`: the state and who is at work in it, if they were read just now.

    `undecided`: given by an apply, which has settled what it could (`settle_open`): then the plan is about
    to run, and an unreadable secret source is an error, not a warning: what needs it is refused. `with_exec`:
    programs that give secret values are run; an apply always runs them. `approved_deletes`: see
    `PlanRequest`.
    """
    project.sources.runs_programs = with_exec or undecided is not None
    state, holders = found or await load_with_holders(project.store)
    desired = focused(desired, state.records)
    records, questions = await overlay(
        state,
        services=project.services,
        clock=project.clock,
        limits=project.limits,
        concerned=concerned_scopes(desired, state, holders),
        holders=holders,
        undecided=undecided,
    )
    entries = moves_in_focus(desired)
    followed = follow_moves(find_kinds(), entries, desired.resources, records, questions)
    records = followed.records
    wanted = declared_in_focus(desired)
    takes_over = any(resource.address not in records for resource in wanted)
    unsigned = _unsigned_by(project, desired.by_address, records) if undecided is not None else {}
    planner = Planner(
        PlanRequest(
            id=project.new_id(),
            context=project.context(desired.origin, state.lineage),
            kinds=find_kinds(),
            resources=desired.resources,
            records=records,
            capabilities=project.capabilities,
            undecided={**questions, **followed.refused, **unsigned},
            focus=desired.focus,
            elsewhere=look_elsewhere(desired, records),
            siblings=await project.siblings() if takes_over else Siblings(),
            approved_deletes=approved_deletes,
        )
    )
    older = Older(state, desired.by_address, project.capabilities)

    def answer(read: Read, observation: Observation) -> None:
        older.look(read, observation)
        planner.answer(read, observation)

    await read_all(project, planner.reads(), answer, planner.about)
    await read_all(project, planner.more_reads(), planner.more_answer, planner.about)
    fingerprints, problems, unread = dict[Address, str](), list[Diagnostic](), list[Address]()
    if desired.trusted is not None:
        fingerprints = dict.fromkeys(desired.trusted.unchecked, UNCHECKED_VALUE)
    else:
        fingerprints, problems, unread = await _fingerprint_secrets(
            project, wanted, records, planner.live, need_secrets=undecided is not None
        )
    told = {str(entry.data["unclaimed"]) for entry in state.unclaimed}
    beside = without_told(planner.lookalikes.found, told)
    unlisted = planner.lookalikes.unread()
    problems += unlisted
    declared = desired.by_address
    if beside:
        siblings = await project.siblings()
        problems += lookalike_warnings(find_kinds(), beside, declared, records, siblings)
    problems = [*desired.diagnostics, *followed.diagnostics, *problems, *unsigned.values()]
    held = [*unread, *unsigned] if undecided is not None else ()
    plan = planner.finish(fingerprints, problems, held)
    doubted = planner.lookalikes.doubted
    if unlisted or doubted:  # another object may be the one of a lost reply
        kept = (
            each for each in plan.bindings if not (each.confirms and (unlisted or each.address in doubted))
        )
        plan = replace(plan, bindings=tuple(kept))
    plan = with_reasons(plan, creates_to_approve(project, plan, state, declared))
    about = {each.address: each for each in wanted}
    plan = replace(plan, loosened=tuple(loosened_ages(state, about, followed.moves)))
    asked = _asked(project, plan, state, declared) if undecided is None else []
    makes = {step.address for step in plan.steps if step.effect.id_path is not None}
    asks = {step.address for step in plan.steps if step.mutates and isinstance(step.recovery, Ask)}
    unclaimed = [no_record_of(entry, makes, asks) for entry in state.unclaimed]
    known = project.providers
    return replace(
        plan,
        diagnostics=(
            *_of_the_state(project, desired, declared, state, records, plan),
            *plan.diagnostics,
            *asked,
            *unclaimed,
            *older.told(),
        ),
        providers={name: known[name].base_url for name in providers_of(plan) if name in known},
        moves=followed.moves,
        manifests=desired.manifests,
        unread=plan.unread or tuple(unread),
    )


def _asked(
    project: Project, plan: Plan, state: State, declared: Mapping[Address, Resource]
) -> list[Diagnostic]:
    """The approvals that its apply will ask for, and rules that get weaker."""
    if not project.authority.now.rules and APPROVALS not in state.remembered:
        return []
    from reconciler.pipeline.judge_approvals import asked_of  # few projects have rules

    return asked_of(project, plan, state, declared)


def _of_the_state(
    project: Project,
    desired: Desired,
    declared: Collection[Address],
    state: State,
    records: Mapping[Address, StateRecord],
    plan: Plan,
) -> list[Diagnostic]:
    """Whether it is there, and the one that is meant. `records`: where they are after moves."""
    if not state.lineage:
        return [state_missing(project.state_url, NOTHING_KNOWN, traces=state.traces, refused=False)]
    if project.own_state or any(change.action is Action.REFUSED for change in plan.changes):
        return []  # what is refused is not applied, and may be what got another name
    recorded = (address for address, record in records.items() if desired.selected(record))
    found = perhaps_other_state(state.lineage, declared, recorded, project.state_url)
    return [found] if found is not None else []


def unchanged_in(plan: Plan, desired: Desired) -> list[Address]:
    """The resources that `plan`, made of `desired`, counts as unchanged."""
    changed, about = {str(change.address) for change in plan.changes}, declared_in_focus(desired)
    for told in plan.diagnostics:
        if told.code == NOT_IN_PLAN:  # planned, and taken out of `plan`
            changed.update(told.addresses)
    return [resource.address for resource in about if str(resource.address) not in changed]


def concerned_scopes(
    desired: Desired, state: State, holders: Mapping[str, Locked] = MappingProxyType({})
) -> frozenset[str]:
    """The scopes with something left over that the given manifests are about, also by what has left them.

    Not what has left in a scope that somebody is at work in (`holders`): its calls are that one's business.
    Raises Misused for a target that names nothing.
    """
    desired = focused(desired, state.records)
    if not state.open_intents and not state.spooled:
        return frozenset()
    about = declared_in_focus(desired) if desired.targets else desired.resources
    scopes = declared_scopes(about)
    for opened in state.open_intents:
        intent = parse_intent(opened)
        if (
            opened.address is not None
            and intent.scope not in holders
            and desired.selected(intent.record(opened.address, "", opened.at, inferred=False))
            and (not desired.targets or desired.focus is None or opened.address in desired.focus)
        ):
            scopes.add(intent.scope)
    wanted = {resource.address for resource in about}
    scopes |= {record.scope for record in state.records.values() if record.address in wanted}
    return frozenset(scopes)


def _unreadable(
    address: Address, what: str, missing: SecretUnavailable, span: Span | None = None
) -> Diagnostic:
    return error(
        "secret-source",
        f"`{address}`: {what} cannot be read here: {missing.message}",
        span,
        help=missing.help or "provide it where apply runs",
        advice=missing.advice,
        about=(address,),
    )


def _unsigned_by(
    project: Project, declared: Mapping[Address, Resource], records: Mapping[Address, StateRecord]
) -> Mapping[Address, Diagnostic]:
    """By address, the error that its provider's signing secret gives no value here."""
    kinds = {name: kind for name, kind in find_kinds().items() if kind.role(OnService) is not None}
    found: dict[Address, Diagnostic] = {}
    for address in {**declared, **records} if project.providers else ():
        is_kept = address not in declared and records[address].lifecycle.deletion is Deletion.RETAIN
        if address.kind not in kinds or is_kept:
            continue
        spec = declared[address].spec if address in declared else None
        provider = service_of(kinds[address.kind], spec, records.get(address))
        try:
            if provider in project.providers:
                project.providers[provider].check()
        except SecretUnavailable as missing:
            what = f"the signing secret of ExtensionProvider/{provider}"
            found[address] = _unreadable(address, what, missing)
    return found


async def _fingerprint_secrets(
    project: Project,
    resources: Sequence[Resource],
    records: Mapping[Address, StateRecord],
    live: Mapping[Address, Any],
    *,
    need_secrets: bool,
) -> tuple[dict[Address, str], list[Diagnostic], list[Address]]:
    """The fingerprints of all secret values that can be read now; what else is missing is reported.

    Last: the addresses whose source gives no value here.
    """
    kinds = find_kinds()
    outputs = Outputs()
    for address, item in live.items():
        outputs.put(str(address), item.model_dump())
    fingerprints: dict[Address, str] = {}
    problems, unread = [], []
    senders = {name: role for name, kind in kinds.items() if (role := kind.role(SendsSecret)) is not None}
    refs = [
        (each, senders[each.address.kind].secret(each)) for each in resources if each.address.kind in senders
    ]
    if project.sources.prepare(ref for _, ref in refs):
        await checkpoint()  # where a signal that ended a program is acted upon
    for resource, ref in refs:
        if project.sources.is_unchecked(ref):
            fingerprints[resource.address] = UNCHECKED_VALUE
            continue
        not_yet: list[OutputRef] = []

        def output(ref: OutputRef, not_yet: list[OutputRef] = not_yet) -> Any:
            value = outputs.get(ref)
            if value is None:
                not_yet.append(ref)
                return "not known yet"
            return value

        try:
            value = project.sources.value(ref, output)
        except SecretUnavailable as missing:
            span = resource.span("spec", "value_from")
            problem = _unreadable(resource.address, "the source", missing, span)
            problems.append(problem if need_secrets else as_warning(problem))
            unread.append(resource.address)
            continue
        if resource.address in records and not not_yet:
            key, record = await project.store.fingerprint_key(), records[resource.address]
            known = {fingerprint(key, each, value) for each in earlier_addresses(record)}
            recorded = record.applied.get("fingerprint")
            now = fingerprint(key, resource.address, value)
            fingerprints[resource.address] = recorded if recorded in known else now
    return fingerprints, problems, unread
