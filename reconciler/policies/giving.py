"""Finds the policies that give values to a resource, fast for thousands of policies and resources."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.model import Resource
from reconciler.kinds.manifest import ManifestKind
from reconciler.policies.base import GivesValues, Trait, traits


class Given(NamedTuple):
    """The values of the policy at `place` of a list."""

    place: int
    values: Mapping[str, Any]


class Giving:
    """Policies, indexed by the traits that they select."""

    def __init__(self, policies: Sequence[Resource], kinds: Mapping[str, ManifestKind]) -> None:
        selected: list[tuple[frozenset[Trait], Given]] = []
        for place, policy in enumerate(policies):
            role = kinds[policy.address.kind].role(GivesValues)
            if role is not None:
                given = Given(place, role.gives(policy.spec))
                selected.append((frozenset(role.selects(policy.spec)), given))
        common = Counter(trait for needed, _ in selected for trait in needed)
        # Indexed by the rarest of their traits: a label that all policies name filters little.
        self._by_trait: dict[Trait, list[tuple[frozenset[Trait], Given]]] = defaultdict(list)
        for needed, given in selected:
            self._by_trait[min(needed, key=lambda trait: (common[trait], trait))].append((needed, given))

    def given(self, resource: Resource) -> Sequence[Given]:
        """Return the values that policies give `resource`, in the order of the policies."""
        if not self._by_trait:
            return ()
        its = set(traits(resource))
        found = [given for trait in its for needed, given in self._by_trait.get(trait, ()) if needed <= its]
        return sorted(found, key=lambda given: given.place)
