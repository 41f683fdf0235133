"""One plan, fed with answers as they arrive: each is compared at once and then let go.

    planner = Planner(...)
    for read in planner.reads(): planner.answer(read, observation)
    for read in planner.more_reads(): planner.more_answer(read, observation)
    plan = planner.finish(...)

A hundred thousand resources are thus never held together with their live state.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, error
from reconciler.core.model import (
    Action,
    Address,
    Change,
    Deletion,
    Observation,
    Resource,
    StateRecord,
    owed_work,
)
from reconciler.core.steps import Plan, Read
from reconciler.kinds.base import PENDING_VALUE, Kind, Subject
from reconciler.kinds.roles import OnService, claim_of, holds_secrets, is_remade, located
from reconciler.moves.detect import find_renames
from reconciler.moves.elsewhere import Elsewhere
from reconciler.planning.builder import Draft
from reconciler.planning.conflicts import secret_setters, taken_secrets, wanted_powers
from reconciler.planning.decide import (
    decide,
    decide_left,
    inferred_warning,
    many_missing,
    may_be_invisible,
    recorded_twice,
    retained,
    unprotected,
)
from reconciler.planning.fingerprint import digest_absence
from reconciler.planning.ignores import in_force
from reconciler.planning.match import Matched, match_objects, match_unseen
from reconciler.planning.order import order_steps, referenced_first
from reconciler.planning.substitute import fill_known

_NOBODY: Mapping[str, Sequence[Address]] = {}
NOTHING_ELSEWHERE = Elsewhere()


@dataclass(slots=True)
class _Group:
    """All addresses that one read is about."""

    resources: list[Resource] = field(default_factory=list)
    left: list[StateRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A subject that needs more than its own read before it can be decided. `matched`: None if it left."""

    kind: Kind
    subject: Subject
    matched: Matched | None
    read: Read | None
    candidates: str
    extra: tuple[Read, ...]


