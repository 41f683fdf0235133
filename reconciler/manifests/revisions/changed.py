"""What a change to the manifests touches: resources that ask for something else, and what refers to them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.manifests.load import Loaded
from reconciler.model import Address, Resource


@dataclass(frozen=True, slots=True)
class Changed:
    """`differ`: added, removed, or asking for something else. `dependants`: others that refer to them."""

    differ: frozenset[Address]
    dependants: frozenset[Address]

    @property
    def addresses(self) -> frozenset[Address]:
        return self.differ | self.dependants


def changed(before: Loaded, after: Loaded) -> Changed:
    """What differs between two loads of the same project.

    Compared is what a resource asks for, after overlays and policies: where its manifest stands, how it
    is written and its labels do not matter. What is not valid in `before` counts as different.
    """
    old, new = _by_address(before), _by_address(after)
    differ = {address for address in old.keys() | new.keys() if _differ(old.get(address), new.get(address))}
    referring: Mapping[Address, set[Address]] = defaultdict(set)
    for resource in new.values():
        for reference in resource.references:
            referring[reference.address].add(resource.address)
    reached, edge = set(differ), set(differ)
    while edge:
        edge = {address for each in edge for address in referring.get(each, ())} - reached
        reached |= edge
    return Changed(frozenset(differ), frozenset(reached - differ))


def _by_address(loaded: Loaded) -> dict[Address, Resource]:
    both: Iterable[Resource] = (*loaded.resources, *loaded.policies)
    return {resource.address: resource for resource in both}


def _differ(old: Resource | None, new: Resource | None) -> bool:
    return old is None or new is None or _meant(old) != _meant(new)


def _meant(resource: Resource) -> tuple[Any, ...]:
    """`exclude_unset`: a default that somebody wrote is managed, and one that nobody wrote is not."""
    spec = resource.spec.model_dump(exclude_unset=True)
    return spec, resource.lifecycle, resource.adopt_id, dict(resource.objectives)
