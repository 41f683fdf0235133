"""Gathers all that a plan is made from: the state, live objects, secrets, other files and states.

Planning itself reads nothing. It asks other manifest files and other environments only where a new resource
may be what a record without a manifest was made for.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from anyio.lowlevel import checkpoint
from msgspec import Struct

from reconciler.approvals.in_force import all_known, rules_count
from reconciler.approvals.rules import Authority
from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, Span, as_warning, error
from reconciler.core.errors import Locked, ReconcilerError, SecretUnavailable
from reconciler.core.model import Address, Deletion, Observation, Resource, StateRecord
from reconciler.core.steps import OutputRef, Read
from reconciler.drills.results import Proof, proofs
from reconciler.execution.open_intents import load_with_holders, overlay
from reconciler.execution.outputs import Outputs
from reconciler.execution.settling import Settlement
from reconciler.kinds import find_kinds
from reconciler.kinds.base import UNCHECKED_VALUE
from reconciler.kinds.roles import OnService, SendsSecret, object_of, service_of
from reconciler.moves.compare import OtherManifests, questions
from reconciler.moves.records import Followed, follow_moves
from reconciler.planning.conflicts import Siblings
from reconciler.planning.declared import Desired
from reconciler.planning.lookalikes import without_named
from reconciler.planning.planner import Planner
from reconciler.planning.subjects import PlanRequest
from reconciler.project.project import Project, read_all
from reconciler.project.records import Older
from reconciler.project.scopes import (
    concerned_scopes,
    declared_in_focus,
    focused,
    moves_in_focus,
    with_questions,
)
from reconciler.project.secret import compare_fingerprints
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import Opening, open_state
from reconciler.state.store import State

_DAY = timedelta(days=1)

Found = tuple[State, Mapping[str, Locked]]


class SecretValues(Struct, frozen=True):
    """The fingerprints of the secret values that can be read here.

    `unread`: the addresses whose source gives no value; `problems` say why.
    """

    fingerprints: Mapping[Address, str]
    problems: Sequence[Diagnostic] = ()
    unread: Sequence[Address] = ()


class PlanInputs(Struct, frozen=True):
    """All that a plan and the verdicts about it are made from. Nothing is read after this.

    `desired`: with the focus of its targets. `state`: as it was read; `request.records` has what open calls
    and moves make of it. `planner`, `older`: have taken each answer as it came, because those of 100,000
    objects do not fit into memory. `unsigned`: addresses whose provider cannot be asked here, and why.
    `lookalikes`: unowned objects, by the recorded address that they resemble. `will_run`: an apply plans.
    `providers`: the address of each by its name. `own_state`: see `Project`. `spent`: as of
    `approvals.judging.spent_on`; an apply looks itself. `proofs`: what drills prove.
    """

    desired: Desired
    state: State
    request: PlanRequest
    followed: Followed
    wanted: Sequence[Resource]
    declared: Mapping[Address, Resource]
    planner: Planner
    older: Older
    secrets: SecretValues
    unsigned: Mapping[Address, Diagnostic]
    lookalikes: Mapping[Address, Sequence[str]]
    siblings: Siblings
    will_run: bool
    authority: Authority
    providers: Mapping[str, str]
    own_state: bool
    spent: Any
    proofs: Sequence[Proof]


async def gather(
    project: Project,
    desired: Desired,
    found: Found | None = None,
    *,
    undecided: Mapping[Address, Settlement] | None = None,
    with_exec: bool = False,
    approved_deletes: Collection[str] | None = None,
    on_answer: Callable[[Read, Observation], None] = lambda read, observation: None,
) -> PlanInputs:
    """Read everything that a plan needs. The parameters are those of `make_plan`."""
    will_run, kinds = undecided is not None, find_kinds()
    project.sources.runs_programs = with_exec or will_run
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
    desired = with_questions(desired, entries, questions, records)
    followed = follow_moves(kinds, entries, desired.resources, records, questions)
    records, declared, wanted = followed.records, desired.by_address, declared_in_focus(desired)
    unsigned = _unsigned_by(project, declared, records) if will_run else {}
    takes_over = any(resource.address not in records for resource in wanted)
    siblings = await read_siblings(project.environments) if takes_over else None
    request = PlanRequest(
        id=project.new_id(),
        context=project.context(desired.origin, state.lineage),
        kinds=kinds,
        resources=desired.resources,
        records=records,
        capabilities=project.capabilities,
        undecided={**questions, **followed.refused, **unsigned},
        focus=desired.focus,
        other_manifests=look_into_other_manifests(desired, records),
        siblings=siblings or Siblings(),
        approved_deletes=approved_deletes,
        extended_gb=await _extended_gb(project, wanted, records),
    )
    planner, older = Planner(request), Older(state, declared, project.capabilities)

    def answer(read: Read, observation: Observation) -> None:
        """Hand on the answer to one of the first reads."""
        on_answer(read, observation)
        older.look(read, observation)
        planner.answer(read, observation)

    def more_answer(read: Read, observation: Observation) -> None:
        """Hand on the answer to a read that an answer made necessary."""
        on_answer(read, observation)
        planner.more_answer(read, observation)

    await read_all(project, planner.reads(), answer, planner.about)
    await read_all(project, planner.more_reads(), more_answer, planner.about)
    if desired.trusted is not None:  # no value is read: see `compare_with_trusted`
        secrets = SecretValues(dict.fromkeys(desired.trusted.unchecked, UNCHECKED_VALUE))
    else:
        secrets = await _secret_values(project, wanted, records, planner.live, required=will_run)
    unclaimed = {str(entry.data["unclaimed"]) for entry in state.unclaimed}
    lookalikes = without_named(planner.lookalikes.found, unclaimed)
    if lookalikes and siblings is None:
        siblings = await read_siblings(project.environments)
    return PlanInputs(
        desired=desired,
        state=state,
        request=request,
        followed=followed,
        wanted=wanted,
        declared=declared,
        planner=planner,
        older=older,
        secrets=secrets,
        unsigned=unsigned,
        lookalikes=lookalikes,
        siblings=siblings or Siblings(),
        will_run=will_run,
        authority=project.authority,
        providers={name: client.base_url for name, client in project.providers.items()},
        own_state=project.own_state,
        spent=None if will_run else await _spent(project, state),
        proofs=proofs(desired.policies, desired.resources, state),
    )


async def _spent(project: Project, state: State) -> Any:
    """What budgets count before this plan; None without budgets."""
    if not rules_count(project.authority, state):
        return None
    from reconciler.approvals.judging import budgets_in, spent_on  # few projects have rules

    return await spent_on(project, budgets_in(all_known(project.authority, state)))


async def _extended_gb(
    project: Project, wanted: Iterable[Resource], records: Mapping[Address, StateRecord]
) -> Mapping[Address, int]:
    """How many GB extends of the last 24 hours have added to each resource that grows, or may have.

    An object is known by the id in the path of the call: it may have had another address.
    """
    grows = [resource for resource in wanted if resource.grow is not None]
    if not grows:
        return {}
    from reconciler.approvals.spent import past_uses  # few projects have volumes that grow

    recorded = ((each, records.get(each.address)) for each in grows)
    ids = {record.id if record is not None else each.adopt_id: each.address for each, record in recorded}
    late = timedelta(seconds=project.limits.settle_s)
    since, found = project.clock.now() - _DAY, Counter[Address]()
    for use in past_uses(await project.store.journal(since=since - late), late):
        if "to_gb" in use.uses and (use.at is None or use.at >= since):
            for id in ids.keys() & map(unquote, use.path.split("/")):
                found[ids[id]] += use.uses["gb_added"]
    return found


def _unreadable(
    address: Address, what: str, missing: SecretUnavailable, span: Span | None = None
) -> Diagnostic:
    """The error for a secret value that cannot be read here. `what`: the source, in words."""
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
    """The errors for signing secrets that give no value here, by the addresses that need them."""
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


async def _secret_values(
    project: Project,
    resources: Sequence[Resource],
    records: Mapping[Address, StateRecord],
    live: Mapping[Address, Any],
    *,
    required: bool,
) -> SecretValues:
    """Fingerprints of all secret values that can be read now.

    `live`: the objects that templates refer to. `required`: a source without a value is an error.
    """
    kinds = find_kinds()
    outputs = Outputs()
    for address, item in live.items():
        outputs.put(str(address), item.model_dump())
    fingerprints: dict[Address, str] = {}
    problems, unread = [], []
    senders = {name: role for name, kind in kinds.items() if (role := kind.role(SendsSecret)) is not None}
    refs = [
        (resource, ref)
        for resource in resources
        if resource.address.kind in senders
        and (ref := senders[resource.address.kind].secret(resource)) is not None
    ]
    if project.sources.prepare(ref for _, ref in refs):
        await checkpoint()  # where a signal that ended a program is acted upon
    for resource, ref in refs:
        if project.sources.is_unchecked(ref):
            fingerprints[resource.address] = UNCHECKED_VALUE
            continue
        not_yet: list[OutputRef] = []

        def output(ref: OutputRef, not_yet: list[OutputRef] = not_yet) -> Any:
            """The value that `ref` stands for, as far as it is known before the apply."""
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
            problems.append(problem if required else as_warning(problem))
            unread.append(resource.address)
            continue
        if resource.address in records and not not_yet:
            key, record = await project.store.fingerprint_key(), records[resource.address]
            now, is_same = compare_fingerprints(key, resource.address, value, record)
            fingerprints[resource.address] = record.applied["fingerprint"] if is_same else now
    return SecretValues(fingerprints, problems, unread)


def look_into_other_manifests(desired: Desired, records: Mapping[Address, StateRecord]) -> OtherManifests:
    """Look up in other files what a plan needs to know of records without a manifest.

    `records`: as they are once Moved manifests are followed.
    """
    wanted = {resource.address for resource in desired.resources}
    unwanted = [record for record in records.values() if record.address not in wanted]
    not_given = frozenset(record.address for record in unwanted if not desired.selected(record))
    if not unwanted or (not not_given and desired.moved is None):
        return OtherManifests(not_given)
    resources = desired.resources
    if desired.focus is not None:
        resources = [resource for resource in resources if resource.address in desired.focus]
    gone: set[Address] = set()
    moved: dict[Address, str] = {}
    for question in questions(find_kinds(), resources, records, unwanted, not_given):
        gone.update(record.address for record in question.declared if not desired.declared(record))
        if desired.moved is None:
            continue
        for address in (record.address for record in question.suspects):
            if address in gone or address not in not_given:
                moved[address] = desired.moved(address)
    return OtherManifests(not_given, frozenset(gone), moved)


async def read_siblings(config: ProjectSettings | None) -> Siblings:
    """The objects that other environments on the same platform record, as far as they can be read here.

    Changes no file there, makes none, takes no lock. Ids of another platform are other objects'. None has
    no other environments.
    """
    if config is None:
        return Siblings()
    kinds, environments = find_kinds(), config.environments()
    owners: dict[tuple[str, str | None, str], tuple[str, Address]] = {}
    unread = []
    for name in (BASE, *environments) if environments else ():
        other = config.of(name)
        same_platform = other.settings.platform.base_url == config.settings.platform.base_url
        if other.env == config.env or not same_platform:
            continue
        try:
            async with open_state(other, Opening(read_only=True)) as store:
                state = await store.load()
        except ReconcilerError:  # there is no state, or none that can be read: it may be on another machine
            unread.append(name)
            continue
        pin = other.settings.state.lineage
        if not state.lineage or pin not in (None, state.lineage):  # nor is another one read than they pin
            unread.append(name)
            continue
        for record in state.records.values():
            if record.id and record.address.kind in kinds:
                key = object_of(kinds[record.address.kind], record.address, record.id, None, record)
                owners.setdefault(key, (name, record.address))
    return Siblings(owners, tuple(unread))
