"""A plan as one JSON document and back: what was reviewed is what runs, also on another day.

Its signature proves that it was made with this state, and that no byte of it was changed since. It does not
prove that somebody looked at it: what may be sent at all, `execution.own_calls` says.
"""

import hmac
from collections.abc import Mapping
from dataclasses import replace
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
    Template,
)
from reconciler.kinds import find_kinds

# 1 to 4: without a signature, so that nothing showed whose they were.
FORMAT = "reconciler-plan-6"

_TAGS: dict[str, type[Any]] = {"$output": OutputRef, "$secret": SecretRef, "$template": Template}


_BEFORE, _AFTER = b',\n "signature": "', b'"\n}'  # the signature is of every byte before it
_SIGNATURE_CHARACTERS = 64
_MAKE = command("plan", "--out", "FILE")
_ANEW = f"make a new one with `{_MAKE}`"


def dump_plan(plan: Plan, key: bytes) -> bytes:
    """The plan as JSON, signed with `key`. Secrets stand in it as references to their sources only."""
    tagged = replace(plan, steps=tuple(_map_values(step, _tag) for step in plan.steps))
    document = {"format": FORMAT, "plan": _adapter().dump_python(tagged, mode="json")}
    signed = to_json(document, indent=1).removesuffix(b"\n}")
    return signed + _BEFORE + _signature(signed, key) + _AFTER


def load_plan(text: bytes, key: bytes) -> Plan:
    """Raises ReconcilerError when `text` is not what this version signed with `key`, to the last byte."""
    document = _document(text)
    if not _is_signed(text, key):
        raise ReconcilerError(
            "the saved plan is not signed with the key of this state: it was made with another state, "
            "or was changed after it was saved",
            help=f"check --state, or {_ANEW}",
            advice=(_MAKE,),
        )
    return _plan(document)


def unverified_plan(text: bytes) -> Plan:
    """What `text` says, whose ever it is: to be drawn, never to be carried out. Raises ReconcilerError."""
    return _plan(_document(text))


def _signature(signed: bytes, key: bytes) -> bytes:
    return hmac.new(key, signed, sha256).hexdigest().encode()


def _is_signed(text: bytes, key: bytes) -> bool:
    end = len(_BEFORE) + _SIGNATURE_CHARACTERS + len(_AFTER)
    signed = text[:-end]
    return hmac.compare_digest(text[-end:], _BEFORE + _signature(signed, key) + _AFTER)


def _document(text: bytes) -> Mapping[str, Any]:
    try:
        document = from_json(text)
    except ValueError:
        raise ReconcilerError(
            "the plan file is not JSON", help=f"make it with `{_MAKE}`", advice=(_MAKE,)
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReconcilerError(
            f"the plan file is not a saved plan of format {FORMAT}",
            help=f"older plans are not signed, and do not run: make a new one with `{_MAKE}`",
            advice=(_MAKE,),
        )
    return document


def _plan(document: Mapping[str, Any]) -> Plan:
    try:
        find_kinds()  # their models have the shapes that reads name
        plan = _adapter().validate_python(document.get("plan"))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise ReconcilerError(
            f"the saved plan is damaged at `{place}`", help=_ANEW, advice=(_MAKE,)
        ) from None
    return replace(plan, steps=tuple(_map_values(step, _untag) for step in plan.steps))


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
