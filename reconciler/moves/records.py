"""Moves records to the addresses that their manifests have now, and says what is recorded then. Pure.

A Moved manifest is an entry `from` one address `to` another. Entries may follow each other. Without an
[index] an entry is about all of a `count`. Only the record moves: no call is sent. What is wrong with entries
is found while manifests are loaded.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import Address, Relocation, Resource, StateRecord
from reconciler.core.steps import Move
from reconciler.core.words import did_you_mean
from reconciler.kinds.base import Kind
from reconciler.kinds.manifest import ManifestKind
from reconciler.kinds.roles import Importable, holds_secrets, secret_names
from reconciler.policies.moved import KIND as MOVED
from reconciler.policies.moved import MovedSpec

# The field of a record with its earlier addresses: a secret's fingerprint was made with one of them.
MOVED_FROM = "moved from"

Records = Mapping[Address, StateRecord]


class Followed(Struct, frozen=True):
    """`records` as they are once `moves` are carried out. `refused`: why nothing moves to these addresses."""

    records: Records
    moves: tuple[Move, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    refused: Mapping[Address, Diagnostic] = field(default_factory=dict)


def follow_moves(
    kinds: Mapping[str, Kind],
    entries: Sequence[Resource],
    resources: Collection[Resource],
    records: Records,
    undecided: Collection[Address] = (),
) -> Followed:
    """Return what the Moved manifests among `entries` mean for `records`.

    `undecided`: addresses with a call of unknown outcome; what it made must be known before a record moves.
    """
    by_source = {entry.spec.source: entry for entry in entries if isinstance(entry.spec, MovedSpec)}
    if not by_source:
        return Followed(records)
    targets = {source: entry.spec.target for source, entry in by_source.items()}
    ends = {address: end for address in (*records, *undecided) if (end := _end(address, targets)) is not None}
    unclear = {end for address, end in ends.items() if address in undecided or end in undecided}
    wanted = {resource.address: resource for resource in resources if resource.address in ends.values()}
    moves: list[Move] = []
    refused: dict[Address, Diagnostic] = {}
    for address, end in ends.items():
        entry = by_source.get(address) or by_source[address._replace(ordinal=0)]
        others = [source for source, to in ends.items() if to == end and source != address]
        if end in unclear:
            refused.setdefault(end, _undecided(address, end, entry))
            continue
        problem = _hindrance(kinds, records[address], end, wanted.get(end), entry, records, others)
        if problem is None:
            moves.append(Move(address, end, records[address].id, records[address].serial))
        else:
            refused[end] = problem
    spent = _spent(by_source, targets, ends, records)
    after = carried_out(kinds, moves, records) if moves else records
    names = _names(moves, resources, after)
    notices = [
        _notice(move, by_source, _keep_name(kinds, move, wanted.get(move.target), names)) for move in moves
    ]
    return Followed(after, tuple(moves), (*notices, *spent), refused)


def carried_out(
    kinds: Mapping[str, Kind], moves: Sequence[Move], records: Records
) -> dict[Address, StateRecord]:
    """All records, with those of `moves` under their new addresses, also where others name them."""
    targets = {move.source: move.target for move in moves}
    after = {}
    for address, record in records.items():
        kind = kinds.get(address.kind)
        applied = kind.renamed(record, targets) if kind is not None else record.applied
        target = targets.get(address)
        if target is not None and holds_secrets(kinds[address.kind]):
            applied = {**applied, MOVED_FROM: [*applied.get(MOVED_FROM, ()), str(address)]}
        if target is not None or applied is not record.applied:
            record = replace(record, address=target or address, applied=applied)
        after[record.address] = record
    return after


def moved_records(
    kinds: Mapping[str, Kind], moves: Sequence[Move], records: Records
) -> dict[Address, StateRecord]:
    """The records to write for `moves`, by address: those that move, and those that name what moves."""
    if not moves:
        return {}
    targets = {move.target for move in moves}
    return {
        address: replace(record, serial=0) if address in targets else record
        for address, record in carried_out(kinds, moves, records).items()
        if record is not records.get(address)
    }


def former_addresses(entries: Iterable[Resource]) -> dict[Address, list[Address]]:
    """The addresses that resources had before `entries` were followed, by their address afterwards."""
    targets = {entry.spec.source: entry.spec.target for entry in entries if isinstance(entry.spec, MovedSpec)}
    former: dict[Address, list[Address]] = {}
    for source in targets:
        end = _end(source, targets)
        if end is not None:
            former.setdefault(end, []).append(source)
    return former


def earlier_addresses(record: StateRecord) -> list[Address]:
    """The addresses that a secret's fingerprint may have been made with."""
    return [Address.parse(text) for text in record.applied.get(MOVED_FROM, ())]


