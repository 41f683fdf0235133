"""The loaded manifests, with what a plan has to know of them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from reconciler.core.context import UNKNOWN_ORIGIN, Origin
from reconciler.core.diagnostics import Diagnostic, Span
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import ManifestSet, Plan
from reconciler.kinds import find_kinds


class Trusted(Struct, frozen=True):
    """What somebody else's change is planned by (--untrusted).

    `providers`: those of the trusted revision, the only ones that are asked. `unchecked`: the secrets whose
    value may be another one; none of them is read.
    """

    providers: Sequence[Resource] = ()
    unchecked: Collection[Address] = ()


class Desired(Struct, frozen=True):
    """The loaded manifests. `selected`: whether a record without a manifest belongs to the files given.

    `policies`: resources of kinds that own no objects, such as providers. `focus`: the only addresses
    to plan; None for all. `targets`: those that were asked for, from which a focus is made once the records
    are known. `declared`: whether manifests that were not given hold a record's resource.
    `moved`: which of them says that an address was left; "" for none. None: all manifests were given.
    `origin`, `manifests`: what plans say of where they come from.
    """

    resources: Sequence[Resource]
    diagnostics: tuple[Diagnostic, ...] = ()
    selected: Callable[[StateRecord], bool] = lambda record: True
    policies: Sequence[Resource] = ()
    focus: Collection[Address] | None = None
    declared: Callable[[StateRecord], bool] = lambda record: True
    moved: Callable[[Address], str] | None = None
    trusted: Trusted | None = None
    origin: Origin = UNKNOWN_ORIGIN
    manifests: ManifestSet = field(default_factory=ManifestSet)
    targets: tuple[Address, ...] = ()

    @property
    def by_address(self) -> Mapping[Address, Resource]:
        return {resource.address: resource for resource in self.resources}

    def declared_at(self, plan: Plan, *others: Address) -> Mapping[Address, Span]:
        """Where the names of resources that `plan` changes stand, and those of `others`."""
        resources = self.by_address
        addresses = [*(each.address for each in plan.changes), *others]
        return _Names({each: resources[each] for each in addresses if each in resources})

    @property
    def providers(self) -> Sequence[Resource]:
        """The policies that calls may go to."""
        return self.policies if self.trusted is None else self.trusted.providers


def declared_scopes(resources: Iterable[Resource]) -> set[str]:
    kinds = find_kinds()
    return {kinds[each.address.kind].scope(each.spec, each.address) for each in resources}


class _Names(Mapping[Address, Span]):
    """Where the names of resources stand, looked up when a report asks: most reports show no positions."""

    def __init__(self, resources: Mapping[Address, Resource]) -> None:
        self._resources = resources

    def __getitem__(self, address: Address) -> Span:
        span = self._resources[address].span("metadata", "name")
        if span is None:
            raise KeyError(address)
        return span

    def __iter__(self) -> Iterator[Address]:
        return (each for each, resource in self._resources.items() if resource.span("metadata", "name"))

    def __len__(self) -> int:
        return sum(1 for _ in self)
