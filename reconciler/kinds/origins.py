"""What an object is made from: needed once. It may leave the manifests when the object is there."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import Address, Reference, Resource, StateRecord


def missing_origins(resources: Iterable[Resource]) -> Iterator[Diagnostic]:
    """A warning for each origin that no manifest declares: whether it is needed, only a record can say."""
    known = {resource.address: resource for resource in resources}
    for resource in known.values():
        if resource.references:
            for reference in absent_origins(resource, known):
                yield replace(unknown_origin(resource, reference, {}), severity=Severity.WARNING)


def absent_origins(resource: Resource, known: Mapping[Address, Resource]) -> Iterator[Reference]:
    return (to for to in resource.references if to.once and to.address not in known)


def unknown_origin(
    resource: Resource, origin: Reference, records: Mapping[Address, StateRecord]
) -> Diagnostic:
    """`resource` is to be made from what no manifest declares."""
    record = records.get(origin.address)
    id = f", {record.id}" if record is not None else ""
    return error(
        "unknown-reference",
        f"no manifest declares {origin.address}, from which {resource.address} is created",
        resource.span(*origin.span_path),
        help=f"correct the name, or write its platform id{id}; if {resource.address} "
        "already exists, nothing is needed",
    )