def next_address(address: Address, moves: Mapping[Address, Address]) -> Address | None:
    """The address that the entry about `address` gives it; None without an entry. `moves`: `to` by `from`.

    An entry without an [index] on either side is about all of `count`; any other about just one.
    """
    target = moves.get(address)
    if target is not None:
        return target
    whole = moves.get(address._replace(ordinal=0))
    return whole._replace(ordinal=address.ordinal) if whole is not None and not whole.ordinal else None


def later_addresses(address: Address, moves: Mapping[Address, Address]) -> Iterator[Address]:
    """The addresses that `address` gets, entry by entry. Entries in a circle end after one round."""
    following = next_address(address, moves)
    for _ in moves:
        if following is None:
            return
        yield following
        following = next_address(following, moves)


def _end(address: Address, targets: Mapping[Address, Address]) -> Address | None:
    """The address that `address` ends at; None where no entry moves it."""
    return next(reversed([*later_addresses(address, targets)]), None)


def _undecided(source: Address, end: Address, entry: Resource) -> Diagnostic:
    """The error for a record that cannot move yet, or one that a call may still give."""
    return error(
        "move-undecided",
        f"{source} cannot become {end} while the outcome of a call is unknown",
        entry.span("spec", "from"),
        help="settle that call first, as the other message says",
    )


def _hindrance(
    kinds: Mapping[str, Kind],
    record: StateRecord,
    end: Address,
    resource: Resource | None,
    entry: Resource,
    records: Records,
    others: Sequence[Address],
) -> Diagnostic | None:
    """The error that keeps `record` from becoming that of `end`; None where nothing does."""
    source = record.address
    if record.lifecycle.scratch:
        return error(
            "move-conflict",
            f"{source} is what a drill has made, and deletes again",
            entry.span("spec", "from"),
            help="to keep what it restored, write a manifest that restores it",
        )
    twin = records.get(end) or next((records[other] for other in others), None)
    if twin is not None:
        forget = tuple(command("state", "forget", address) for address in (source, twin.address))
        return error(
            "move-conflict",
            f"{source} ({record.id}) cannot become {end}: {twin.address} ({twin.id}) is recorded, too",
            entry.span("spec", "from"),
            help="find out which object belongs to the manifest, and drop the other record: "
            f"`{forget[0]}` or `{forget[1]}`",
            advice=forget,
        )
    if resource is not None and another_name(kinds[source.kind], resource, record):
        return error(
            "move-renames",
            f"{source} cannot become {end}: the platform identifies it by its name, `{record.id}`",
            entry.span("spec", "to"),
            help=f"write `name: {record.id}` into the spec of {end}; for another name, remove this entry",
        )
    return None


def another_name(kind: Kind, resource: Resource, record: StateRecord) -> bool:
    """True where the platform takes the two for two objects, because it knows them by their names only."""
    if not holds_secrets(kind):
        return False
    return set(secret_names(kind, resource, None)) != set(secret_names(kind, None, record))


