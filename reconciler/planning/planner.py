"""One plan, from a request and the answers to its reads, as they arrive.

    planner = Planner(request)
    for read in planner.reads(): planner.answer(read, observation)
    for read in planner.more_reads(): planner.more_answer(read, observation)
    plan = planner.finish(fingerprints)

`Planner` says what must be read and matches answers to subjects; `Deciding` makes the plan of them.
Each answer is matched at once, handed on and let go: a hundred thousand resources are never held together
with their live state.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from reconciler.core.lookup import Lookup
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import Plan, Read
from reconciler.core.wire import Shape
from reconciler.planning.answers import digest_absence
from reconciler.planning.deciding import Deciding, Seen, UnreadableSubject
from reconciler.planning.lookalikes import Lookalikes
from reconciler.planning.match import match_objects, match_unseen
from reconciler.planning.subjects import PlanRequest, Subjects
from reconciler.planning.unchanged import Unchanged


@dataclass(slots=True)
class _Group:
    """All that one read is about; nothing, where a list is read for lookalikes only.

    Mutable: resources are passed over, and companions are added.
    """

    resources: list[Resource] = field(default_factory=list)
    left: list[StateRecord] = field(default_factory=list)

    @property
    def addresses(self) -> list[Address]:
        return [*(resource.address for resource in self.resources), *(record.address for record in self.left)]


@dataclass(slots=True)
class _Waiting:
    """A subject that needs more answers: those that came, by their shape, and those that are open.

    Mutable: answers come one by one. `alone`: the read whose answer is the object itself. `hints`: the reads
    that may stay without an answer.
    """

    seen: Seen
    open: set[Read]
    alone: Read | None = None
    hints: frozenset[Read] = frozenset()
    answers: dict[Shape, Sequence[Any]] = field(default_factory=dict)


class Planner:
    """Groups subjects by the read that shows them, and has each decided when its answers are there.

    Answers may come in any order. `lookalikes`: what all lists have shown next to recorded objects.
    """

    def __init__(self, request: PlanRequest) -> None:
        self._subjects = subjects = Subjects(request)
        self._deciding = Deciding(subjects)
        self._groups: dict[Read, _Group] = {}
        self._waiting: dict[Read, list[_Waiting]] = {}
        self._unchanged = Unchanged(subjects)
        refused, unusable = self._deciding.refused, self._deciding.bad
        self.lookalikes = Lookalikes(
            request.kinds,
            subjects.resources,
            request.records,
            request.capabilities,
            subjects.owned,
            lambda address: subjects.in_focus(address) and address not in refused,
        )
        unlisted: list[Resource] = []
        unread: list[StateRecord] = []
        for address, resource in subjects.resources.items():
            if address not in refused and self._planned_or_needed(address):
                read = subjects.read_of(resource)
                if read is not None:
                    self._group(read).resources.append(resource)
                else:
                    unlisted.append(resource)
        if request.focus is not None:
            self._add_companions()
        for record in subjects.left:
            if record.address in unusable or record.address in refused:
                continue
            read = subjects.read_of_left(record)
            if read is not None:
                self._group(read).left.append(record)
            else:
                unread.append(record)
        for read in self.lookalikes.reads():
            self._group(read)
        self._decide(self._without_answer(unlisted, unread))

    def reads(self) -> Sequence[Read]:
        """The reads that show subjects, and the lists that may show lookalikes."""
        return list(self._groups)

    def answer(self, read: Read, observation: Observation) -> None:
        """Take the answer to one of `reads`."""
        self._deciding.unread.answered(observation)
        if self._leaves_unchanged(read, observation):
            group = self._groups.pop(read)
            self._deciding.pass_over(len(group.resources))
            self._decide(self._left(group, read, observation))
        else:
            self._decide(self._shown(self._groups.pop(read), read, observation))

    def more_reads(self) -> Sequence[Read]:
        """The reads that the subjects need which were held back."""
        return list(self._waiting)

    def more_answer(self, read: Read, observation: Observation) -> None:
        """Take the answer to one of `more_reads`."""
        self._deciding.unread.answered(observation)
        for seen in self._complete(read, observation):
            self._deciding.take(seen)

    def about(self, read: Read) -> Sequence[Address]:
        """The addresses that one of `reads` or `more_reads`, not answered yet, is about."""
        waiting = self._waiting.get(read, ())
        group = self._groups.get(read, _Group())
        return [*group.addresses, *(subject.seen.subject.address for subject in waiting)]

    @property
    def live(self) -> Mapping[Address, Any]:
        """The objects that resources refer to, once all answers have come: secret values are made of them."""
        return self._deciding.live

    def finish(self, fingerprints: Mapping[Address, str], unreadable: Collection[Address] = ()) -> Plan:
        """See `Deciding.finish`."""
        return self._deciding.finish(fingerprints, unreadable)

    # --- which reads ---

    def _group(self, read: Read) -> _Group:
        group = self._groups.get(read)
        if group is None:
            group = self._groups[read] = _Group()
        return group

    def _planned_or_needed(self, address: Address) -> bool:
        return self._subjects.in_focus(address) or address in self._subjects.needed

    def _add_companions(self) -> None:
        """Resources outside of the focus that share a read: a new object may be theirs."""
        for address, resource in self._subjects.resources.items():
            if not self._planned_or_needed(address):
                read = self._subjects.read_of(resource)
                if read in self._groups:
                    self._groups[read].resources.append(resource)

    def _read_alone(self, seen: Seen) -> Read | None:
        """The GET that shows more of an object that a list has shown; None: all that is needed is there."""
        address, live, read = seen.subject.address, seen.subject.live, seen.read
        if live is None or read is None or not read.shape.many or not self._planned_or_needed(address):
            return None
        return self._subjects.read_alone(address, live)

    # --- what answers show ---

    def _decide(self, shown: Iterator[Seen | UnreadableSubject]) -> None:
        """Hand on all of `shown`, except what needs more answers before anything can be decided."""
        for seen in shown:
            if isinstance(seen, UnreadableSubject) or not self._hold_back(seen):
                self._deciding.take(seen)

    def _hold_back(self, seen: Seen) -> bool:
        """Keep `seen` until its other reads are answered; False where it needs none."""
        extra, hints, alone = set[Read](), frozenset[Read](), self._read_alone(seen)
        kind, subject = seen.kind, seen.subject
        forgotten = seen.matched is None and seen.read is None  # nothing shows it, and no manifest names it
        if self._subjects.in_focus(subject.address) and not forgotten:
            if subject.live is not None or subject.resource is None:
                extra = set(kind.extra_reads(subject))
                hints = frozenset(kind.hints(subject)) - extra
            elif subject.record is None:
                extra = set(kind.origin_reads(subject))
        if not extra and not hints and alone is None:
            return False
        waiting = _Waiting(seen, {*extra, *hints, *([alone] if alone else [])}, alone, hints)
        for more in waiting.open:
            self._waiting.setdefault(more, []).append(waiting)
        return True

    def _without_answer(
        self, unlisted: Sequence[Resource], unread: Sequence[StateRecord]
    ) -> Iterator[Seen | UnreadableSubject]:
        """The subjects that no read is about. What they show is what manifests and records say."""
        subjects = self._subjects
        for resource in unlisted:
            kind, subject = subjects.kind(resource.address), subjects.subject(resource.address)
            yield Seen(kind, subject, match_unseen(kind, resource, subject.record, subjects.owned), None)
        for record in unread:
            yield Seen(subjects.kind(record.address), subjects.subject(record.address), None, None)

    def _leaves_unchanged(self, read: Read, observation: Observation) -> bool:
        """Whether it is certain that the answer to one of `reads` leaves all that manifests name as it is."""
        resources = self._groups[read].resources
        return bool(resources) and self._unchanged.leaves(resources, observation)

    def _shown(
        self, group: _Group, read: Read, observation: Observation
    ) -> Iterator[Seen | UnreadableSubject]:
        """What the answer to one of `reads` shows of the subjects that it is about."""
        if not observation.complete:
            self.lookalikes.look(read, observation)
            for address in group.addresses:
                subject = self._subjects.subject(address)
                yield UnreadableSubject(subject, read, observation.problem, observation.cause)
            return
        shown = [*self._matched(group, read, observation), *self._left(group, read, observation)]
        taken = {seen.subject.live.id for seen in shown if seen.subject.live is not None}
        self.lookalikes.look(read, observation, taken)
        yield from shown

    def _matched(self, group: _Group, read: Read, observation: Observation) -> Iterator[Seen]:
        """The resources that `read` is about, each with the object that belongs to it."""
        subjects = self._subjects
        by_kind: dict[str, list[Resource]] = {}
        for resource in group.resources:
            by_kind.setdefault(resource.address.kind, []).append(resource)
        shown = Lookup(observation.objects)
        for name, resources in by_kind.items():
            kind = subjects.request.kinds[name]
            matches = match_objects(kind, resources, subjects.request.records, subjects.owned, shown)
            for resource in resources:
                matched = matches[resource.address]
                subject = subjects.subject(resource.address, matched.live, observation.at)
                candidates = ""
                there = matched.live is not None and matched.live.present
                if not there and subjects.in_focus(resource.address):
                    match = kind.match(resource.spec, resource.address)
                    candidates = "" if match is None else digest_absence(match, shown)
                    subject = replace(subject, neighbours=shown)
                yield Seen(kind, subject, matched, read, candidates)

    def _left(self, group: _Group, read: Read, observation: Observation) -> Iterator[Seen]:
        """The records without a manifest that `read` is about, each with its object."""
        by_id = {item.id: item for item in observation.objects} if group.left else {}
        for record in group.left:
            subject = self._subjects.subject(record.address, by_id.get(record.id), observation.at)
            yield Seen(self._subjects.kind(record.address), subject, None, read)

    def _complete(self, read: Read, observation: Observation) -> Iterator[Seen | UnreadableSubject]:
        """The subjects that wait for no other read than `read`, or for which its answer is a problem."""
        for waiting in self._waiting.pop(read):
            if not waiting.open:
                continue  # another of its reads had no answer
            seen = waiting.seen
            problem = _bad_id(observation) if observation.complete else observation.problem
            if problem and read not in waiting.hints:
                waiting.open.clear()
                why = f"cannot read {read.path}: {problem}"
                yield UnreadableSubject(seen.subject, seen.read, why, observation.cause)
                continue
            waiting.open.discard(read)
            if read != waiting.alone:
                if not problem:
                    waiting.answers[read.shape] = observation.objects
            elif observation.objects:
                subject = replace(seen.subject, live=observation.objects[0], now=observation.at)
                waiting.seen = replace(seen, subject=subject, read=read)
            else:
                waiting.open.clear()
                problem = f"a list shows {seen.subject.live.id}, and {read.path} does not: run again"
                yield UnreadableSubject(seen.subject, seen.read, problem)
                continue
            if not waiting.open:
                seen = waiting.seen
                yield replace(seen, subject=replace(seen.subject, extra=waiting.answers))


def _bad_id(observation: Observation) -> str:
    """Why an answer about one subject only cannot be used; "" where it can."""
    bad = next((item for item in observation.objects if item.bad_id), None)
    return f"an `{bad.bad_id}` in it is not a valid id" if bad is not None else ""
