"""Finds drift: values that changed on the platform, and that no apply of ours changed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.approvals.in_force import Terms, rules_count
from reconciler.approvals.windows import Windows
from reconciler.core.diagnostics import Diagnostic, Severity, Span, as_warning, error, warning
from reconciler.core.model import (
    ALERT_AT,
    DELETION_SENT,
    Address,
    Change,
    Effect,
    FieldChange,
    Observation,
    Resource,
    StateRecord,
    overdue,
    owed_work,
)
from reconciler.core.steps import Plan, Read
from reconciler.drift.unrecorded import left_open, unrecorded
from reconciler.drills.results import Proof, findings, proofs
from reconciler.execution.open_intents import load_with_holders, overlay
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind, Subject
from reconciler.kinds.roles import HoldsData, Look, is_remade, located, most_gb
from reconciler.moves.records import follow_moves
from reconciler.planning.answers import FailedReads
from reconciler.planning.conflicts import bad_object, bad_records
from reconciler.planning.decide import gone, many_missing, may_be_invisible, recorded_twice
from reconciler.planning.declared import Desired, in_force
from reconciler.planning.drift import change_of, drift_of, unmanaged_change, warnings_of
from reconciler.planning.lookalikes import Lookalikes, lookalike_warnings
from reconciler.project.gather import read_siblings
from reconciler.project.identity import state_missing
from reconciler.project.looks import recorded_looks
from reconciler.project.project import Project, read_all
from reconciler.project.records import Older
from reconciler.project.scopes import concerned_scopes, declared_in_focus, focused, moves_in_focus
from reconciler.project.trends import trend_of, when_full
from reconciler.state.store import State

NOT_COMPARED = "not-compared"  # nothing shows the objects of a kind


class Drifted(Struct, frozen=True):
    """One object that drifted.

    `resource`: its manifest; None where no manifest names it any more. `live`: None where it does not exist.
    """

    resource: Resource | None
    record: StateRecord
    live: Any


class Drift(Struct, frozen=True):
    """A plan without steps, and the compared object behind each of its changes.

    `unmanaged`: changes of fields that no manifest declares; they are not in the plan. `without_manifest`:
    addresses that were compared although no manifest names them. `due`: by address and objective. `proofs`:
    what drills prove. `fills`: how full the objects are.
    """

    plan: Plan
    drifted: Mapping[Address, Drifted]
    unmanaged: Sequence[Change] = ()
    without_manifest: Collection[Address] = ()
    due: Mapping[tuple[Address, str], datetime] = field(default_factory=dict)
    proofs: Sequence[Proof] = ()
    fills: Mapping[Address, Look] = field(default_factory=dict)

    @property
    def declared(self) -> Mapping[Address, Span]:
        """The place of `metadata.name` of each resource that drifted."""
        found = {}
        for address, drifted in self.drifted.items():
            resource = drifted.resource
            if resource is not None and (span := resource.span("metadata", "name")) is not None:
                found[address] = span
        return found


async def find_drift(project: Project, desired: Desired) -> Drift:
    """Compare the records with the platform. Sends nothing but GET."""
    project.sources.runs_programs = False
    state, holders = await load_with_holders(project.store)
    desired = focused(desired, state.records)
    known, questions = await overlay(
        state,
        services=project.services,
        clock=project.clock,
        limits=project.limits,
        concerned=concerned_scopes(desired, state),
        holders=holders,
    )
    comparison = _Comparison(project, desired, state, known, questions)
    await comparison.read()
    return await comparison.result()


class _Comparison:
    """Compares each record that is in focus with its live object.

    `wanted`: manifests in focus, without fields that are ignored for now. `records`: those of the state once
    the declared moves are carried out. `outside`: addresses that are not in focus. `questions`: open calls.
    """

    def __init__(
        self,
        project: Project,
        desired: Desired,
        state: State,
        known: Mapping[Address, StateRecord],
        questions: Mapping[Address, Diagnostic],
    ) -> None:
        self.project, self.desired, self.state, self.questions = project, desired, state, questions
        self.kinds, self.declared = find_kinds(), desired.by_address
        moves = moves_in_focus(desired)
        self.followed = follow_moves(self.kinds, moves, desired.resources, known, questions)
        self.records = self.followed.records
        self.problems: list[Diagnostic] = []
        self.remarks: list[Diagnostic] = []
        self.wanted: dict[Address, Resource] = {}
        for resource in declared_in_focus(desired):
            self.wanted[resource.address], expired = in_force(resource, project.clock.now())
            self.problems += expired
        self.bad = bad_records(self.kinds, self.records, self.wanted)
        self.outside = self._outside()
        self.changes: list[Change] = []
        self.drifted: dict[Address, Drifted] = {}
        self.fills: dict[Address, Look] = {}
        self.missing: list[StateRecord] = []
        self.unmanaged: list[Change] = []
        self.unseen: Counter[str] = Counter()
        self.unread = FailedReads()
        self.more = _MoreAnswers(self.unread)
        capabilities, is_wanted = project.capabilities, self.wanted.__contains__
        self.lookalikes = Lookalikes(
            self.kinds, self.declared, self.records, capabilities, self._owned(), is_wanted
        )
        self.older = Older(state, self.declared, capabilities)
        self.by_read = self._reads()
        self.owed = owed_work(self.records)
        self.proofs = [
            proof
            for proof in proofs(desired.policies, desired.resources, state)
            if proof.of not in self.outside
        ]

    def _in_focus(self, address: Address) -> bool:
        return self.desired.focus is None or address in self.desired.focus

    def _outside(self) -> set[Address]:
        recorded = {
            record.address
            for record in self.records.values()
            if record.address not in self.wanted
            and not (self._in_focus(record.address) and self.desired.selected(record))
        }
        return recorded | (self.declared.keys() - self.wanted.keys())

    def _owned(self) -> set[str]:
        """The ids that a record, a manifest or an untracked call of ours holds."""
        adopted = {resource.adopt_id or "" for resource in self.declared.values()}
        unclaimed = {str(entry.data["unclaimed"]) for entry in self.state.unclaimed}
        return {record.id for record in self.records.values()} | adopted | unclaimed

    def _reads(self) -> dict[Read, list[StateRecord]]:
        """The GETs, each with the records that its answer is compared with."""
        found: dict[Read, list[StateRecord]] = {}
        for address, record in self.records.items():
            if address in self.outside or address in self.bad or address in self.questions:
                continue
            kind = self.kinds.get(address.kind)
            capabilities = self.project.capabilities
            read = located(kind, address, record.id, capabilities, record=record) if kind else None
            if read is not None:
                found.setdefault(read, []).append(record)
            else:
                why = kind.unreadable if kind else "this version of reconcile does not know the kind"
                self.unseen[f"{address.kind}: {{}} recorded, not compared ({why})"] += 1
        for read in self.lookalikes.reads():
            found.setdefault(read, [])
        return found

    async def read(self) -> None:
        """Send the GETs and compare their answers; then the GETs that these answers call for."""
        reads = list(self.by_read)
        await read_all(
            self.project, reads, self._compare, lambda read: [record.address for record in self.by_read[read]]
        )
        await read_all(self.project, self.more.reads(), self.more.answer)

    def _compare(self, read: Read, observation: Observation) -> None:
        self.unread.answered(observation)
        self.lookalikes.look(read, observation)
        self.older.look(read, observation)
        if observation.complete:
            by_id = {live.id: live for live in observation.objects}
            for record in self.by_read[read]:
                self._compare_one(record, by_id.get(record.id), observation.at)
        elif self.by_read[read]:  # else it is a list that is read for lookalikes only
            problem = error("unreadable", f"cannot read {read.path}: {observation.problem}")
            self.unread.add(observation.cause, problem, [record.address for record in self.by_read[read]])

    def _compare_one(self, record: StateRecord, live: Any, at: datetime) -> None:
        """Compare one record with its live object; None: the answer does not show one."""
        kind, resource = self.kinds[record.address.kind], self.wanted.get(record.address)
        if live is None and may_be_invisible(record, self.project.clock.now()):
            return
        found = Drifted(resource, record, live)
        subject = Subject(record.address, resource, record, live, at, self.project.capabilities)
        if live is None and (resource is not None or subject.to_delete):
            self.missing.append(record)
        if live is not None and resource is not None:
            if (unusable := bad_object(resource, live)) is not None:
                self.problems.append(unusable)
                return
            if live.present and (change := unmanaged_change(kind, record, resource, live)) is not None:
                self.unmanaged.append(change)
        if live is not None and live.present and kind.role(HoldsData) is not None:
            self.fills[record.address] = Look.of(live, at)
        if not self.more.ask(kind, found, subject):
            self._judge(found)

    def _judge(self, found: Drifted, missed: Sequence[FieldChange] = ()) -> None:
        """Note the change of one object, if it has any. `missed`: its objectives that are not met."""
        kind = self.kinds[found.record.address.kind]
        change, ignored = drift_of(kind, found.record, found.resource, found.live)
        self.remarks += ignored
        missed = [*missed, *self._filling(kind, found)]
        if missed:
            fields = [*(change.fields if change is not None else ()), *missed]
            change = change_of(kind, found.record, found.resource, fields)
        if change is not None:
            self.remarks += warnings_of(kind, found.record, found.resource, change.fields)
            self.changes.append(change)
            self.drifted[change.address] = found

    def _filling(self, kind: Kind, found: Drifted) -> Iterator[FieldChange]:
        """The missed `alert_at`, if it is missed. Warns of it with the time when the object will be full."""
        address, resource, look = found.record.address, found.resource, self.fills.get(found.record.address)
        allowed = resource.objectives.get(ALERT_AT) if resource is not None else None
        percent = look.percent if look is not None else None
        if resource is None or look is None or allowed is None or percent is None or percent < allowed:
            return
        trend = trend_of((*recorded_looks(self.state, kind.name, found.record.id), look))
        cure = "make it larger, or remove data"
        if (grow := resource.grow) is not None:
            most = most_gb(kind, resource.spec)
            cure = f"an apply makes it larger at {grow.at} %, up to {most} GB; or remove data"
            if look.size_gb is not None and most is not None and look.size_gb >= most:
                cure = f"it grows up to {most} GB: make `size_gb.max` larger, or remove data"
        full = when_full(trend, look.total_bytes or 0)
        message = f"`{address}` ({found.record.id}): {look}; {full}"
        span = resource.span("metadata", "name")
        self.remarks.append(warning("volume-filling", message, span, help=cure, about=(address,)))
        yield FieldChange(ALERT_AT, f"{allowed}%", f"{percent}%", Effect.REFUSED)

    async def result(self) -> Drift:
        """Make the drift of all answers."""
        compared = sum(map(len, self.by_read.values()))
        await self._judge_answers(compared)
        project, state = self.project, self.state
        plan = Plan(
            id=project.new_id(),
            context=project.context(self.desired.origin, state.lineage),
            changes=tuple(sorted(self.changes, key=lambda change: str(change.address))),
            steps=(),
            expectations=(),
            bindings=(),
            owed=self.owed,
            diagnostics=await self._diagnostics(),
            unchanged=compared - len(self.changes),
            outside=len(self.outside),
        )
        if rules_count(project.authority, state):
            from reconciler.approvals.judging import of_resources  # few projects have rules

            terms = Terms(project.authority, self.wanted, state, plan)
            refused = of_resources(terms)
            plan = replace(Windows(terms).annotated(), diagnostics=(*plan.diagnostics, *refused))
        recorded = (record.address for group in self.by_read.values() for record in group)
        without = frozenset(address for address in recorded if address not in self.wanted)
        unmanaged = sorted(self.unmanaged, key=lambda change: str(change.address))
        return Drift(plan, self.drifted, unmanaged, without, self.more.due, self.proofs, self.fills)

    async def _judge_answers(self, compared: int) -> None:
        """Judge the objects that took a second read. Add the problems that only all answers together show."""
        absent: list[Diagnostic] = []
        for found, missed, remarks in self.more.answers():
            absent.extend(remarks)
            self._judge(found, missed)
        self.problems += self.unread.diagnostics()
        self.problems += self.lookalikes.unread()
        if self.lookalikes.found:
            siblings = await read_siblings(self.project.environments)
            lookalikes = self.lookalikes.found
            self.problems += lookalike_warnings(self.kinds, lookalikes, self.wanted, self.records, siblings)
        if (wave := many_missing(self.missing, compared)) is not None:
            self.problems.append(wave)
            absent = [remark for remark in absent if remark.code != "object-missing"]
        self.remarks += absent
        if not self.state.lineage:
            nothing = f"{len(self.desired.resources)} declared, nothing recorded"
            self.problems.insert(0, state_missing(self.project.state_url, nothing, traces=self.state.traces))

    async def _diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics: those of manifests and moves first, then open work, then the answers."""
        tracked, missing = {*self.records, *self.questions}, list[Diagnostic]()
        if self.state.lineage:
            missing = await unrecorded(self.project, self.wanted, tracked, self.declared)
        refused, bad = self.followed.refused, self.bad
        return (
            *self.desired.diagnostics,
            *(problem for address, problem in refused.items() if self._in_focus(address)),
            *self.followed.diagnostics,
            *self.questions.values(),
            *left_open(self.project, self.state, self.records, self.wanted, self.outside),
            *recorded_twice(self.kinds, self.records, self._in_focus),
            *(problem for address, problem in bad.items() if address not in self.outside),
            *self.problems,
            *missing,
            *self.older.note(),
            *overdue(self.owed, self.project.clock.now()),
            *findings(self.proofs, self.project.clock.now()),
            *sorted(self.remarks, key=lambda remark: remark.message),  # answers come in no certain order
            *(Diagnostic(NOT_COMPARED, Severity.INFO, text.format(n)) for text, n in self.unseen.items()),
        )


