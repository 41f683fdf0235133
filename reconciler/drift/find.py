"""Drift: what moved on the platform without us."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import IN_FLIGHT, Diagnostic, Severity, Span, as_warning, error, warning
from reconciler.core.model import (
    DELETION_SENT,
    Action,
    Address,
    Change,
    FieldChange,
    Observation,
    Resource,
    StateRecord,
    owed_work,
)
from reconciler.core.steps import Plan, Read
from reconciler.execution.open_intents import load_with_holders, overlay
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind, Subject
from reconciler.kinds.roles import HasObjectives, Importable, is_remade, listed, located
from reconciler.moves.records import follow_moves
from reconciler.planning.answers import Unread
from reconciler.planning.conflicts import bad_object, bad_records
from reconciler.planning.decide import gone, inferred_warning, many_missing, may_be_invisible, recorded_twice
from reconciler.planning.declared import Desired, declared_scopes, in_force
from reconciler.planning.drift import change_of, drift_of, unmanaged_change, warnings_of
from reconciler.planning.lookalikes import Lookalikes, lookalike_warnings
from reconciler.project.gather import read_siblings
from reconciler.project.identity import state_missing
from reconciler.project.project import Project, read_all
from reconciler.project.scopes import concerned_scopes, declared_in_focus, focused, moves_in_focus
from reconciler.project.unknown_objects import Older, no_record_of
from reconciler.state.store import State

NOT_COMPARED = "not-compared"  # nothing shows the objects of a kind


class Drifted(Struct, frozen=True):
    """An object with a change: as the manifest wants it, as it is recorded, and as it is (None: nowhere).

    `resource`: None where no manifest names it any more.
    """

    resource: Resource | None
    record: StateRecord
    live: Any


class Drift(Struct, frozen=True):
    """A plan without steps, and behind each of its changes what was compared.

    `unmanaged`: what moved of fields that no manifest says; the plan has no change for it.
    `without_manifest`: the addresses that were compared and that no manifest names.
    """

    plan: Plan
    drifted: Mapping[Address, Drifted]
    unmanaged: Sequence[Change] = ()
    without_manifest: Collection[Address] = ()

    @property
    def declared(self) -> Mapping[Address, Span]:
        """Where the names of resources that drifted stand."""
        resources = {address: each.resource for address, each in self.drifted.items()}
        spans = {to: each.span("metadata", "name") for to, each in resources.items() if each is not None}
        return {address: span for address, span in spans.items() if span is not None}


async def find_drift(project: Project, desired: Desired) -> Drift:
    """What differs between the records and the platform. Sends nothing but GET."""
    project.sources.runs_programs = False
    state, holders = await load_with_holders(project.store)
    kinds = find_kinds()
    desired = focused(desired, state.records)
    known, questions = await overlay(
        state,
        services=project.services,
        clock=project.clock,
        limits=project.limits,
        concerned=concerned_scopes(desired, state),
        holders=holders,
    )
    followed = follow_moves(kinds, moves_in_focus(desired), desired.resources, known, questions)
    records = followed.records
    about, declared = declared_in_focus(desired), desired.by_address
    wanted: dict[Address, Resource] = {}
    problems: list[Diagnostic] = []
    remarks: list[Diagnostic] = []
    for resource in about:
        wanted[resource.address], expired = in_force(resource, project.clock.now())
        problems += expired
    by_read: dict[Read, list[StateRecord]] = {}
    unseen: Counter[str] = Counter()
    bad = bad_records(kinds, records, wanted)

    def in_focus(address: Address) -> bool:
        return desired.focus is None or address in desired.focus

    outside = {
        each.address
        for each in records.values()
        if each.address not in wanted and not (in_focus(each.address) and desired.selected(each))
    }
    outside |= declared.keys() - wanted.keys()
    for address, record in records.items():
        if address in outside or address in bad or address in questions:
            continue
        kind = kinds.get(address.kind)
        read = located(kind, address, record.id, project.capabilities, record=record) if kind else None
        if read is not None:
            by_read.setdefault(read, []).append(record)
        else:
            why = kind.unreadable if kind else "this version of reconcile does not know the kind"
            unseen[f"{address.kind}: {{}} recorded, not compared ({why})"] += 1
    owned = {record.id for record in records.values()} | {each.adopt_id or "" for each in declared.values()}
    owned |= {str(entry.data["unclaimed"]) for entry in state.unclaimed}
    lookalikes = Lookalikes(kinds, declared, records, project.capabilities, owned, wanted.__contains__)
    older = Older(state, declared, project.capabilities)
    for read in lookalikes.reads():
        by_read.setdefault(read, [])
    changes: list[Change] = []
    drifted: dict[Address, Drifted] = {}
    missing: list[StateRecord] = []
    unmanaged: list[Change] = []
    unread = Unread()
    more = _MoreAnswers(unread)

    def judge(found: Drifted, missed: Sequence[FieldChange] = ()) -> None:
        kind = kinds[found.record.address.kind]
        change, ignored = drift_of(kind, found.record, found.resource, found.live)
        remarks.extend(ignored)
        if missed:
            fields = [*(change.fields if change is not None else ()), *missed]
            change = change_of(kind, found.record, found.resource, fields)
        if change is not None:
            remarks.extend(warnings_of(kind, found.record, found.resource, change.fields))
            changes.append(change)
            drifted[change.address] = found

    def compare(read: Read, observation: Observation) -> None:
        unread.answered(observation)
        lookalikes.look(read, observation)
        older.look(read, observation)
        if not observation.complete:
            if not by_read[read]:
                return  # a list that shows lookalikes only
            problem = error("unreadable", f"cannot read {read.path}: {observation.problem}")
            unread.add(observation.cause, problem, [record.address for record in by_read[read]])
            return
        by_id = {item.id: item for item in observation.objects}
        for record in by_read[read]:
            kind, resource = kinds[record.address.kind], wanted.get(record.address)
            live = by_id.get(record.id)
            if live is None and may_be_invisible(record, project.clock.now()):
                continue
            found = Drifted(resource, record, live)
            subject = Subject(record.address, resource, record, live, observation.at, project.capabilities)
            if live is None and (resource is not None or subject.to_delete):
                missing.append(record)
            if live is not None and resource is not None:
                if (unusable := bad_object(resource, live)) is not None:
                    problems.append(unusable)
                    continue
                if live.present and (aside := unmanaged_change(kind, record, resource, live)) is not None:
                    unmanaged.append(aside)
            if not more.ask(kind, found, subject):
                judge(found)

    await read_all(project, list(by_read), compare, lambda read: [record.address for record in by_read[read]])
    await read_all(project, more.reads(), more.answer)
    absent: list[Diagnostic] = []
    for found, missed, told in more.answers():
        absent.extend(told)
        judge(found, missed)
    problems += unread.diagnostics()
    problems += lookalikes.unread()
    if lookalikes.found:
        siblings = await read_siblings(project.environments)
        problems += lookalike_warnings(kinds, lookalikes.found, wanted, records, siblings)
    compared = sum(map(len, by_read.values()))
    wave = many_missing(missing, compared)
    if wave is not None:
        problems.append(wave)
    remarks += (each for each in absent if wave is None or each.code != "object-missing")
    if not state.lineage:
        nothing = f"{len(desired.resources)} declared, nothing recorded"
        problems.insert(0, state_missing(project.state_url, nothing, traces=state.traces))
    plan = Plan(
        id=project.new_id(),
        context=project.context(desired.origin, state.lineage),
        changes=tuple(sorted(changes, key=lambda change: str(change.address))),
        steps=(),
        expectations=(),
        bindings=(),
        owed=owed_work(records),
        diagnostics=(
            *desired.diagnostics,
            *(problem for address, problem in followed.refused.items() if in_focus(address)),
            *followed.diagnostics,
            *questions.values(),
            *_left_open(project, state, records, wanted, outside),
            *recorded_twice(kinds, records, in_focus),
            *(problem for address, problem in bad.items() if address not in outside),
            *problems,
            *(await _unrecorded(project, wanted, {*records, *questions}, declared) if state.lineage else ()),
            *older.told(),
            *sorted(remarks, key=lambda remark: remark.message),  # answers come in no certain order
            *(Diagnostic(NOT_COMPARED, Severity.INFO, told.format(n)) for told, n in unseen.items()),
        ),
        unchanged=compared - len(changes),
        outside=len(outside),
    )
    recorded = (record.address for group in by_read.values() for record in group)
    without = frozenset(address for address in recorded if address not in wanted)
    return Drift(plan, drifted, sorted(unmanaged, key=lambda change: str(change.address)), without)


def _left_open(
    project: Project,
    state: State,
    records: Mapping[Address, StateRecord],
    wanted: Mapping[Address, Resource],
    outside: Collection[Address],
) -> Iterator[Diagnostic]:
    """What earlier runs left, beside calls: what somebody has to decide about, and what is noted."""
    kinds, new = find_kinds(), [address for address in wanted if address not in records]
    unlisted = [
        address
        for address in new
        if kinds[address.kind].role(Importable) and kinds[address.kind].read_alone
        if listed(kinds[address.kind], wanted[address], project.capabilities, wanted) is None
    ]
    yield from (no_record_of(entry, new, unlisted) for entry in state.unclaimed)
    for address, record in records.items():
        if record.inferred and address not in outside:
            named = wanted.get(address)
            yield inferred_warning(record, named.span("metadata", "name") if named is not None else None)
    if state.spooled:
        apply, scopes = command("apply"), ", ".join(f"`{scope}`" for scope in sorted(state.spooled))
        yield warning(
            "outcomes-spooled",
            f"outcomes of calls that the state did not take are in a file beside it; scopes: {scopes}",
            help=f"run `{apply}`, which takes them in",
            advice=(apply,),
        )


async def _unrecorded(
    project: Project,
    wanted: Mapping[Address, Resource],
    records: Collection[Address],
    declared: Collection[Address],
) -> list[Diagnostic]:
    """What is wanted and in none of `records`: not compared. An error if nothing `declared` is in them."""
    kinds = find_kinds()
    missing = [
        resource
        for address, resource in wanted.items()
        if address not in records and _is_made(kinds[address.kind], resource, project)
    ]
    if missing and not any(address in records for address in declared):
        return [await _nothing_recorded(project, missing)]
    return [
        Diagnostic(
            "not-recorded",
            Severity.INFO,
            f"`{resource.address}` is declared but not recorded: it was not compared",
            resource.span("metadata", "name"),
        )
        for resource in missing
    ]


async def _nothing_recorded(project: Project, missing: Sequence[Resource]) -> Diagnostic:
    """Says who is at work on what is declared: a first apply. Else, the state may be the wrong one."""
    nothing = f"{len(missing)} declared, nothing recorded"
    holders = await project.store.holders(declared_scopes(missing))
    if holders:
        (scope, held), drift = min(holders.items()), command("drift")
        return error(
            IN_FLIGHT,
            f"{held.holder} has been applying `{scope}` for {held.age_s:.0f} s{held.doubt}: "
            f"{nothing} yet, and nothing was compared",
            help=f"when that apply is done, run `{drift}` again",
            advice=(drift,),
        )
    listed = command("state", "list")
    return error(
        "nothing-recorded",
        f"{nothing}: nothing was compared",
        help=f"check that this is the state of these manifests (`{listed}`): a new runner, a wiped disk or "
        "another path has an empty one; an apply records everything that it creates and adopts",
        advice=(listed,),
    )


def _is_made(kind: Kind, resource: Resource, project: Project) -> bool:
    """Whether an apply would do anything about it, if there is no object yet."""
    now, capabilities = project.clock.now(), project.capabilities
    subject = Subject(resource.address, resource, None, None, now, capabilities)
    return kind.create(subject).action is not Action.NOOP


class _MoreAnswers:
    """What takes a read of its own, asked once all objects are known: objectives, and what is left of one
    that is gone.
    """

    def __init__(self, unread: Unread) -> None:
        self._unread = unread
        self._asked: list[tuple[Kind, Drifted, Subject, Sequence[Read]]] = []
        self._answers: dict[Read, Observation] = {}

    def ask(self, kind: Kind, found: Drifted, subject: Subject) -> bool:
        """Whether there is more to be said than the object itself shows."""
        live, objectives, reads = found.live, kind.role(HasObjectives), list[Read]()
        if live is not None and live.present:
            reads += objectives.objective_reads(subject) if objectives is not None else ()
            if not reads:
                return False
        elif live is not None or found.resource is None:
            reads += kind.hints(subject)
        self._asked.append((kind, found, subject, reads))
        return True

    def reads(self) -> Sequence[Read]:
        return list(dict.fromkeys(read for *_, reads in self._asked for read in reads))

    def answer(self, read: Read, observation: Observation) -> None:
        self._answers[read] = observation
        self._unread.answered(observation)

    def answers(self) -> Iterator[tuple[Drifted, Sequence[FieldChange], Sequence[Diagnostic]]]:
        """Each object with what it misses, and what to say of one that is gone."""
        for kind, found, subject, reads in self._asked:
            answers = {read: self._answers[read] for read in reads}
            extra = {read.shape: each.objects for read, each in answers.items() if each.complete}
            subject = replace(subject, extra=extra)
            if found.live is None or not found.live.present:
                again = found.resource is not None and is_remade(kind, subject)
                if not found.record.applied.get(DELETION_SENT):  # else it was us
                    yield found, (), () if again else [as_warning(gone(kind, subject))]
                continue
            for read, observation in answers.items():
                if not observation.complete:
                    problem = error("unreadable", f"cannot read {read.path}: {observation.problem}")
                    self._unread.add(observation.cause, problem, [found.record.address])
            complete = all(observation.complete for observation in answers.values())
            objectives = kind.role(HasObjectives)
            yield found, objectives.missed(subject) if objectives is not None and complete else (), ()
