"""Decides about each subject as it is read, and makes the plan of all decisions."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import IN_FLIGHT, UNKNOWN_OUTCOME, Diagnostic, as_warning, error
from reconciler.core.model import Action, Address, Resource, StateRecord, owed_work
from reconciler.core.steps import Plan, Read
from reconciler.kinds.base import PENDING_VALUE, Decision, Kind, Subject
from reconciler.kinds.roles import (
    absent_origins,
    holds_secrets,
    is_remade,
    object_of,
    secret_names,
    unknown_origin,
)
from reconciler.moves.compare import LEFT
from reconciler.moves.detect import find_renames
from reconciler.planning.answers import FailedReads
from reconciler.planning.builder import PlanBuilder
from reconciler.planning.conflicts import bad_records, recorded_elsewhere, taken_secrets, unread_siblings
from reconciler.planning.decide import (
    decide,
    decide_left,
    inferred_warning,
    left_by_a_drill,
    many_missing,
    may_be_invisible,
    not_seen,
    recorded_twice,
    refuse,
    unprotected,
)
from reconciler.planning.drift import warnings_of, watched_fields
from reconciler.planning.match import Matched
from reconciler.planning.order import order_steps, referenced_first, resolve_known, users_of_deleted
from reconciler.planning.subjects import Subjects

Fingerprints = Mapping[Address, str]


class Seen(Struct, frozen=True):
    """A subject with all that could be read of it.

    `matched`: None where no manifest names it any more. `read`: the GET that shows its object; None where
    no GET does. `candidates`: where no present object was found, a digest of those that could be it.
    """

    kind: Kind
    subject: Subject
    matched: Matched | None
    read: Read | None
    candidates: str = ""

    @property
    def listed(self) -> bool:
        """Whether a read shows objects of this kind."""
        return self.read is not None


class UnreadableSubject(Struct, frozen=True):
    """A subject that cannot be decided, since an answer is missing, and why.

    `read`: see `Seen`; `cause`: see `Observation`.
    """

    subject: Subject
    read: Read | None
    problem: str
    cause: str = ""


class Deciding:
    """Decides about each subject as it is handed on, or in `finish` where that depends on others.

    Decided in `finish` are secrets, whose values come last, and kinds that no read shows: whether an object
    that they refer to is made anew decides about them. `live`: the objects that other resources refer to, by
    address. `bad`: records whose ids cannot be used. `unread`: counts the reads, and reports the failed ones.
    """

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._request = subjects.request
        self._builder = PlanBuilder()
        self.unread = FailedReads()
        self._unplanned: dict[Address, str] = {}  # needed, not of this plan, and without a value: why
        self._missing: list[StateRecord] = []
        self._gone: set[Address] = set()  # what left the manifests, and cannot have got another name
        self._takes_over = False  # whether the plan takes an object that no record of ours has
        self._last: dict[Address, Seen] = {}  # resources that are decided in `finish`
        self.live: dict[Address, Any] = {}
        self._sources: dict[Address, Read] = {}
        for address, warnings in subjects.expired:
            if subjects.in_focus(address):
                self._builder.report(address, *warnings)
        in_flight: dict[Address, str] = {}  # about these, and what refers to them, the next plan decides
        for address, question in self._request.undecided.items():
            under_way = question.code == IN_FLIGHT
            why = "another process is sending a call for it" if under_way else question.message
            if question.code == UNKNOWN_OUTCOME:
                why = "a call's outcome is unknown"
            if subjects.in_focus(address):
                self._builder.report(address, question)
            # What a list shows for one that looks the same may be what this call made.
            alike = [other for other in subjects.alike(address) if other not in self._request.undecided]
            left = {address: why} | dict.fromkeys(alike, f"waits for {address}, which looks the same")
            if under_way:
                in_flight |= left
                continue
            for waiting, reason in left.items():
                if not subjects.in_focus(waiting):
                    self._unplanned[waiting] = reason
                elif subjects.in_focus(address):
                    self._builder.refuse(waiting, reason)
                else:
                    self._builder.refuse(waiting, reason, question)
        for resource in referenced_first(list(subjects.resources.values())) if in_flight else ():
            waits = next((to.address for to in resource.references if to.address in in_flight), None)
            if waits is not None and resource.address not in self._builder.changes:
                in_flight.setdefault(resource.address, f"waits for {waits}")
        for address, why in in_flight.items():
            if subjects.in_focus(address):
                self._builder.leave(address, why)
        self.bad = bad_records(self._request.kinds, self._request.records, subjects.resources)
        for address, problem in self.bad.items():
            if subjects.in_focus(address):
                self._builder.refuse(address, problem.message, problem)
            else:
                self._unplanned[address] = problem.message
        for address, problem in taken_secrets(self._request.kinds, subjects.resources, subjects.setters):
            if subjects.in_focus(address):
                self._builder.refuse(address, problem.message, problem)
        for record in (
            *subjects.kept,
            *subjects.outside,
        ):  # the plan names the latter only where one was renamed
            reason = f"kept: this version of reconcile does not know the kind {record.address.kind}"
            self._builder.keep(record, reason)

    @property
    def refused(self) -> Collection[Address]:
        """The addresses about which nothing is done, whatever the platform shows."""
        return self._builder.changes.keys()

    def pass_over(self, count: int) -> None:
        """Subjects about which nothing has to be decided, since all is as it should be."""
        self._builder.unchanged += count

    def take(self, seen: Seen | UnreadableSubject) -> None:
        """Decide about a subject. Its live object is let go, unless others refer to it."""
        subject = seen.subject
        address, live, read = subject.address, subject.live, seen.read
        if live is not None and read is not None and address in self._subjects.referenced:
            self.live[address] = live
            self._sources[address] = read
        if isinstance(seen, UnreadableSubject):
            self._take_unreadable(subject, seen.problem, seen.cause)
            return
        if seen.listed and live is None:
            self._note_missing(seen)
        if not self._subjects.in_focus(address):
            self._take_unplanned(seen)
        elif subject.resource is None:
            self._note_gone(seen)
            if subject.lifecycle.scratch and str(address) not in (self._request.approved_deletes or ()):
                self._add(seen, left_by_a_drill())
            else:
                now = self._request.context.at
                self._add(seen, decide_left(seen.kind, subject, listed=seen.listed, now=now))
        elif not seen.listed or holds_secrets(seen.kind):
            self._last[address] = seen
        else:
            self._add(seen, self._decide(seen))

    def finish(self, fingerprints: Fingerprints, unreadable: Collection[Address] = ()) -> Plan:
        """The plan. `fingerprints`: of the desired secret values that could be read.

        `unreadable`: nothing is done about these, since a value that they need cannot be read.
        """
        resources = self._subjects.resources
        # What others refer to comes first: whether it is made anew decides about their values.
        for resource in referenced_first([resources[address] for address in self._last]):
            seen = self._last[resource.address]
            fingerprint = self._fingerprint(resource, fingerprints)
            subject = replace(seen.subject, fingerprint=fingerprint, made=self._made(resource))
            self._add(seen, self._decide(replace(seen, subject=subject)))
        builder = self._builder
        rank = {address: position for position, address in enumerate(resources)}
        builder.sort(lambda address: (rank.get(address, len(rank)), str(address)))
        held = self._hold(dict.fromkeys(unreadable, "its secret value cannot be read here"))
        self._find_renames()
        references = {
            address: [to.address for to in resources[address].references]
            for address in builder.steps
            if address in resources
        }
        needed = {to for targets in references.values() for to in targets}
        users = users_of_deleted(builder.changes, builder.steps, self._request.records)
        outside = self._outside()
        known = {str(to): self._known(to, live) for to, live in self.live.items() if live.present}
        if self._request.context.lineage:
            known["state"] = {"lineage": self._request.context.lineage}
        return Plan(
            id=self._request.id,
            context=self._request.context,
            changes=tuple(change for address, change in builder.changes.items() if address not in outside),
            steps=order_steps(
                [
                    [resolve_known(step, known) for step in builder.steps[address]]
                    for address in builder.changes
                    if address in builder.steps
                ],
                {
                    **{at: [to for to in targets if to not in users] for at, targets in references.items()},
                    **users,
                },
            ),
            expectations=tuple(builder.expectations),
            bindings=tuple(builder.bindings),
            owed=tuple(
                owed for owed in owed_work(self._request.records) if owed.address not in builder.settled
            ),
            diagnostics=(*builder.diagnostics, *self.unread.diagnostics(), *self._doubts()),
            inputs=tuple((str(to), self._sources[to]) for to in sorted(needed) if to in self._sources),
            unchanged=builder.unchanged,
            outside=len(outside),
            unread=tuple(held),
        )

    # --- one subject ---

    def _decide(self, seen: Seen) -> Decision:
        """The decision about a wanted resource, unless another environment owns its object."""
        assert seen.matched is not None
        taken = self._recorded_elsewhere(seen)
        if taken is not None:
            return Decision(Action.REFUSED, diagnostics=(taken,), reason=taken.message)
        decision = decide(
            seen.kind, seen.subject, seen.matched, listed=seen.listed, now=self._request.context.at
        )
        resource = seen.subject.resource
        if decision.action in (Action.CREATE, Action.RESTORE) and resource is not None:
            for origin in absent_origins(resource, self._subjects.resources):
                return refuse(unknown_origin(resource, origin, self._request.records))
        return decision

    def _recorded_elsewhere(self, seen: Seen) -> Diagnostic | None:
        """The error for an object that another environment has recorded; None where it may be taken."""
        resource, live = seen.subject.resource, seen.subject.live
        if resource is None or seen.subject.record is not None:
            return None
        ids = [id for id in (resource.adopt_id, live.id if live is not None else None) if id]
        self._takes_over |= bool(ids)
        if holds_secrets(seen.kind):  # set anew, it is another environment's that changes
            ids += secret_names(seen.kind, resource, None)
        for id in ids:
            owner = self._request.siblings.owner(seen.kind, resource, id)
            if owner is not None:
                return recorded_elsewhere(seen.kind, resource, id, owner)
        return None

    def _add(self, seen: Seen, decision: Decision) -> None:
        """Take a decision, with warnings about what is watched of the object."""
        subject = seen.subject
        if decision.action is Action.RESTORE:  # of what was destroyed, if anything, only the record counts
            subject = replace(subject, live=None)
        self._builder.add(seen.kind, subject, decision, seen.read, seen.candidates)
        record, live = seen.subject.record, seen.subject.live
        if record is not None and live is not None and live.present:
            reported = {problem.code for problem in decision.diagnostics}
            reported |= {watch.code for watch in seen.kind.watched if watch.owed and decision.settles}
            found = list(watched_fields(seen.kind, record, live))
            warnings = warnings_of(seen.kind, record, subject.resource, found)
            self._builder.report(
                subject.address, *(warning for warning in warnings if warning.code not in reported)
            )

    def _take_unplanned(self, seen: Seen) -> None:
        """Note whether values of an object can be had that this plan leaves alone."""
        address = seen.subject.address
        if address not in self._subjects.needed or address in self._unplanned:
            return
        if not seen.listed:
            if seen.subject.record is None:
                self._unplanned[address] = "it does not exist"
        elif seen.subject.live is None or not seen.subject.live.present:
            self._unplanned[address] = "it does not exist"
        elif not seen.kind.extra_reads(seen.subject):
            decision = self._decide(seen)
            if decision.action is Action.NOOP and any(step.wait is not None for step in decision.steps):
                self._unplanned[address] = "it is still being created"

    def _take_unreadable(self, subject: Subject, problem: str, cause: str) -> None:
        """Refuse a subject without an answer, or keep it where no manifest names it."""
        address, resource, record = subject.address, subject.resource, subject.record
        if not self._subjects.in_focus(address):
            self._unplanned[address] = f"it cannot be read: {problem}"
            return
        span = subject.span("metadata", "app" if address.app else "name") if resource is not None else None
        question = error("unreadable", f"cannot read `{address}`: {problem}", span)
        if resource is None and record is not None and not subject.to_delete:
            self._builder.keep(record, not_seen(problem).reason)
            question = as_warning(question)
        else:
            self._builder.refuse(address, problem, id=record.id if record is not None else None)
        self.unread.add(cause, question, [address])

    def _note_missing(self, seen: Seen) -> None:
        """Count a recorded object that no read shows, unless it may just have been made."""
        record = seen.subject.record
        if record is None or may_be_invisible(record, self._request.context.at):
            return
        if seen.subject.resource is None:
            # Nothing is ever sent about what is kept, and only drills are about what they have made.
            counts = seen.subject.to_delete and not record.lifecycle.scratch
        else:
            counts = seen.kind.remake_missing or not is_remade(seen.kind, seen.subject)
        if counts:
            self._missing.append(record)

    def _note_gone(self, seen: Seen) -> None:
        """Note a record that cannot have got another name.

        Of what has just left, only an object that is shown as destroyed: a list may lack one that is there.
        """
        record, live = seen.subject.record, seen.subject.live
        assert record is not None
        unshown = seen.listed and not may_be_invisible(record, self._request.context.at)
        if (unshown and record.applied.get(LEFT)) if live is None else not live.present:
            self._gone.add(record.address)

    # --- all of them ---

    def _fingerprint(self, resource: Resource, fingerprints: Fingerprints) -> str | None:
        """A value made from an object that this plan creates is known to change, whatever it will be.

        So is one that is not known yet because the plan first waits for the object.
        """
        made, known = self._made(resource), fingerprints.get(resource.address)
        for to in resource.references:
            if to.address in self._unplanned or to.address in made:
                return PENDING_VALUE
            steps = self._builder.steps.get(to.address, ())
            if known is None and any(step.wait is not None for step in steps):
                return PENDING_VALUE
        return known

    def _made(self, resource: Resource) -> frozenset[Address]:
        """The addresses that `resource` refers to and this plan creates."""
        made = (Action.CREATE, Action.RESTORE)
        targets = {to.address for to in resource.references}
        return frozenset(target for target in targets if self._builder.action_of(target) in made)

    def _outside(self) -> set[Address]:
        """The addresses that the plan is not about, and does not name."""
        subjects, builder = self._subjects, self._builder
        outside = {record.address for record in subjects.outside}
        kept = {address for address in outside if builder.action_of(address) is Action.RETAIN}
        return kept | {address for address in subjects.resources if not subjects.in_focus(address)}

    def _hold(self, held: dict[Address, str]) -> Collection[Address]:
        """Refuse what a question is about, and what needs that; all else goes on. Returns both."""
        resources = self._subjects.resources
        planned = [resources[address] for address in self._builder.steps if address in resources]
        for resource in referenced_first(planned):
            needed = next((to.address for to in resource.references if to.address in held), None)
            if needed is not None:
                held.setdefault(resource.address, f"needs {needed}, about which nothing is done")
        self._builder.withdraw(held)
        return held

    def _find_renames(self) -> None:
        """Hold back new resources that may be recorded objects under another name.

        Records that left outside of the plan count, too: else their object would be created a second time.
        """
        builder, request = self._builder, self._request
        unclear = request.undecided.keys() | self.bad.keys()
        bound = [record.address for record in self._subjects.left if record.address not in unclear]
        away = request.other_manifests.not_given | unclear
        deleted = {address for address in bound if builder.action_of(address) is Action.DELETE}
        approved = request.approved_deletes
        answered = {address for address in deleted if approved is not None and str(address) in approved}
        left = [
            *(address for address in bound if address not in answered | self._gone),
            *(record.address for record in self._subjects.outside if record.address not in away),
        ]
        left = [address for address in left if not request.records[address].lifecycle.scratch]
        resources, other_manifests = self._subjects.resources, request.other_manifests
        found = find_renames(
            request.kinds, builder.changes, resources, request.records, left, other_manifests
        )
        # Where a file that was not given says what became of it, it is known: none goes on.
        renames = [
            replace(rename, kept=rename.kept and other_manifests.moved.keys().isdisjoint(rename.reasons))
            for rename in found
        ]
        # Who approves a delete of a plan that is only looked at answers the question, too.
        open_to = deleted if approved is None else set()
        held = [rename for rename in renames if not rename.kept and open_to.isdisjoint(rename.reasons)]
        self._hold({address: why for rename in held for address, why in rename.reasons.items()})
        for rename in renames:
            problem = rename.diagnostic
            for old in rename.reasons:
                if entry := other_manifests.moved.get(old):
                    problem = replace(problem, help=f"{entry} says where {old} moved: pass that file, too")
            builder.report(rename.address, problem)
        kept = [address for address in bound if builder.action_of(address) is Action.RETAIN]
        builder.bind_left(request.records[address] for address in sorted(kept))

    def _known(self, to: Address, live: Any) -> Mapping[str, Any]:
        """The fields that this plan does not change: the id, or all of an object that it leaves as it is."""
        return {"id": live.id} if to in self._builder.steps else live.model_dump()

    def _doubts(self) -> Iterator[Diagnostic]:
        """Problems with records that may be wrong, for a person."""
        request = self._request
        wave = many_missing(self._missing, len(request.records))
        if wave is not None and any(self._subjects.in_focus(record.address) for record in self._missing):
            yield wave
        yield from recorded_twice(request.kinds, request.records, self._subjects.in_focus)
        yield from self._adopted_twice()
        if self._takes_over and request.siblings.unread:
            yield unread_siblings(request.siblings)
        for address, resource in self._subjects.resources.items():
            if not self._subjects.in_focus(address):
                continue
            if address in self._builder.steps:
                yield from self._unmet(resource)
            record = request.records.get(address)
            if record is not None and record.inferred:
                yield inferred_warning(record, resource.span("metadata", "name"))
            if record is not None:
                yield from unprotected(record, resource)

    def _adopted_twice(self) -> Iterator[Diagnostic]:
        """An error for each object that two addresses take: two apps list it, or a reply was not its own."""
        owners: dict[tuple[str, str | None, str], Address] = {}
        for binding in self._builder.bindings:
            address = binding.address
            if binding.id is None or address in self._request.records:
                continue
            kind, resource = self._subjects.kind(address), self._subjects.resources[address]
            owner = owners.setdefault(object_of(kind, address, binding.id, resource.spec, None), address)
            if owner != address:
                yield error(
                    "adopt-conflict",
                    f"`{owner}` and `{address}` would both adopt `{binding.id}`, because two lists show it",
                    resource.span("metadata", "name"),
                    help="one object can have only one address: find out on the platform which one is "
                    "right, and remove the other manifest until only one list shows the object",
                )

    def _unmet(self, resource: Resource) -> Iterator[Diagnostic]:
        """Errors where the steps of `resource` need a value of an object that this plan leaves alone."""
        for to in resource.references:
            if to.address in self._unplanned:
                yield error(
                    "needs-unplanned",
                    f"`{resource.address}` needs `{to.address}`, which is not part of this plan: "
                    f"{self._unplanned[to.address]}",
                    resource.span(*to.span_path),
                    help=f"apply `{to.address}` first, or plan without --changed-since",
                )
