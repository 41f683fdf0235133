"""What manifest files that were not given say of recorded objects, as data. Pure: others read those files."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from reconciler.core.model import Address, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import claim_of
from reconciler.moves.compare import differing


class Elsewhere(Struct, frozen=True):
    """The answers that planning needs about records whose manifest is not among the resources of a plan.

    `not_given`: the manifest is in a file that was not given, or was when the record was written.
    `gone`: those of them that no file declares any more; looked up for the `questions` of a plan only.
    `moved`: for an address that a Moved manifest in such a file leaves, that manifest and its file.
    """

    not_given: frozenset[Address] = frozenset()
    gone: frozenset[Address] = frozenset()
    moved: Mapping[Address, str] = field(default_factory=dict)


class Question(Struct, frozen=True):
    """Records of one kind and app beside new resources of the same kind and app.

    `suspects`: those whose object a new resource may describe. `declared`: those of which it must be known
    whether a file that was not given declares them, since one of the suspects depends on it.
    """

    suspects: Sequence[StateRecord]
    declared: Sequence[StateRecord]


def questions(
    kinds: Mapping[str, Kind],
    resources: Iterable[Resource],
    records: Mapping[Address, StateRecord],
    unwanted: Iterable[StateRecord],
    not_given: Collection[Address],
) -> Iterator[Question]:
    """What a plan of `resources` must know of other files: nothing where no new resource may be a record's.

    `unwanted`: the records that none of `resources` is about. This is asked before the platform is read,
    so it asks rather too much: a new resource may turn out to adopt an object.
    """
    new: dict[tuple[str, str | None], dict[Address, Resource]] = defaultdict(dict)
    for resource in resources:
        address = resource.address
        if address not in records:
            new[address.kind, address.app].setdefault(address._replace(ordinal=0), resource)
    left: dict[tuple[str, str | None], list[StateRecord]] = defaultdict(list)
    for record in unwanted:
        if (record.address.kind, record.address.app) in new:
            left[record.address.kind, record.address.app].append(record)
    for group, leavers in left.items():
        question = _question(kinds[group[0]], list(new[group].values()), leavers, records, not_given)
        if question.suspects:
            yield question


def _question(
    kind: Kind,
    new: Sequence[Resource],
    leavers: Sequence[StateRecord],
    records: Mapping[Address, StateRecord],
    not_given: Collection[Address],
) -> Question:
    named: set[Address] = set()

    def alias(old: Address, new: Address) -> bool:
        """Any two may be one: which old addresses that depends on is noted."""
        if old != new and old in not_given:
            named.add(old)
        return True

    claims = {claim_of(kind, each.adopt_id, each.spec, None) for each in new if each.adopt_id is not None}
    suspects = [
        record
        for record in leavers
        # No `any`: every pair is compared, so that each address that one depends on is noted.
        if sum(differing(kind, alias, resource, [record]) is not None for resource in new)
        or (claims and claim_of(kind, record.id, None, record) in claims)
    ]
    asked = dict.fromkeys(each.address for each in suspects if each.address in not_given) | dict.fromkeys(
        sorted(named)
    )
    return Question(suspects, [records[address] for address in asked])
