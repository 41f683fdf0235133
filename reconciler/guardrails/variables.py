"""The variables of expressions: their types by kind, and their values in a plan.

A field of a manifest has the type of the kind's own model, so a misspelt one is found while the rule is read.
What only an earlier answer will give has no value here: an expression that needs it is undecided.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from reconciler.core.context import BASE
from reconciler.core.model import Action, Address, Change, Resource, StateRecord
from reconciler.core.steps import OutputRef, Plan, SecretRef, Step, Template
from reconciler.kinds import find_kinds

_WORDS = {int: "int", float: "number", str: "text", bool: "bool"}
_SIZES = ("size_gb", "disk_size_gb")
ACTIONS = tuple(action.value for action in Action if action.changes_something)

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


@cache
def types_of(kind: str, *, resources: bool = False) -> Mapping[str, str]:
    """The types of all variables, by name. `kind`: "" where a rule names none: then fields have no types."""
    own, parts = ("resource", ("spec",)) if resources else ("change", ("before", "after"))
    found = {f"{own}.{name}": type for name, type in (_OF_BOTH if resources else _OF_CHANGES).items()}
    for name, type in fields_of(find_kinds()[kind].Spec) if kind else ():
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
    """The values of all variables of one plan."""

    def __init__(
        self, plan: Plan, resources: Mapping[Address, Resource], records: Mapping[Address, StateRecord]
    ) -> None:
        self.plan = plan
        self.resources = resources
        self.records = records
        self.steps: dict[Address, list[Step]] = defaultdict(list)
        for step in plan.steps:
            self.steps[step.address].append(step)
        self._owing = {owed.address for owed in plan.owed}

    @cached_property
    def of_plan(self) -> Mapping[str, Any]:
        counts = Counter(action.value for change in self.plan.changes for action in change.actions)
        added = at_risk = 0
        for change in self.plan.changes:
            before, after = self._before(change), self._after(change)
            was, will = _gigabytes(before), _gigabytes(after)
            if change.action.changes_something and change.action is not Action.DELETE:
                added += max(0, (will or 0) - (was or 0)) if change.action is not Action.ADOPT else 0
            if change.action is Action.DELETE or change.impact == "data_loss":
                at_risk += was or 0
        return {
            **{f"plan.summary.{action}": counts[action] for action in ACTIONS},
            "plan.gb_added": added,
            "plan.gb_at_risk": at_risk,
            "environment": self.plan.context.environment or BASE,
            "now": self.plan.context.at,
        }

    def of_change(self, change: Change) -> Callable[[str], Any]:
        """A function for the value of a variable by name. It raises KeyError for what nobody knows."""
        return _Lazy(
            "change",
            self.of_plan,
            {
                **self._of_both(change.address),
                "action": lambda: change.action.value,
                "actions": lambda: [action.value for action in change.actions],
                "effects": lambda: sorted({field.effect.value for field in change.fields}),
                "impact": lambda: change.impact.value,
                "owed": lambda: change.address in self._owing,
                "steps": lambda: _calls(self.steps.get(change.address, ())),
            },
            {"before": lambda: self._before(change), "after": lambda: self._after(change)},
        )

    def of_resource(self, resource: Resource) -> Callable[[str], Any]:
        """As `of_change`, about a declared resource."""
        return _Lazy(
            "resource",
            self.of_plan,
            self._of_both(resource.address),
            {"spec": lambda: _written(resource)},
        )

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

    def _before(self, change: Change) -> Mapping[str, Any]:
        """The fields as they are: what the record holds, and what the plan saw to differ."""
        record = self.records.get(change.address)
        found = _nested(record.applied) if record is not None else {}
        return found | {field.path: field.before for field in change.fields}

    def _after(self, change: Change) -> Mapping[str, Any]:
        """The fields as they will be: what the manifest says, what the calls set, and what they change."""
        resource = self.resources.get(change.address)
        found = dict(_written(resource)) if resource is not None else {}
        if change.action is Action.DELETE:
            return {}
        for step in self.steps.get(change.address, ()) if resource is None else ():
            found |= _nested(step.effect.applied)
        return found | {field.path: field.after for field in change.fields}


class _Lazy:
    """The value of a variable by name, found when it is asked for."""

    def __init__(
        self,
        own: str,
        of_plan: Mapping[str, Any],
        simple: Mapping[str, Callable[[], Any]],
        parts: Mapping[str, Callable[[], Mapping[str, Any]]],
    ) -> None:
        self._own, self._plan, self._simple, self._parts = own, of_plan, simple, parts
        self._known: dict[str, Mapping[str, Any]] = {}

    def __call__(self, name: str) -> Any:
        if name in self._plan:
            return self._plan[name]
        _, _, rest = name.partition(".")
        if rest in self._simple:
            return self._simple[rest]()
        part, _, field = rest.partition(".")
        if part not in self._known:
            self._known[part] = self._parts[part]()
        value = self._known[part][field]
        if isinstance(value, OutputRef | Template | SecretRef):
            raise KeyError(name)
        return value


def _written(resource: Resource) -> Mapping[str, Any]:
    """The fields of a manifest by path; None for those that it does not write."""
    return _values(resource.spec)


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


def _gigabytes(fields: Mapping[str, Any]) -> int | None:
    """The size among fields; None where nobody knows it."""
    return next((fields[name] for name in _SIZES if isinstance(fields.get(name), int)), None)


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
