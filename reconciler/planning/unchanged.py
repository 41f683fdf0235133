"""Recognises answers that leave everything as it is, from data alone: so it is for most of many objects.

What is not certain here is decided about like everything else, which costs ten times as much.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.model import Observation, Resource, StateRecord
from reconciler.kinds.base import AtRest
from reconciler.kinds.manifest import Field
from reconciler.moves.compare import LEFT
from reconciler.planning.drift import is_same
from reconciler.planning.subjects import Subjects

_BLANK = (None, "")  # of a record: not seen yet


class _Rule(NamedTuple):
    """The fields of a kind that tell whether an object is as declared and recorded."""

    fields: Mapping[str, Field]
    shown: tuple[str, ...]
    at_rest: AtRest
    watched: tuple[str, ...]


class Unchanged:
    """Knows the kinds that declare when their objects are at rest (`Kind.at_rest`)."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._rules = {
            name: _Rule(
                {field.name: field for field in kind.fields},
                tuple(field.name for field in kind.fields if field.source == "live"),
                kind.at_rest,
                tuple(watch.path for watch in kind.watched if watch.is_recorded),
            )
            for name, kind in subjects.request.kinds.items()
            if kind.at_rest is not None
        }

    def leaves(self, resources: Sequence[Resource], observation: Observation) -> bool:
        """Whether the answer to the read that shows `resources` leaves each as declared and recorded.

        And whether it shows nothing beside them that nobody owns. False: that is not certain.
        """
        if not observation.complete:
            return False
        shown = {item.id: item for item in observation.objects}
        records = self._subjects.request.records
        for resource in resources:
            record = records.get(resource.address)
            live = shown.pop(record.id, None) if record is not None else None
            if record is None or live is None or not self._leaves_one(resource, record, live):
                return False
        return not any(item.present and item.id not in self._subjects.owned for item in shown.values())

    def _leaves_one(self, resource: Resource, record: StateRecord, live: Any) -> bool:
        """Whether `live` is certainly as `resource` declares it and `record` holds it."""
        subjects, address, applied = self._subjects, resource.address, record.applied
        rule = self._rules.get(address.kind)
        if (
            rule is None
            or not subjects.in_focus(address)
            or address in subjects.referenced  # others need its values
            or resource.adopt_id not in (None, record.id)
            or resource.objectives
            or resource.grow is not None
            or record.obligations
            or record.inferred
            or record.lifecycle != resource.lifecycle
            or record.source != resource.file
            or applied.get(LEFT)
            or not applied.keys().isdisjoint(rule.at_rest.unless_recorded)
            or getattr(live, rule.at_rest.field, None) not in rule.at_rest.values
            or live.bad_id
            or not all(is_same(applied.get(path), getattr(live, path, None)) for path in rule.watched)
            or any(
                applied.get(name) in _BLANK and getattr(live, name, None) not in _BLANK for name in rule.shown
            )
        ):
            return False
        spec = resource.spec
        for name in spec.model_fields_set:
            field = rule.fields.get(name)
            if field is None:
                continue  # said of the create only
            want, recorded = getattr(spec, name), applied.get(name)
            known = getattr(live, name, None) if field.source == "live" else recorded
            if known is None or known != recorded:
                return False
            if known != want and (field.equal is None or not field.equal(want, known)):
                return False
        return True
