"""Checks references between resources: their targets exist, and they form no loop."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Address, Resource
from reconciler.core.words import nearest

_MOST_CYCLES = 10
_MOST_CANDIDATES = 1_000
_MOST_SUGGESTIONS = 20  # every one is a search among all candidates


def unknown_references(
    referring: Iterable[Resource],
    resources: Mapping[Address, Resource],
    known: Callable[[Address], bool],
    notes: Callable[[Address], tuple[str, ...]],
) -> Iterator[Diagnostic]:
    """Yield one error for every reference to an address that is neither in `resources` nor `known`.

    References that are needed only to create an object are left to `roles.unknown_origin` and to the plan,
    which knows the existing objects. `notes`: further notes about such an address.
    """
    suggestions = 0
    for resource in referring:
        if resource.address.ordinal:
            continue
        for reference in resource.references:
            wanted = reference.address
            if reference.once or wanted in resources or known(wanted):
                continue
            suggestions += 1
            why = notes(wanted)
            problem = error(
                "unknown-reference",
                f"no manifest declares {wanted}",
                resource.span(*reference.span_path),
                notes=why,
                help=_help(wanted, resource.address, resources)
                if suggestions <= _MOST_SUGGESTIONS and not why
                else "",
            )
            yield problem


def reference_cycles(resources: Mapping[Address, Resource]) -> Iterator[Diagnostic]:
    """Yield one error for every loop, at the reference of the loop's first address."""
    graph = {
        address: {reference.address for reference in resource.references}
        for address, resource in resources.items()
        if resource.references
    }
    for _ in range(_MOST_CYCLES):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as found:
            loop: Sequence[Address] = found.args[1][:0:-1]  # from the one that refers to the one referred to
            start = loop.index(min(loop, key=str))
            loop = [*loop[start:], *loop[:start]]
            first, second = loop[0], loop[1 % len(loop)]
            graph[first].discard(second)
            yield _cycle(resources[first], second, loop)
        else:
            return


def _cycle(resource: Resource, second: Address, loop: Sequence[Address]) -> Diagnostic:
    path = next(item.span_path for item in resource.references if item.address == second)
    message = (
        f"{resource.address} refers to itself"
        if len(loop) == 1
        else f"references form a loop: {' -> '.join(map(str, [*loop, loop[0]]))}"
    )
    return error("reference-cycle", message, resource.span(*path), help="remove one of the references")


def nearest_address(wanted: Address, known: Collection[Address]) -> str:
    """Return a help text with the address in `known` that differs from `wanted` by a misspelt part, or ""."""
    if len(known) > _MOST_CANDIDATES:
        return ""
    for part in ("name", "app", "kind"):
        others = attrgetter(*(name for name in Address._fields if name != part))
        alike = {
            getattr(address, part) or "": address for address in known if others(address) == others(wanted)
        }
        if near := nearest(getattr(wanted, part) or "", list(alike)):
            return f"did you mean `{alike[near]}`?"
    return ""


def _help(wanted: Address, referring: Address, resources: Collection[Address]) -> str:
    """Return help with the address that may be meant: a name alone means one of the same app."""
    known = [
        address
        for address in resources
        if address.app == wanted.app and not address.ordinal and address != referring
    ]
    near = nearest_address(wanted, known)
    if near:
        return near
    if wanted._replace(ordinal=0) in resources:
        return f"there is {wanted._replace(ordinal=0)}; correct the [index], or raise the `count`"
    in_other_apps = [
        address
        for address in resources
        if (address.kind, address.name) == (wanted.kind, wanted.name) and not address.ordinal
    ]
    if len(in_other_apps) == 1:
        return (
            f"there is {in_other_apps[0]}, in another app; correct the name, or write a manifest for {wanted}"
        )
    return "correct the name, or write a manifest for it"
