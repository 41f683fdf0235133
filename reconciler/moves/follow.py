"""Moved entries against each other and against what the manifests declare."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Address, Relocation, Resource
from reconciler.core.words import did_you_mean
from reconciler.kinds.base import Kind
from reconciler.kinds.manifest import ManifestKind
from reconciler.kinds.roles import holds_secrets
from reconciler.policies.moved import KIND as MOVED
from reconciler.policies.moved import MovedSpec, later_addresses, next_address


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
        for path, address, seen in (
            ("from", entry.spec.source, entries),
            ("to", entry.spec.target, targets),
        ):
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
    """Those of `entries` that lead to what an environment takes out: they do not count there.

    What they move stays where it is recorded, and has left, as what they would move it to has.
    """
    valid = [entry for entry in entries if not any(MOVED.check(entry.spec, entry.span))]
    moves = {entry.spec.source: entry.spec.target for entry in valid}
    return [entry for entry in valid if taken_out(_end(entry.spec.target, moves))]


def with_former(relocation: Relocation | None, manifests: Iterable[Mapping[str, Any]]) -> Relocation | None:
    """`relocation`, also of the addresses that resources had before, as entries among `manifests` say."""
    if relocation is None:
        return None
    moves = dict(filter(None, map(_unchecked, manifests)))
    here = dict(relocation.addresses)
    for source in moves:
        end = here.get(_end(source, moves)._replace(ordinal=0))
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


def _end(address: Address, moves: Mapping[Address, Address]) -> Address:
    """The address that `address` has once all `moves` are followed."""
    return [address, *later_addresses(address, moves)][-1]


def _of_one(entry: Resource, kinds: Mapping[str, ManifestKind]) -> Diagnostic | None:
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
    same = [str(address) for address in declared if (address.kind, address.app) == (target.kind, target.app)]
    return did_you_mean(str(target), same[:1000])
