"""The variables of expressions: their types by kind, and their values in a plan.

A field of a manifest has the type of the kind's own model, so a misspelt one is found while the rule is read.
What only an earlier answer will give has no value here: an expression that needs it is undecided.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from reconciler.core.context import BASE
from reconciler.core.model import ACTIONS, Action, Address, Change, Impact, Resource, StateRecord
from reconciler.core.steps import OutputRef, Plan, SecretRef, Step, Template
from reconciler.core.uses import SIZES
from reconciler.kinds import find_kinds

_WORDS = {int: "int", float: "number", str: "text", bool: "bool"}
_GROWS = frozenset({Action.CREATE, Action.RESTORE, Action.EXTEND})

OF_PLANS = {
    **{f"plan.summary.{action}": "int" for action in ACTIONS},
    "plan.gb_added": "int",
    "plan.gb_at_risk": "int",
    "environment": "text",
    "now": "time",
}
_OF_BOTH = {"address": "text", "kind": "text", "app": "text", "labels": "map"}
_OF_CHANGES = {
    **_OF_BOTH,
    "action": "text",
    "actions": "texts",
    "effects": "texts",
    "impact": "text",
    "owed": "bool",
    "steps": "calls",
}
MEANINGS = {
    "change.address": "Text such as Volume/shop/data; also change.kind and change.app.",
    "change.labels": "Labels by name; not known where the manifest is gone.",
    "change.action": f"The weightiest of change.actions: {', '.join(ACTIONS)}.",
    "change.effects": "Of the fields that differ: in_place, grow, restart, write_only.",
    "change.impact": "online, restart, downtime, repoint or data_loss.",
    "change.owed": "Whether it owes a restart.",
    "change.steps": "Its calls: method, path, and body as a map.",
    "change.before.FIELD": "The field of the kind's spec as it is; not known where nothing tells.",
    "change.after.FIELD": "As it will be; null where the manifest does not say.",
    "resource.spec.FIELD": "Of a declared resource, as are resource.address, kind, app and labels.",
    "plan.summary.ACTION": "How often the plan does that.",
    "plan.gb_added": "By creates and extends, in GB; plan.gb_at_risk: by deletes and data loss.",
    "environment": "The chosen one, or base.",
    "now": "The time of the plan.",
}


@cache
def types_of(kind: str, *, resources: bool = False) -> Mapping[str, str]:
    """The types of all variables, by name. `kind`: "" where a rule names none: then fields have no types."""
    own, parts = ("resource", ("spec",)) if resources else ("change", ("before", "after"))
    found = {f"{own}.{name}": type for name, type in (_OF_BOTH if resources else _OF_CHANGES).items()}
    for name, type in fields_of(find_kinds()[kind].Spec) if kind in find_kinds() else ():
        found |= {f"{own}.{part}.{name}": type for part in parts}
    return OF_PLANS | found


def fields_of(model: type[BaseModel], within: str = "") -> Iterator[tuple[str, str]]:
    """The fields that expressions may name, with dots in nested ones, and their types."""
    for name, field in model.model_fields.items():
        path = f"{within}{field.alias or name}"
        members = list(_members(field.annotation))
        for member in members:
            if isinstance(member, type) and issubclass(member, BaseModel):
                yield from fields_of(member, f"{path}.")
        simple = {_WORDS[member] for member in members if member in _WORDS}
        if simple == {"int", "number"}:
            simple = {"number"}
        if len(simple) == 1:
            yield path, f"{simple.pop()}?"
        elif any(get_origin(member) is list for member in members):
            yield path, "texts"


def _members(annotation: Any) -> Iterator[Any]:
    """The types that a value may have, without None and without the wrapping of pydantic."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif origin is Literal:
        yield from {type(value) for value in get_args(annotation)}
    elif annotation is not type(None):
        yield annotation


