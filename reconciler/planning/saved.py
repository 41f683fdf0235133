"""A plan as one JSON document and back: what was reviewed is what runs, also on another day."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.steps import (
    OutputRef,
    Plan,
    SecretRef,
    Step,
    StepEffect,
    Template,
    with_sensitivity,
)
from reconciler.kinds import find_kinds

# 1: without the addresses of providers; 2: without moves and the secret sources that came later;
# 3: with all that a step means side by side, not in groups.
FORMAT = "reconciler-plan-4"
_FLAT = ("reconciler-plan-3", "reconciler-plan-2")

_TAGS: dict[str, type[Any]] = {"$output": OutputRef, "$secret": SecretRef, "$template": Template}


def dump_plan(plan: Plan) -> bytes:
    """The plan as JSON. Secrets stand in it as references to their sources only."""
    tagged = replace(plan, steps=tuple(_map_values(step, _tag) for step in plan.steps))
    document = _adapter().dump_python(tagged, mode="json")
    return to_json({"format": FORMAT, "digest": _digest(document), "plan": document}, indent=1)


_MAKE = command("plan", "--out", "FILE")
_ANEW = f"make it anew with `{_MAKE}`"


def load_plan(text: bytes) -> Plan:
    """Raises ReconcilerError when `text` is not a plan that this version wrote."""
    try:
        document = from_json(text)
    except ValueError:
        raise ReconcilerError(
            "the plan file is not JSON", help=f"make it with `{_MAKE}`", advice=(_MAKE,)
        ) from None
    if not isinstance(document, dict) or document.get("format") not in (FORMAT, *_FLAT):
        raise ReconcilerError(
            f"the plan file is not a saved plan of format {FORMAT}",
            help=f"make it anew with this version's `{_MAKE}`",
            advice=(_MAKE,),
        )
    try:
        find_kinds()  # their models have the shapes that reads name
        plan = _adapter().validate_python(_completed(_in_groups(document)))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise ReconcilerError(
            f"the saved plan is damaged at `{place}`", help=_ANEW, advice=(_MAKE,)
        ) from None
    if document.get("digest") != _digest(document.get("plan")):
        raise ReconcilerError(
            "the saved plan was changed since it was made",
            help=_ANEW,
            advice=(_MAKE,),
        )
    return replace(plan, steps=tuple(_map_values(step, _untag) for step in plan.steps))


def _completed(plan: Any) -> Any:
    """The JSON of a plan with what earlier versions said in another way.

    They told requests about secrets by their path, and lines that no report prints apart from their spans.
    """
    plan = with_sensitivity(plan)
    for item in plan.get("diagnostics", ()) if isinstance(plan, dict) else ():
        if isinstance(item, dict) and item.pop("hide_source", False) and isinstance(item.get("span"), list):
            item["span"] = [*item["span"][:4], True]
    return plan


def _in_groups(document: Mapping[str, Any]) -> Any:
    """The plan as this version writes it."""
    plan = document.get("plan")
    if document["format"] not in _FLAT or not isinstance(plan, Mapping):
        return plan
    return {**plan, "steps": [_grouped(step) for step in plan.get("steps", ())]}


def _grouped(step: Mapping[str, Any]) -> Mapping[str, Any]:
    effect = {each.name: step[each.name] for each in fields(StepEffect) if each.name in step}
    guard: Any = None
    if step.get("if_owed"):
        guard = {"addresses": step["if_owed"], "settles": step.get("settles", False)}
    elif step.get("unless_recorded"):
        guard = {"field": step["unless_recorded"]}
    elif step.get("already"):
        guard = {"wait": step["already"]}
    recovery = {"how": step.get("if_unknown", "ask"), **(step.get("find") or {})}
    if "own_id" in step:
        recovery["own_id"] = step["own_id"]
    return {**step, "effect": effect, "guard": guard, "recovery": recovery}


def _digest(document: Any) -> str:
    return sha256(to_json(document)).hexdigest()


@cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def _map_values(step: Step, convert: Any) -> Step:
    body = convert(step.call.body)
    return step.replaced(convert(step.effect.applied), call=replace(step.call, body=body))


def _tag(value: Any) -> Any:
    if isinstance(value, OutputRef):
        return {"$output": [value.source, value.path, value.or_kept]}
    if isinstance(value, SecretRef):
        parts = [_tag(part) for part in value.parts]
        return {"$secret": [value.source, value.name, parts, value.timeout_s]}
    if isinstance(value, Template):
        return {"$template": [[_tag(part) for part in value.parts]]}
    if isinstance(value, Mapping):
        return {name: _tag(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tag(item) for item in value]
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
