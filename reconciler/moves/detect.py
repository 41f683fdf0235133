"""Finds a manifest that left and one that came, for what may be one object: a renamed resource. Pure.

The platform renames nothing, so a renamed manifest looks like a removed and a new one. To act on that
would delete or abandon the data and make a second, empty object.

**A new address may be that of a recorded object if the object could become what the manifest says**: see
`moves.compare`. An object that is known by its name or by an id in the manifest must have the same one. Of
several, the names tell: see `pair_names`.

A `Rename` is an error with the Moved manifest to add, or a warning where the record was kept on purpose. A
`Doubt` is a warning: nothing tells which record became which resource.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.model import Action, Address, Change, Deletion, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import claim_of
from reconciler.moves.compare import LEFT, Alias, OtherManifests, Sameness, differing, pair_names

_MAKES = (Action.CREATE, Action.RESTORE, Action.SET)
_LEAVES = (Action.RETAIN, Action.DELETE, Action.FORGET, Action.REFUSED)
_MOST_NAMED = 5

Came = dict[Address, list[Resource]]  # by the address without its [index], as is what left
Left = dict[Address, list[StateRecord]]


class Rename(Struct, frozen=True):
    """A resource that may have two names: `pairs` of (record, new resource), those of one `count`.

    `differing`: fields that a plan would change afterwards. `others`: records that it may be as well.
    `kept`: it left the manifests in an earlier apply, so that this is likely another one.
    """

    pairs: Sequence[tuple[StateRecord, Resource]]
    differing: Sequence[str]
    others: Sequence[StateRecord]
    kept: bool

    @property
    def address(self) -> Address:
        """The address that came."""
        return self.pairs[0][1].address

    @property
    def reasons(self) -> dict[Address, str]:
        """Why nothing is done about each of the addresses."""
        new = {
            resource.address: f"perhaps {record.address} under a new name" for record, resource in self.pairs
        }
        old = {record.address: f"perhaps now {resource.address}" for record, resource in self.pairs}
        return new | old

    @property
    def diagnostic(self) -> Diagnostic:
        """An error; a warning where the record has been `kept` on purpose."""
        record, resource = self.pairs[0]
        old, new = record.address, resource.address
        notes = []
        if self.others:
            notes.append(f"it may also be {_named(self.others)}")
        if self.differing:
            named = ", ".join(f"`{name}`" for name in self.differing)
            notes.append(f"once it has moved, a plan compares {named}, which may differ")
        if self.kept:
            return warning(
                "perhaps-renamed",
                f"`{new}` may be `{old}` ({record.id}), which is kept without a manifest, under a new name",
                resource.span("metadata", "name"),
                notes=tuple(notes),
                help="if it is the same object, add this manifest before you apply; otherwise go on:\n"
                f"{self._entries()}",
            )
        forget, commands = command("state", "forget", old), self._commands()
        moved = f"or run `{' && '.join(map(str, commands))}`;\n" if commands else ""
        return error(
            "renamed",
            f"`{new}` may be `{old}` ({record.id}) under a new name: it would be created a second time",
            resource.span("metadata", "name"),
            notes=tuple(notes),
            help="if it is the same object, add this manifest; the record then moves, and no call is "
            f"sent:\n{self._entries()}\n"
            f"{moved}if it is a new one, {_if_new(record, forget)}",
            advice=(*commands, forget),
        )

    def _moves(self) -> Sequence[tuple[StateRecord, Resource]]:
        """The pairs to name in an entry: one for all of a `count`, or each member by itself."""
        record, resource = self.pairs[0]
        whole = not record.address.ordinal and not resource.address.ordinal
        return self.pairs[:1] if whole else self.pairs

    def _entries(self) -> str:
        """The Moved manifests to add, as one text."""
        return "---\n".join(entry(old.address, new) for old, new in self._moves()).rstrip("\n")

    def _commands(self) -> tuple[Command, ...]:
        """The commands that move the records; none where only a manifest can say it."""
        if any(old.id in ("", old.address.name) for old, _ in self._moves()):
            return ()
        return tuple(command("state", "mv", old.address, new.address) for old, new in self._moves())


class Doubt(Struct, frozen=True):
    """New resources, those of one `count`, that may be one of `records`: nothing tells which became which.

    `kept`: so they count as new ones.
    """

    resources: Sequence[Resource]
    records: Sequence[StateRecord]
    kept: bool = True

    @property
    def address(self) -> Address:
        """The first of the addresses that came."""
        return self.resources[0].address

    @property
    def reasons(self) -> dict[Address, str]:
        """The reason why nothing is done, by address."""
        first = self.records[0].address
        of = f"{first}" if len(self.records) == 1 else f"one of {len(self.records)} that left, as {first},"
        new = {resource.address: f"perhaps {of} under a new name" for resource in self.resources}
        return new | {record.address: f"perhaps now {self.address}" for record in self.records}

    @property
    def diagnostic(self) -> Diagnostic:
        """A warning: an entry would be a guess, and so would be a question. Else, an error."""
        old = self.records[0].address if len(self.records) == 1 else None
        among = "what left" if len(self.records) == 1 else "one of these"
        report, code = (warning, "perhaps-renamed") if self.kept else (error, "renamed")
        said = f"with a Moved manifest, `spec: {spec(old, self.resources[0])}`"
        return report(
            code,
            f"`{self.address}` may be {_named(self.records)} under a new name",
            self.resources[0].span("metadata", "name"),
            help="the names do not show which is the old object under a new name; "
            f"if it is {among}, say so before you apply, {said}; otherwise go on",
        )


def find_renames(
    kinds: Mapping[str, Kind],
    changes: Mapping[Address, Change],
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    left: Collection[Address],
    other_manifests: OtherManifests,
) -> Iterator[Rename | Doubt]:
    """Each new address at most once. `left`: recorded addresses that no manifest names any more."""
    comers: dict[tuple[str, str | None], Came] = defaultdict(lambda: defaultdict(list))
    for address, change in changes.items():
        resource = resources.get(address)
        if resource is None or address in records or _raises_count(address, resources, records):
            continue
        if change.action in _MAKES or (change.action is Action.REFUSED and resource.adopt_id is not None):
            comers[address.kind, address.app][address._replace(ordinal=0)].append(resource)

    if not comers:
        return
    away = {address for address in other_manifests.not_given if (address.kind, address.app) in comers}
    leaving: dict[tuple[str, str | None], list[StateRecord]] = defaultdict(list)
    for address in sorted((*left, *away)):
        decided = changes.get(address)
        if (address.kind, address.app) in comers and decided is not None and decided.action in _LEAVES:
            leaving[address.kind, address.app].append(records[address])

    def alias(old: Address, new: Address) -> bool:
        """True where both may name one object.

        Not where both are recorded, or the old one is still declared.
        """
        if old == new or old not in records:
            return True
        if old in resources or new in records:
            return False
        return old not in away or old in other_manifests.gone

    for group, leavers in leaving.items():
        kind, came = kinds[group[0]], comers[group]
        whole: Left = defaultdict(list)
        for record in leavers:
            if record.address not in away or _moved_away(kind, alias, record, came, other_manifests.gone):
                whole[record.address._replace(ordinal=0)].append(record)
        yield from _same_ids(kind, came, whole)
        fresh = {address: records for address, records in whole.items() if not _is_kept(records)}
        yield from _same_names(kind, alias, came, fresh, kept=False)
        rest = {address: records for address, records in whole.items() if _is_kept(records)}
        yield from _same_names(kind, alias, came, rest, kept=True)


def _raises_count(address: Address, resources: Collection[Address], records: Collection[Address]) -> bool:
    """True for one more member of a recorded `count` that is still wanted: that is not a rename."""
    first = address._replace(ordinal=0)
    return address.ordinal > 0 and first in resources and first in records


def _moved_away(kind: Kind, alias: Alias, record: StateRecord, came: Came, gone: Collection[Address]) -> bool:
    """Whether no file declares it any more, and one of those that came may be its object."""
    return record.address in gone and any(
        differing(kind, alias, resources[0], [record]) is not None for resources in came.values()
    )


def _is_kept(records: Iterable[StateRecord]) -> bool:
    """Whether an earlier apply has seen all of them without a manifest."""
    return all(record.applied.get(LEFT) for record in records)


def _same_ids(kind: Kind, came: Came, left: Left) -> Iterator[Rename]:
    """Yields what names an existing object by its id, and takes it out of `came`: it is that one or none."""
    owners = {
        claim_of(kind, record.id, None, record): at for at, records in left.items() for record in records
    }
    for address, resources in list(came.items()):
        if resources[0].adopt_id is None:
            continue
        del came[address]
        owner = owners.get(claim_of(kind, resources[0].adopt_id, resources[0].spec, None))
        if owner in left:
            yield Rename(list(zip(left.pop(owner), resources, strict=False)), [], [], kept=False)


def _same_names(kind: Kind, alias: Alias, came: Came, left: Left, *, kept: bool) -> Iterator[Rename | Doubt]:
    """Yields what names make likely, and takes it out of `came`.

    Of what is `kept`, only the one record that one new resource may be.
    """
    new, old = list(came), list(left)
    sameness = Sameness(
        kind, alias, [came[address][0] for address in new], [left[address] for address in old]
    )

    def cost(at: int, to: int) -> int | None:
        """The number of fields in which the two differ; None where they cannot be one."""
        fields = sameness.differing(at, to) if new[at] != old[to] else None
        return None if fields is None else len(fields)

    def is_alone(at: int, to: Sequence[int]) -> bool:
        """Whether the record is the only one that the resource may be, and the other way round."""
        return len(to) == 1 and not any(
            cost(other, to[0]) is not None for other in range(len(new)) if other != at
        )

    found = pair_names([address.name for address in new], [address.name for address in old], cost)
    for pairing in sorted(found, key=lambda pairing: pairing.at):
        if kept and not is_alone(pairing.at, pairing.to):
            continue
        resources = came.pop(new[pairing.at])
        likely, *others = [left[old[to]] for to in pairing.to]
        if pairing.clear:
            fields = sameness.differing(pairing.at, pairing.to[0]) or []
            pairs = list(zip(likely, resources, strict=False))
            yield Rename(pairs, fields, [records[0] for records in others], kept)
        else:
            records = [record for records in (likely, *others) for record in records]
            yield Doubt(resources, records)


def _if_new(old: StateRecord, forget: Command) -> str:
    """How to say that what came is not `old`."""
    address, leaves = old.address, old.lifecycle.deletion is Deletion.DELETE
    signed = "(where a rule asks for people: sign the plan that deletes it)"
    delete = f"pass --approve-delete {address.quoted} {signed}, " if leaves else ""
    return f"{delete}apply the manifests of its app without it first, or run `{forget}`"


def _named(records: Sequence[StateRecord]) -> str:
    """The records as a sentence names them: at most a few, and the number of the others."""
    named = [f"`{record.address}` ({record.id})" for record in records]
    if len(named) > _MOST_NAMED:
        return f"{', '.join(named[:_MOST_NAMED])} and {len(named) - _MOST_NAMED} more"
    return " or ".join(filter(None, (", ".join(named[:-1]), named[-1])))


_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
_LONGEST_NAME = 63


def entry(old: Address, new: Resource) -> str:
    """The entry as text, with names as in the file of `new`: beside it, it counts in every environment."""
    there = _in_file(new)
    parts = [there.kind.lower(), there.app, there.name, str(there.ordinal) if there.ordinal else None]
    name = "-".join(part for part in parts if part)[-_LONGEST_NAME:].lstrip("._-")
    return f"apiVersion: reconciler/v1\nkind: Moved\nmetadata: {{name: {name}}}\nspec: {spec(old, new)}\n"


def spec(old: Address | None, new: Resource) -> str:
    """Its `spec`, with the same names. `old`: None where a person has to write it; OLD stands there."""
    there = _in_file(new)
    source = _written(old._replace(app=there.app)) if old is not None else "OLD"
    return f"{{from: {source}, to: {_written(there)}}}"


def _in_file(new: Resource) -> Address:
    """The address of `new` as its own file has it."""
    return new.in_file._replace(ordinal=new.address.ordinal)


def _written(address: Address) -> str:
    """The address as YAML: a plain `[1]` would end a mapping in braces."""
    text = str(address)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
