"""Which GETs a plan needs, and what their answers show of each subject.

Each answer is matched at once, handed on and let go: a hundred thousand resources are never held together
with their live state.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.lookup import Lookup
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.core.wire import Shape
from reconciler.kinds.base import Kind, Subject
from reconciler.planning.answers import digest_absence
from reconciler.planning.lookalikes import Lookalikes
from reconciler.planning.match import Matched, match_objects, match_unseen
from reconciler.planning.subjects import Subjects
from reconciler.planning.unchanged import Unchanged


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


class Unreadable(Struct, frozen=True):
    """A subject that cannot be decided, since an answer is missing, and why.

    `read`: see `Seen`; `cause`: see `Observation`.
    """

    subject: Subject
    read: Read | None
    problem: str
    cause: str = ""


@dataclass(slots=True)
class _Group:
    """All that one read is about; nothing, where a list is read for lookalikes only."""

    resources: list[Resource] = field(default_factory=list)
    left: list[StateRecord] = field(default_factory=list)


@dataclass(slots=True)
class _Waiting:
    """A subject that needs more answers: those that came, by their shape, and those that are open."""

    seen: Seen
    open: set[Read]
    alone: Read | None = None  # the one whose answer is the object itself
    hints: frozenset[Read] = frozenset()  # those that may stay without an answer
    answers: dict[Shape, Sequence[Any]] = field(default_factory=dict)


class Reading:
    """Groups subjects by the read that shows them, and hands each on when its answers are there."""

    def __init__(
        self, subjects: Subjects, refused: Collection[Address], unusable: Collection[Address] = ()
    ) -> None:
        """`refused`: resources that need no read, because nothing will be done about them. `unusable`:
        records that cannot be read.
        """
        self._subjects = subjects
        self._groups: dict[Read, _Group] = {}
        self._unlisted: list[Resource] = []
        self._unread: list[StateRecord] = []
        self._waiting: dict[Read, list[_Waiting]] = {}
        request = subjects.request
        self._unchanged = Unchanged(subjects)
        self.lookalikes = Lookalikes(
            request.kinds,
            subjects.resources,
            request.records,
            request.capabilities,
            subjects.owned,
            lambda address: subjects.in_focus(address) and address not in refused,
        )
        for address, resource in subjects.resources.items():
            if address not in refused and self._planned_or_needed(address):
                read = subjects.read_of(resource)
                if read is not None:
                    self._group(read).resources.append(resource)
                else:
                    self._unlisted.append(resource)
        if request.focus is not None:
            self._add_companions()
        for record in subjects.left:
            if record.address in unusable or record.address in refused:
                continue
            read = subjects.read_of_left(record)
            if read is not None:
                self._group(read).left.append(record)
            else:
                self._unread.append(record)
        for read in self.lookalikes.reads():
            self._group(read)

    def _group(self, read: Read) -> _Group:
        group = self._groups.get(read)
        if group is None:
            group = self._groups[read] = _Group()
        return group

    def reads(self) -> Sequence[Read]:
        return list(self._groups)

    def about(self, read: Read) -> Sequence[Address]:
        """The addresses that one of `reads` or `more_reads`, not answered yet, is about."""
        group = self._groups.get(read, _Group())
        listed = [*(each.address for each in group.resources), *(each.address for each in group.left)]
        return [*listed, *(each.seen.subject.address for each in self._waiting.get(read, ()))]

    def without_answer(self) -> Iterator[Seen]:
        """The subjects that no read is about. What they show is what manifests and records say."""
        subjects = self._subjects
        for resource in self._unlisted:
            kind, subject = subjects.kind(resource.address), subjects.subject(resource.address)
            matched = match_unseen(kind, resource, subject.record, subjects.owned)
            seen = Seen(kind, subject, matched, None)
            if not self._held_back(seen):
                yield seen
        for record in self._unread:
            yield Seen(subjects.kind(record.address), subjects.subject(record.address), None, None)

    def leaves_unchanged(self, read: Read, observation: Observation) -> bool:
        """Whether it is certain that the answer to one of `reads` leaves all that manifests name as it is."""
        resources = self._groups[read].resources
        return bool(resources) and self._unchanged.leaves(resources, observation)

    def pass_over(self, read: Read) -> int:
        """Take such an answer: of how many resources. `left` shows the rest."""
        group = self._groups[read]
        count, group.resources = len(group.resources), []
        return count

    def left(self, read: Read, observation: Observation) -> Iterator[Seen]:
        """What an answer that was passed over shows of records without a manifest."""
        group = self._groups.pop(read)
        yield from (seen for seen in self._left(group, read, observation) if not self._held_back(seen))

    def answer(self, read: Read, observation: Observation) -> Iterator[Seen | Unreadable]:
        """What the answer to one of `reads` shows; subjects that need more answers are held back."""
        group = self._groups.pop(read)
        if not observation.complete:
            self.lookalikes.look(read, observation)
            addresses = [each.address for each in group.resources] + [each.address for each in group.left]
            for address in addresses:
                subject = self._subjects.subject(address)
                yield Unreadable(subject, read, observation.problem, observation.cause)
            return
        shown = [*self._matched(group, read, observation), *self._left(group, read, observation)]
        taken = {seen.subject.live.id for seen in shown if seen.subject.live is not None}
        self.lookalikes.look(read, observation, taken)
        for seen in shown:
            if not self._held_back(seen):
                yield seen

    def _held_back(self, seen: Seen) -> bool:
        """Whether more answers are needed before anything can be decided about `seen`."""
        extra, hints, alone = set[Read](), frozenset[Read](), self._read_alone(seen)
        kind, subject = seen.kind, seen.subject
        if self._subjects.in_focus(subject.address):
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

    def more_reads(self) -> Sequence[Read]:
        """The reads that subjects need which were held back."""
        return list(self._waiting)

    def more_answer(self, read: Read, observation: Observation) -> Iterator[Seen | Unreadable]:
        for waiting in self._waiting.pop(read):
            if not waiting.open:
                continue  # another of its reads had no answer
            seen = waiting.seen
            problem = _bad_id(observation) if observation.complete else observation.problem
            if problem and read not in waiting.hints:
                waiting.open.clear()
                why = f"cannot read {read.path}: {problem}"
                yield Unreadable(seen.subject, seen.read, why, observation.cause)
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
                yield Unreadable(seen.subject, seen.read, problem)
                continue
            if not waiting.open:
                seen = waiting.seen
                yield replace(seen, subject=replace(seen.subject, extra=waiting.answers))

    def _planned_or_needed(self, address: Address) -> bool:
        return self._subjects.in_focus(address) or address in self._subjects.needed

    def _add_companions(self) -> None:
        """Resources outside of the focus that share a read: a new object may be theirs."""
        for address, resource in self._subjects.resources.items():
            if not self._planned_or_needed(address):
                read = self._subjects.read_of(resource)
                if read in self._groups:
                    self._groups[read].resources.append(resource)

    def _matched(self, group: _Group, read: Read, observation: Observation) -> Iterator[Seen]:
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
                    subject = replace(subject, beside=shown)
                yield Seen(kind, subject, matched, read, candidates)

    def _left(self, group: _Group, read: Read, observation: Observation) -> Iterator[Seen]:
        by_id = {item.id: item for item in observation.objects} if group.left else {}
        for record in group.left:
            subject = self._subjects.subject(record.address, by_id.get(record.id), observation.at)
            yield Seen(self._subjects.kind(record.address), subject, None, read)

    def _read_alone(self, seen: Seen) -> Read | None:
        """The GET that shows more of an object that a list has shown; None: all that is needed is there."""
        address, live, read = seen.subject.address, seen.subject.live, seen.read
        if live is None or read is None or not read.shape.many or not self._planned_or_needed(address):
            return None
        return self._subjects.read_alone(address, live)


def _bad_id(observation: Observation) -> str:
    """Why an answer about one subject only cannot be used; "" where it can."""
    bad = next((item for item in observation.objects if item.bad_id), None)
    return f"an `{bad.bad_id}` in it is not a valid id" if bad is not None else ""