class PlanValues:
    """The values of all variables of one plan. `unrecorded`: parts of changes that nothing tells of."""

    def __init__(
        self,
        plan: Plan,
        resources: Mapping[Address, Resource],
        records: Mapping[Address, StateRecord],
        unrecorded: Collection[str] = (),
    ) -> None:
        self.plan = plan
        self.resources = resources
        self.records = records
        self.unrecorded = unrecorded
        self.steps: dict[Address, list[Step]] = defaultdict(list)
        for step in plan.steps:
            self.steps[step.address].append(step)
        self._owing = {owed.address for owed in plan.owed}
        self._specs: dict[int, Mapping[str, Any]] = {}

    @cached_property
    def of_plan(self) -> Mapping[str, Any]:
        counts = Counter(action.value for change in self.plan.changes for action in change.actions)
        found = {
            **{f"plan.summary.{action}": counts[action] for action in ACTIONS},
            "environment": self.plan.context.environment or BASE,
            "now": self.plan.context.at,
        }
        sizes = {
            "plan.gb_added": [self._gb_added(change) for change in self.plan.changes],
            "plan.gb_at_risk": [self._gb_at_risk(change) for change in self.plan.changes],
        }
        known = {name: sum(filter(None, sizes)) for name, sizes in sizes.items() if None not in sizes}
        return found | known

    def _gb_added(self, change: Change) -> int | None:
        """None: nobody knows."""
        if not _GROWS.intersection(change.actions) or not has_size(change.address.kind):
            return 0
        after = gigabytes(self._after(change))
        before = gigabytes(self._before(change)) if Action.EXTEND in change.actions else 0
        return max(0, after - before) if after is not None and before is not None else None

    def _gb_at_risk(self, change: Change) -> int | None:
        """None: nobody knows."""
        if "impact" in self.unrecorded:
            return None
        lost = change.action is Action.DELETE or change.impact is Impact.DATA_LOSS
        return gigabytes(self._before(change)) if lost and has_size(change.address.kind) else 0

    def of_change(self, change: Change) -> Callable[[str], Any]:
        """A function for the value of a variable by name. It raises KeyError for what nobody knows."""
        simple = {
            name: value_of
            for name, value_of in {
                **self._of_both(change.address),
                "action": lambda: change.action.value,
                "actions": lambda: [action.value for action in change.actions],
                "effects": lambda: sorted({field.effect.value for field in change.fields}),
                "impact": lambda: change.impact.value,
                "owed": lambda: change.address in self._owing,
                "steps": lambda: _calls(self.steps.get(change.address, ())),
            }.items()
            if name not in self.unrecorded
        }
        parts = {"before": lambda: self._before(change), "after": lambda: self._after(change)}
        return _lazy(self.of_plan, simple, parts)

    def of_resource(self, resource: Resource) -> Callable[[str], Any]:
        """As `of_change`, about a declared resource."""
        return _lazy(self.of_plan, self._of_both(resource.address), {"spec": lambda: self._written(resource)})

    def _of_both(self, address: Address) -> Mapping[str, Callable[[], Any]]:
        resource = self.resources.get(address)

        def labels() -> Mapping[str, str]:
            """A record holds none."""
            if resource is None:
                raise KeyError(address)
            return dict(resource.labels)

        return {
            "address": lambda: str(address),
            "kind": lambda: address.kind,
            "app": lambda: address.app or "",
            "labels": labels,
        }

    def _written(self, resource: Resource) -> Mapping[str, Any]:
        """The fields of a manifest by path; None for those that it does not write. Many share one spec."""
        spec = resource.spec
        if id(spec) not in self._specs:
            self._specs[id(spec)] = _values(spec)
        return self._specs[id(spec)]

    def _before(self, change: Change) -> Mapping[str, Any]:
        """The fields as they are: what the record holds, and what the plan saw to differ."""
        record = self.records.get(change.address)
        found = _nested(record.applied) if record is not None else {}
        return found | {field.path: field.before for field in change.fields}

    def _after(self, change: Change) -> Mapping[str, Any]:
        """The fields as they will be: what the manifest says, what the calls set, and what they change."""
        resource = self.resources.get(change.address)
        found = dict(self._written(resource)) if resource is not None else {}
        if change.action is Action.DELETE:
            return {}
        for step in self.steps.get(change.address, ()) if resource is None else ():
            found |= _nested(step.effect.applied)
        return found | {field.path: field.after for field in change.fields}


def _lazy(
    of_plan: Mapping[str, Any],
    simple: Mapping[str, Callable[[], Any]],
    parts: Mapping[str, Callable[[], Mapping[str, Any]]],
) -> Callable[[str], Any]:
    """A function for the value of a variable by name, which is found once: many rules ask for the same.

    It raises KeyError for what nobody knows.
    """
    fields_of_part = cache(lambda part: parts[part]())

    def find(name: str) -> Any:
        if not name.startswith(("change.", "resource.")):
            return of_plan[name]
        part, _, field = name.partition(".")[2].partition(".")
        if not field:
            return simple[part]()
        value = fields_of_part(part)[field]
        if isinstance(value, OutputRef | Template | SecretRef):
            raise KeyError(name)
        return value

    return cache(find)


def _values(model: BaseModel, within: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, type in fields_of(model.__class__, within):
        found[path] = [] if type == "texts" else None
    for name, field in model.__class__.model_fields.items():
        path, value = f"{within}{field.alias or name}", getattr(model, name)
        if isinstance(value, BaseModel):
            found |= _values(value, f"{path}.")
            if "min" in value.__class__.model_fields:  # of a range, what an object begins with
                found[path] = getattr(value, "min")  # noqa: B009 (of any model)
        elif path in found and value is not None:
            found[path] = value
    return found


def _nested(applied: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """What a record holds, by path."""
    found: dict[str, Any] = {}
    for name, value in applied.items():
        if isinstance(value, Mapping):
            found |= _nested(value, f"{within}{name}.")
        else:
            found[f"{within}{name}"] = value
    return found


def gigabytes(fields: Mapping[str, Any]) -> int | None:
    """The size among fields; None where nobody knows it."""
    return next((fields[name] for name in SIZES if isinstance(fields.get(name), int)), None)


@cache
def has_size(kind: str) -> bool:
    """Whether objects of a kind hold gigabytes."""
    return kind in find_kinds() and any(name in find_kinds()[kind].Spec.model_fields for name in SIZES)


def _calls(steps: Sequence[Step]) -> Sequence[Mapping[str, Any]]:
    """The calls of a change. Raises KeyError where a body holds what is not known yet."""
    return [
        {"method": step.call.method, "path": str(step.call.path), "body": _plain(step.call.body or {})}
        for step in steps
        if step.mutates
    ]


def _plain(value: Any) -> Any:
    """A body as JSON. A secret is its sign; what an earlier answer gives is not known."""
    if isinstance(value, OutputRef | Template):
        raise KeyError(str(value))
    if isinstance(value, SecretRef):
        return repr(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