class _MoreAnswers:
    """The second reads: for objectives, and for hints why an object is gone."""

    def __init__(self, unread: FailedReads) -> None:
        self.due: dict[tuple[Address, str], datetime] = {}
        self._unread = unread
        self._asked: list[tuple[Kind, Drifted, Subject, Sequence[Read]]] = []
        self._answers: dict[Read, Observation] = {}

    def ask(self, kind: Kind, found: Drifted, subject: Subject) -> bool:
        """Note the reads that an object needs. False: it needs none, and can be judged at once."""
        live, reads = found.live, list[Read]()
        if live is not None and live.present:
            reads += kind.objective_reads(subject)
            if not reads:
                return False
        elif live is not None or found.resource is None:
            reads += kind.hints(subject)
        self._asked.append((kind, found, subject, reads))
        return True

    def reads(self) -> Sequence[Read]:
        """The GETs to send, each once."""
        return list(dict.fromkeys(read for *_, reads in self._asked for read in reads))

    def answer(self, read: Read, observation: Observation) -> None:
        """Take the answer to one of `reads`."""
        self._answers[read] = observation
        self._unread.answered(observation)

    def answers(self) -> Iterator[tuple[Drifted, Sequence[FieldChange], Sequence[Diagnostic]]]:
        """Yield each object with its missed objectives, and with the remarks about one that is gone."""
        for kind, found, subject, reads in self._asked:
            answers = {read: self._answers[read] for read in reads}
            extra = {read.shape: answer.objects for read, answer in answers.items() if answer.complete}
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
            if complete:
                self.due |= {(found.record.address, name): at for name, at in kind.due(subject).items()}
            yield found, kind.missed(subject) if complete else (), ()
