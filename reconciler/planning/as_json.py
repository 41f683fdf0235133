"""A plan as JSON values and back. Secrets stand in them as references to their sources only."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from typing import Any

from msgspec.structs import replace
from pydantic import TypeAdapter

from reconciler.core.steps import OutputRef, Plan, SecretRef, Step, Template

_TAGS: dict[str, type[Any]] = {"$output": OutputRef, "$secret": SecretRef, "$template": Template}


def plan_json(plan: Plan) -> dict[str, Any]:
    tagged = replace(plan, steps=tuple(_map_values(step, _tag) for step in plan.steps))
    found: dict[str, Any] = _adapter().dump_python(tagged, mode="json")
    return found


def parse_plan(document: Any) -> Plan:
    """Raises pydantic's ValidationError for what `plan_json` never writes."""
    plan = _adapter().validate_python(document)
    return replace(plan, steps=tuple(_map_values(step, _untag) for step in plan.steps))


@cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def _map_values(step: Step, convert: Callable[[Any], Any]) -> Step:
    body, applied = convert(step.call.body), convert(step.effect.applied)
    if body is step.call.body and applied is step.effect.applied:
        return step  # as most are
    return step.replaced(applied, call=dataclasses.replace(step.call, body=body))


def _tag(value: Any) -> Any:
    """`value` itself where it holds nothing to tag: what JSON has a form of stays as it is."""
    if isinstance(value, OutputRef):
        return {"$output": [value.source, value.path, value.or_kept]}
    if isinstance(value, SecretRef):
        parts = [_tag(part) for part in value.parts]
        return {"$secret": [value.source, value.name, parts, value.timeout_s]}
    if isinstance(value, Template):
        return {"$template": [[_tag(part) for part in value.parts]]}
    if isinstance(value, Mapping):
        tagged = {name: _tag(item) for name, item in value.items()}
        same = type(value) is dict and all(tagged[name] is item for name, item in value.items())
        return value if same else tagged
    if isinstance(value, list | tuple):
        items = [_tag(item) for item in value]
        same = type(value) is list and all(map(is_, items, value))
        return value if same else items
    return value


def _untag(value: Any) -> Any:
    if isinstance(value, Mapping):
        (tag, arguments) = next(iter(value.items())) if len(value) == 1 else ("", None)
        if tag in _TAGS and isinstance(arguments, list | tuple):
            return _TAGS[tag](*(_frozen(_untag(item)) for item in arguments))
        return {name: _untag(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_untag(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