class Planner:
    def __init__(
        self,
        kinds: Mapping[str, Kind],
        resources: Sequence[Resource],
        records: Mapping[Address, StateRecord],
        *,
        capabilities: frozenset[str],
        now: datetime,
        undecided: Mapping[Address, Diagnostic] | None = None,
        focus: Collection[Address] | None = None,
        elsewhere: Elsewhere = NOTHING_ELSEWHERE,
    ) -> None:
        """`elsewhere`: what manifests that were not given say of the records.

        `undecided`: addresses about which nothing may be decided, as with a call of unknown outcome.
        `focus`: the only addresses that the plan is about; None for all. What they refer to is looked at.
        """
        self._kinds = kinds
        self._records = records
        self._capabilities = capabilities
        self._now = now
        checked = [in_force(resource, now) for resource in resources]
        resources = [resource for resource, _ in checked]
        self._resources = {resource.address: resource for resource in resources}
        self._focus = focus
        self._needed = {
            to.address for each in resources if self._focused(each.address) for to in each.references
        }
        self._outside: dict[Address, str] = {}  # needed, not of this plan, and no value can be had: why
        self._referenced = {to.address for resource in resources for to in resource.references}
        self._owned = {
            claim_of(kinds[item.address.kind], item.adopt_id, item.spec, None): item.address
            for item in resources
            if item.adopt_id
        }
        with_service = {name for name, kind in kinds.items() if kind.role(OnService) is not None}
        self._owned |= {
            claim_of(kinds[address.kind], record.id, None, record)
            if address.kind in with_service
            else record.id: address
            for address, record in records.items()
        }
        self._groups: dict[Read, _Group] = {}
        self._unlisted: list[Resource] = []
        self._waiting: list[_Waiting] = []
        self._extra: dict[Read, Sequence[Any]] = {}
        self._unread: dict[Read, str] = {}
        self._missing: list[StateRecord] = []
        self._powers = wanted_powers(kinds, self._resources, records, elsewhere.not_given)
        self._sets = secret_setters(kinds, self._resources, records)
        self._draft = Draft(kinds)
        for resource, expired in checked:
            if expired:
                self._draft.report(resource.address, *expired)
        self._left: set[Address] = set()  # no manifest names them any more
        self._elsewhere = elsewhere
        self.live: dict[Address, Any] = {}  # of referenced addresses only
        self._sources: dict[Address, Read] = {}
        for address, question in (undecided or {}).items():
            why = "a call's outcome is unknown" if question.code == UNKNOWN_OUTCOME else question.message
            if self._focused(address):
                self._draft.refuse(address, why, question)
            else:
                self._outside[address] = why
        for address, problem in taken_secrets(kinds, self._resources, self._sets):
            if self._focused(address):
                self._draft.refuse(address, problem.message, problem)
        for resource in resources:
            if resource.address not in self._draft.changes and self._near(resource.address):
                self._place(resource)
        if focus is not None:
            self._place_companions()
        for record in records.values():
            if record.address not in self._resources and self._focused(record.address):
                self._leave(record)

    def _focused(self, address: Address) -> bool:
        return self._focus is None or address in self._focus

    def _near(self, address: Address) -> bool:
        return self._focused(address) or address in self._needed

    def _place_companions(self) -> None:
        """Whoever a read is about as well: a new object may be theirs as much as that of who is planned."""
        for address, resource in self._resources.items():
            if not self._near(address):
                read = self._located(resource)
                if read in self._groups:
                    self._groups[read].resources.append(resource)

    def _look_outside(self, kind: Kind, subject: Subject, matched: Matched) -> None:
        """Whether values of an object that this plan leaves alone can be had."""
        if matched.live is None or not matched.live.present:
            self._outside[subject.address] = "it is not there"
        elif not kind.extra_reads(subject):
            moves = decide(kind, subject, matched, listed=True, now=self._now)
            if moves.action is Action.NOOP and any(step.wait is not None for step in moves.steps):
                self._outside[subject.address] = "it is still being made"

    # --- reading ---

    def reads(self) -> Sequence[Read]:
        return list(self._groups)

    def answer(self, read: Read, observation: Observation) -> None:
        group = self._groups.pop(read)
        if not observation.complete:
            self._unreadable(group, observation.problem)
            return
        by_kind: dict[str, list[Resource]] = {}
        for resource in group.resources:
            by_kind.setdefault(resource.address.kind, []).append(resource)
        for name, resources in by_kind.items():
            kind = self._kinds[name]
            found = match_objects(kind, resources, self._records, self._owned, observation.objects)
            for resource in resources:
                self._consider(kind, resource, found[resource.address], read, observation)
        for record in group.left:
            live = next((item for item in observation.objects if item.id == record.id), None)
            kind = self._kinds[record.address.kind]
            self._miss(record, live)
            subject = self._subject(record.address, live, observation.at)
            extra = tuple(kind.extra_reads(subject)) if live is not None else ()
            if extra:
                self._waiting.append(_Waiting(kind, subject, None, read, "", extra))
            else:
                self._draft.take(kind, subject, decide_left(kind, subject, listed=True), read)

    def more_reads(self) -> Sequence[Read]:
        return list(dict.fromkeys(read for waiting in self._waiting for read in waiting.extra))

    def more_answer(self, read: Read, observation: Observation) -> None:
        if observation.complete:
            self._extra[read] = observation.objects
        else:
            self._unread[read] = f"cannot read {read.path}: {observation.problem}"

    # --- deciding ---

    def finish(
        self,
        *,
        id: str,
        lineage: str,
        fingerprints: Mapping[Address, str],
        diagnostics: Iterable[Diagnostic] = (),
    ) -> Plan:
        """The plan. `fingerprints`: of the desired secret values that could be read."""
        # What others refer to comes first: whether it is made anew decides about their values.
        for resource in referenced_first(self._unlisted):
            kind = self._kinds[resource.address.kind]
            fingerprint = self._fingerprint(resource, fingerprints)
            subject = self._subject(resource.address, None, self._now, fingerprint=fingerprint)
            matched = match_unseen(kind, resource, subject.record, self._owned)
            self._draft.take(kind, subject, decide(kind, subject, matched, listed=False, now=self._now), None)
        for waiting in self._waiting:
            problem = next((self._unread[read] for read in waiting.extra if read in self._unread), None)
            if problem is None:
                self._decide_waiting(waiting, fingerprints)
            else:
                self._refuse(waiting.subject.address, problem, waiting.subject.resource)
        self._find_renames()
        references = {
            address: [to.address for to in self._resources[address].references]
            for address in self._draft.steps
            if address in self._resources
        }
        needed = {to for targets in references.values() for to in targets}
        known = {str(to): self._known(to, live) for to, live in self.live.items() if live.present}
        if lineage:
            known["state"] = {"lineage": lineage}
        rank = {address: position for position, address in enumerate(self._resources)}
        order = sorted(self._draft.changes, key=lambda address: (rank.get(address, len(rank)), str(address)))
        return Plan(
            id=id,
            lineage=lineage,
            created_at=self._now,
            changes=tuple(self._draft.changes[address] for address in order),
            steps=order_steps(
                [
                    [fill_known(step, known) for step in self._draft.steps[address]]
                    for address in order
                    if address in self._draft.steps
                ],
                references,
            ),
            expectations=tuple(self._draft.expectations),
            bindings=tuple(self._draft.bindings),
            owed=tuple(owed for owed in owed_work(self._records) if owed.address not in self._draft.settled),
            diagnostics=(*diagnostics, *self._draft.diagnostics, *self._doubts()),
            inputs=tuple((str(to), self._sources[to]) for to in sorted(needed) if to in self._sources),
            unchanged=self._draft.unchanged,
        )

    def _find_renames(self) -> None:
        changes = self._draft.changes
        known = (self._resources, self._records, self._left, self._elsewhere)
        for found in list(find_renames(self._kinds, changes, *known)):
            if not found.kept:
                self._draft.withdraw(found.reasons)
            problem = found.diagnostic
            for old in found.reasons:
                if old in self._records and (entry := self._elsewhere.moved.get(old)):
                    problem = replace(problem, help=f"{entry} says what became of {old}: give that file, too")
            self._draft.report(found.address, problem)
        kept = [each for each in self._left if each in changes and changes[each].action is Action.RETAIN]
        self._draft.bind_left(self._records[address] for address in sorted(kept))

    def _known(self, to: Address, live: Any) -> Mapping[str, Any]:
        """What this plan does not change of an object: its id, or all of one that it leaves as it is."""
        return {"id": live.id} if to in self._draft.steps else live.model_dump()

    def _located(self, resource: Resource) -> Read | None:
        address = resource.address
        record = self._records.get(address)
        id = record.id if record is not None else resource.adopt_id
        kind = self._kinds[address.kind]
        return located(kind, address, id, self._capabilities, resource.spec, record)

    def _place(self, resource: Resource) -> None:
        read = self._located(resource)
        if read is not None:
            self._groups.setdefault(read, _Group()).resources.append(resource)
        elif self._focused(resource.address):
            self._unlisted.append(resource)
        elif resource.address not in self._records:
            self._outside[resource.address] = "it is not there"

    def _leave(self, record: StateRecord) -> None:
        """A retained object needs no look at the platform; nor does one whose manifests were not given."""
        address = record.address
        kind = self._kinds.get(address.kind)
        if kind is None or address in self._elsewhere.not_given:
            reason = f"not in the manifests given; kept (its manifest was {record.source or 'unknown'})"
            self._draft.changes[address] = Change(address, Action.RETAIN, reason=reason, id=record.id or None)
            return
        if address not in self._draft.changes:
            self._left.add(address)
        if record.lifecycle.deletion is not Deletion.DELETE:
            self._draft.take(kind, self._subject(address, None, self._now), retained(), None)
            return
        read = located(kind, address, record.id, self._capabilities, record=record)
        if read is None:
            subject = self._subject(address, None, self._now)
            self._draft.take(kind, subject, decide_left(kind, subject, listed=False), None)
        else:
            self._groups.setdefault(read, _Group()).left.append(record)

    def _subject(
        self,
        address: Address,
        live: Any,
        at: datetime,
        *,
        fingerprint: str | None = None,
    ) -> Subject:
        return Subject(
            address,
            self._resources.get(address),
            self._records.get(address),
            live,
            at,
            self._capabilities,
            fingerprint=fingerprint,
            powers=self._powers.get(address.app, {}),
            sets=self._sets.get(address.app, _NOBODY),
        )

    def _consider(
        self, kind: Kind, resource: Resource, matched: Matched, read: Read, observation: Observation
    ) -> None:
        address = resource.address
        subject = self._subject(address, matched.live, observation.at)
        if address in self._referenced and matched.live is not None:
            self.live[address] = matched.live
            self._sources[address] = read
        if kind.remake_missing or not is_remade(kind, subject):
            self._miss(subject.record, matched.live)
        if not self._focused(address):
            if address in self._needed and address not in self._outside:
                self._look_outside(kind, subject, matched)
            return
        candidates = ""
        if matched.live is None:
            match = kind.match(resource.spec, address)
            candidates = "" if match is None else digest_absence(match, observation.objects)
        extra = tuple(kind.extra_reads(subject)) if matched.live is not None else ()
        if extra or holds_secrets(kind):
            self._waiting.append(_Waiting(kind, subject, matched, read, candidates, extra))
        else:
            self._draft.take(
                kind, subject, decide(kind, subject, matched, listed=True, now=self._now), read, candidates
            )

    def _decide_waiting(self, waiting: _Waiting, fingerprints: Mapping[Address, str]) -> None:
        resource = waiting.subject.resource
        subject = replace(
            waiting.subject,
            extra={read.shape: self._extra[read] for read in waiting.extra},
            fingerprint=self._fingerprint(resource, fingerprints) if resource is not None else None,
        )
        if waiting.matched is None:
            moves = decide_left(waiting.kind, subject, listed=True)
        else:
            moves = decide(waiting.kind, subject, waiting.matched, listed=True, now=self._now)
        self._draft.take(waiting.kind, subject, moves, waiting.read, waiting.candidates)

    def _fingerprint(self, resource: Resource, fingerprints: Mapping[Address, str]) -> str | None:
        """A value made from an object that this plan creates is known to change, whatever it will be.

        So is one that is not known yet because the plan first waits for the object.
        """
        made = (Action.CREATE, Action.RESTORE)
        known = fingerprints.get(resource.address)
        for to in resource.references:
            if to.address in self._outside:
                return PENDING_VALUE
            change = self._draft.changes.get(to.address)
            if change is not None and change.action in made:
                return PENDING_VALUE
            if known is None and any(step.wait is not None for step in self._draft.steps.get(to.address, ())):
                return PENDING_VALUE
        return known

    def _miss(self, record: StateRecord | None, live: Any) -> None:
        if record is not None and live is None and not may_be_invisible(record, self._now):
            self._missing.append(record)

    def _doubts(self) -> Iterable[Diagnostic]:
        """What a person should know of records that may be wrong."""
        wave = many_missing(self._missing, len(self._records))
        if wave is not None:
            yield wave
        yield from recorded_twice(self._kinds, self._records)
        for address, resource in self._resources.items():
            if not self._focused(address):
                continue
            if address in self._draft.steps:
                yield from self._unmet(resource)
            record = self._records.get(address)
            if record is not None and record.inferred:
                yield inferred_warning(record, resource.span("metadata", "name"))
            if record is not None:
                yield from unprotected(record, resource)

    def _unmet(self, resource: Resource) -> Iterable[Diagnostic]:
        """Errors where the steps of `resource` need what this plan leaves alone, and what is not there."""
        hide = holds_secrets(self._kinds[resource.address.kind])
        for to in resource.references:
            if to.address in self._outside:
                problem = error(
                    "needs-unplanned",
                    f"`{resource.address}` needs `{to.address}`, which is not part of this plan: "
                    f"{self._outside[to.address]}",
                    resource.span(*to.span_path),
                    help=f"apply `{to.address}` first, or plan without --changed-since",
                )
                yield replace(problem, hide_source=hide)

    def _unreadable(self, group: _Group, problem: str) -> None:
        for resource in group.resources:
            if not self._focused(resource.address):
                self._outside[resource.address] = f"it cannot be read: {problem}"
                continue
            self._refuse(resource.address, problem, resource)
        for record in group.left:
            self._refuse(record.address, problem, None)

    def _refuse(self, address: Address, problem: str, resource: Resource | None) -> None:
        span = resource.span("metadata", "app" if address.app else "name") if resource else None
        record = self._records.get(address)
        question = error("unreadable", f"cannot read `{address}`: {problem}", span)
        self._draft.refuse(address, problem, question, id=record.id if record is not None else None)
