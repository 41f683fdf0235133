"""Whether a recorded object may be what a manifest with another address describes. Pure.

It may if no field that the platform cannot change differs, where both values are known, and none would have
to shrink. Other fields may differ.
"""

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel

from reconciler.kinds.base import Field, Kind
from reconciler.model import Address, Effect, Resource, StateRecord
from reconciler.planning.moves import MOVED_FROM, another_name

# The field of a record that an apply has seen leave the manifests: what comes later is not its other half.
LEFT = "left the manifests"

Alias = Callable[[Address, Address], bool]


class Sameness:
    """Compares resources and records of one `kind` and app, each combination of values once."""

    def __init__(self, kind: Kind, alias: Alias) -> None:
        self._kind = kind
        self._alias = alias
        self._fields = [field for field in kind.fields if field.name != "name"]
        self._name = next((field for field in kind.fields if field.name == "name"), None)
        self._names_objects = type(kind).secret is not Kind.secret
        self._wants: dict[int, str] = {}
        self._knows: dict[int, str] = {}
        self._found: dict[tuple[str, str, str], list[str] | None] = {}

    def differing(self, resource: Resource, records: Sequence[StateRecord]) -> list[str] | None:
        """The fields in which the first of `records` that `resource` may be differs; None: it is none."""
        for record in records:
            found = self._compared(resource, record)
            if found is not None:
                return found
        return None

    def _compared(self, resource: Resource, record: StateRecord) -> list[str] | None:
        # Names differ from record to record: whatever else is compared is the same for many.
        if self._names_objects and another_name(self._kind, resource, record):
            return None
        name = [] if self._name is None else _differing([self._name], resource.spec, record.applied)
        if name is None:
            return None
        want = self._want(resource)
        pair = (want, self._known(record), record.id if record.id and record.id in want else "")
        if pair not in self._found:
            fits = self._kind.fits(resource.spec, record, self._alias)
            self._found[pair] = _differing(self._fields, resource.spec, record.applied) if fits else None
        found = self._found[pair]
        return None if found is None else name + found

    def _want(self, resource: Resource) -> str:
        known = self._wants.get(id(resource))
        if known is None:
            known = resource.spec.model_dump_json(exclude_unset=True, exclude={"name"})
            self._wants[id(resource)] = known
        return known

    def _known(self, record: StateRecord) -> str:
        known = self._knows.get(id(record))
        if known is None:
            apart = ("name", LEFT, MOVED_FROM)
            known = repr(sorted(item for item in record.applied.items() if item[0] not in apart))
            self._knows[id(record)] = known
        return known


def _differing(fields: Sequence[Field], spec: BaseModel, applied: Mapping[str, object]) -> list[str] | None:
    """Names of the fields that differ from the record; None where it cannot be the same object."""
    differing = []
    for field in fields:
        if field.name not in spec.model_fields_set:
            continue
        want, known = getattr(spec, field.name), applied.get(field.name)
        if want is None or known is None or known == want:
            continue
        if field.equal is not None and field.equal(want, known):
            continue
        if isinstance(want, BaseModel) and want.model_dump(exclude_none=True) == known:
            continue
        if field.effect is Effect.REFUSED or (field.effect is Effect.GROW and _shrinks(want, known)):
            return None
        differing.append(field.name)
    return differing


def _shrinks(want: object, known: object) -> bool:
    largest = getattr(want, "max", want)
    return isinstance(largest, int) and isinstance(known, int | float) and largest < known