def _names(
    moves: Iterable[Move], resources: Iterable[Resource], after: Records
) -> dict[Address, dict[Address, str | None]]:
    """The platform's names of the objects of each manifest that a record moves to; None: not known."""
    names: dict[Address, dict[Address, str | None]] = {move.target._replace(ordinal=0): {} for move in moves}
    for resource in resources:
        address = resource.address
        base = address._replace(ordinal=0)
        if base in names and address in after:
            names[base][address] = after[address].applied.get("name")
    return names


def _keep_name(
    kinds: Mapping[str, Kind],
    move: Move,
    wanted: Resource | None,
    names: Mapping[Address, Mapping[Address, str | None]],
) -> str:
    """How to find the object without the state, or to keep its name; "" where the manifest has it already."""
    if wanted is None or getattr(wanted.spec, "name", "") is not None:
        return ""
    base = move.target._replace(ordinal=0)
    name = names[base][move.target]
    if not name or name == base.name:
        return ""
    if kinds[base.kind].role(Importable) is None:  # no list shows it: the next apply gives it the new name
        return f"to keep its name, write `name: {name}` into the spec of {base}"
    if set(names[base].values()) == {name}:
        return f"write `name: {name}` into the spec of {base}: then it is found even without this state"
    return (
        f"on the platform its name is still `{name}`, and all members of a `count` have one name: only this "
        f"state knows that it is {move.target}"
    )


def _notice(move: Move, entries: Mapping[Address, Resource], help: str) -> Diagnostic:
    """The remark about a record that moves."""
    entry = entries.get(move.source) or entries[move.source._replace(ordinal=0)]
    return Diagnostic(
        "move-pending",
        Severity.INFO,
        f"the record of {move.source} ({move.id}) moves to {move.target}; no call is sent",
        entry.span("spec", "to"),
        help=help,
    )


def _spent(
    entries: Mapping[Address, Resource],
    targets: Mapping[Address, Address],
    ends: Mapping[Address, Address],
    records: Records,
) -> Iterator[Diagnostic]:
    """A remark for each entry with nothing left to move, where the state holds its new address."""
    used = {*ends, *(address._replace(ordinal=0) for address in ends)}
    for source, entry in entries.items():
        if source not in used and (_end(source, targets) in records):
            yield Diagnostic(
                "move-done",
                Severity.INFO,
                f"{source} has moved already: {entry.address} can be removed",
                entry.span("spec", "from"),
                help="keep it while another state may still have the old address",
            )


def move_problems(
    policies: Sequence[Resource],
    kinds: Mapping[str, ManifestKind],
    declared: Collection[Address],
    known: Callable[[Address], bool],
) -> Iterator[Diagnostic]:
    """One error per entry that cannot be followed. `known`: whether an address may be declared after all."""
    entries: dict[Address, Resource] = {}
    targets: dict[Address, Resource] = {}
    for entry in policies:
        if not isinstance(entry.spec, MovedSpec) or any(MOVED.check(entry.spec, entry.span)):
            continue  # what is wrong with the entry by itself is said already
        problem = _of_one(entry, kinds)
        if problem is not None:
            yield problem
            continue
        for path, address, seen in (("from", entry.spec.source, entries), ("to", entry.spec.target, targets)):
            first = seen.setdefault(address, entry)
            if problem is None and first is not entry:
                problem = _twice(entry, path, address, first)
        if problem is not None:
            yield problem
    moves = {source: entry.spec.target for source, entry in entries.items()}
    for source, entry in entries.items():
        target = moves[source]
        if source in declared:
            exchange = _swapped(entry, moves, kinds)
            run = " && ".join(map(str, exchange))
            yield error(
                "move-of-declared",
                f"{source} has moved to {target}, but a manifest still declares it",
                entry.span("spec", "from"),
                help=f"entries cannot swap two names: remove both, and run `{run}`"
                if exchange
                else f"rename that manifest, or remove {entry.address}",
                advice=exchange,
            )
        elif source in later_addresses(source, moves):
            yield error(
                "move-cycle",
                f"{source} moves back to itself",
                entry.span("spec", "to"),
                help="remove the entries that are already applied",
            )
        elif next_address(target, moves) is None and target not in declared and not known(target):
            yield error(
                "move-undeclared",
                f"no manifest declares {target}",
                entry.span("spec", "to"),
                help=_nearest(target, declared) or "write the address that the resource has now",
            )


