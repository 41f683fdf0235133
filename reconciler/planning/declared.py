"""The loaded manifests, with what a plan has to know of them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.context import UNKNOWN_ORIGIN, Origin
from reconciler.core.diagnostics import Diagnostic, Severity, Span, warning
from reconciler.core.model import Address, FieldChange, Ignore, Resource, StateRecord
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
        addresses = [*(change.address for change in plan.changes), *others]
        return _Names({address: resources[address] for address in addresses if address in resources})

    def with_targets(self, targets: Collection[Address]) -> "Desired":
        """The same, about these addresses only; about all of it where there are none."""
        manifests = replace(self.manifests, targets=tuple(map(str, targets)))
        return replace(self, targets=tuple(targets), manifests=manifests)

    @property
    def providers(self) -> Sequence[Resource]:
        """The policies that calls may go to."""
        return self.policies if self.trusted is None else self.trusted.providers


def declared_scopes(resources: Iterable[Resource]) -> set[str]:
    kinds = find_kinds()
    return {kinds[resource.address.kind].scope(resource.spec, resource.address) for resource in resources}


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
        return (address for address, resource in self._resources.items() if resource.span("metadata", "name"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def in_force(resource: Resource, now: datetime) -> tuple[Resource, list[Diagnostic]]:
    """`resource` with the ignores that hold on the day of `now` (UTC); a warning for each that is over."""
    if not resource.ignores:  # as most
        return resource, []
    today = now.date()
    over = [ignore for ignore in resource.ignores if ignore.until is not None and ignore.until < today]
    if not over:
        return resource, []
    kept = tuple(ignore for ignore in resource.ignores if ignore not in over)
    expired = () if resource.address.ordinal else over  # once for all objects of one manifest
    return replace(resource, ignores=kept), [_expired(resource, ignore) for ignore in expired]


def split_ignored(
    resource: Resource | None, changes: Iterable[FieldChange]
) -> tuple[list[FieldChange], list[Diagnostic]]:
    """The changes that count, and a remark for each that the manifest leaves alone."""
    if resource is None or not resource.ignores:
        return list(changes), []
    by_field = {ignore.field: ignore for ignore in resource.ignores}
    counting: list[FieldChange] = []
    remarks: list[Diagnostic] = []
    for change in changes:
        ignore = by_field.get(change.path.partition(".")[0])
        if ignore is None:
            counting.append(change)
        else:
            remarks.append(_left_alone(resource, ignore, change))
    return counting, remarks


def ignored_fields(resource: Resource | None) -> Sequence[str]:
    return [ignore.field for ignore in resource.ignores] if resource is not None and resource.ignores else ()


def _left_alone(resource: Resource, ignore: Ignore, change: FieldChange) -> Diagnostic:
    until = f" until {ignore.until}" if ignore.until is not None else ""
    return Diagnostic(
        "ignored-difference",
        Severity.INFO,
        f"`{resource.address}`: `{change.path}` differs ({change.before} -> {change.after}), which is "
        f"ignored{until}: {ignore.reason}",
        resource.span(*ignore.path, "field"),
    )


def _expired(resource: Resource, ignore: Ignore) -> Diagnostic:
    return warning(
        "ignore-expired",
        f"`{resource.address}`: `{ignore.field}` was ignored until {ignore.until} ({ignore.reason}), "
        "and is compared again",
        resource.span(*ignore.path, "until"),
        help="check whether the reason is still valid: set a later date, or remove the entry",
    )