def ends_outside(entries: Iterable[Resource], taken_out: Callable[[Address], bool]) -> list[Resource]:
    """The `entries` that lead to a resource which an environment takes out: they do not count there.

    What they move stays where it is recorded, and has left, as what they would move it to has.
    """
    valid = [entry for entry in entries if not any(MOVED.check(entry.spec, entry.span))]
    moves = {entry.spec.source: entry.spec.target for entry in valid}
    return [entry for entry in valid if taken_out(_last(entry.spec.target, moves))]


def with_former(relocation: Relocation | None, manifests: Iterable[Mapping[str, Any]]) -> Relocation | None:
    """`relocation`, also of the addresses that resources had before, as entries among `manifests` say."""
    if relocation is None:
        return None
    moves = dict(filter(None, map(_unchecked, manifests)))
    here = dict(relocation.addresses)
    for source in moves:
        end = here.get(_last(source, moves)._replace(ordinal=0))
        base = source._replace(ordinal=0)
        if end is not None:
            here.setdefault(base, base._replace(app=end.app))
    return replace(relocation, addresses=here)


def _unchecked(manifest: Any) -> tuple[Address, Address] | None:
    """`from` and `to` of an entry; None of another manifest, or where they are not addresses."""
    if not isinstance(manifest, dict) or manifest.get("kind") != MOVED.name:
        return None
    try:
        return Address.parse(manifest["spec"]["from"]), Address.parse(manifest["spec"]["to"])
    except (KeyError, TypeError, ValueError):
        return None


def _last(address: Address, moves: Mapping[Address, Address]) -> Address:
    """The address that `address` has once all `moves` are followed."""
    return [address, *later_addresses(address, moves)][-1]


def _of_one(entry: Resource, kinds: Mapping[str, ManifestKind]) -> Diagnostic | None:
    """The error of an entry whose kind has no records; None for a good one."""
    name = entry.spec.source.kind
    if name not in kinds:
        return error(
            "unknown-kind",
            f"there is no kind `{name}`",
            entry.span("spec", "from"),
            help=did_you_mean(name, list(kinds)) or f"kinds are {', '.join(kinds)}",
        )
    if not isinstance(kinds[name], Kind):
        return error(
            "move-of-nothing",
            f"{entry.spec.source} has no object and no record that could move",
            entry.span("spec", "from"),
            help=f"a {name} is renamed in its manifest alone; remove this entry",
        )
    return None


def _twice(entry: Resource, path: str, address: Address, first: Resource) -> Diagnostic:
    """The error for two entries that start or end at the same address."""
    span = first.span("spec", path)
    return error(
        "duplicate-move",
        f"{address} moves twice" if path == "from" else f"two resources move to {address}",
        entry.span("spec", path),
        notes=(f"first at {span.place}",) if span else (),
        help="remove one of the two entries",
    )


def _swapped(
    entry: Resource, moves: Mapping[Address, Address], kinds: Mapping[str, ManifestKind]
) -> tuple[Command, ...]:
    """How two exchange their names; none where that is not meant, or where the platform goes by names."""
    source, target = entry.spec.source, entry.spec.target
    if moves.get(target) != source or holds_secrets(kinds[source.kind]):
        return ()
    between = Address(source.kind, f"{source.name}-swapped", source.app)
    steps = ((source, between), (target, source), (between, target))
    return tuple(command("state", "mv", old, new) for old, new in steps)


def _nearest(target: Address, declared: Collection[Address]) -> str:
    """The declared address that `target` may be a misspelling of, as a hint; "" for none."""
    same = [str(address) for address in declared if (address.kind, address.app) == (target.kind, target.app)]
    return did_you_mean(str(target), same[:1000])
