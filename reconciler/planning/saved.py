"""A plan as one JSON document and back: what was reviewed is what runs, also on another day.

Its signature proves that it was made with this state, and that no byte of it was changed since. It does not
prove that somebody looked at it: what may be sent at all, `execution.own_calls` says.
"""

import hmac
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.steps import Plan
from reconciler.kinds import find_kinds
from reconciler.planning.as_json import parse_plan, plan_json
from reconciler.rehearsal.matrix import Rehearsal

# 1 to 4: without a signature, so that nothing showed whose they were. 6: without the rehearsal.
FORMAT = "reconciler-plan-7"

_BEFORE, _AFTER = b',\n "signature": "', b'"\n}'  # the signature is of every byte before it
_SIGNATURE_CHARACTERS = 64
_MAKE = command("plan", "--out", "FILE")
_ANEW = f"make a new one with `{_MAKE}`"


class SavedPlan(Struct, frozen=True):
    """A plan and the rehearsal that was saved with it; None where it was not rehearsed."""

    plan: Plan
    rehearsal: Rehearsal | None = None


def dump_plan(plan: Plan, key: bytes, rehearsal: Rehearsal | None = None) -> bytes:
    """The plan as JSON, signed with `key`. Secrets stand in it as references to their sources only."""
    document: dict[str, Any] = {"format": FORMAT, "plan": plan_json(plan)}
    if rehearsal is not None:
        document["rehearsal"] = _rehearsals().dump_python(rehearsal, mode="json")
    signed = to_json(document, indent=1).removesuffix(b"\n}")
    return signed + _BEFORE + _signature(signed, key) + _AFTER


def load_plan(text: bytes, key: bytes) -> Plan:
    """The plan alone; see `load_saved`."""
    return load_saved(text, key).plan


def load_saved(text: bytes, key: bytes) -> SavedPlan:
    """Raises ReconcilerError when `text` is not what this version signed with `key`, to the last byte."""
    document = _document(text)
    if not _is_signed(text, key):
        raise ReconcilerError(
            "the saved plan is not signed with the key of this state: it was made with another state, "
            "or was changed after it was saved",
            help=f"check --state, or {_ANEW}",
            advice=(_MAKE,),
        )
    return _saved(document)


def unverified(text: bytes) -> SavedPlan:
    """What `text` says, whose ever it is: to be shown, never to be carried out. Raises ReconcilerError."""
    return _saved(_document(text))


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


def _saved(document: Mapping[str, Any]) -> SavedPlan:
    try:
        find_kinds()  # their models have the shapes that reads name
        plan, rehearsal = parse_plan(document.get("plan")), document.get("rehearsal")
        return SavedPlan(plan, None if rehearsal is None else _rehearsals().validate_python(rehearsal))
    except ValidationError as error:
        where = map(str, error.errors()[0]["loc"])
        place = ".".join(each for each in where if "[" not in each)  # without how pydantic names a choice
        raise ReconcilerError(
            f"the saved plan is damaged at `{place}`", help=_ANEW, advice=(_MAKE,)
        ) from None


@cache
def _rehearsals() -> TypeAdapter[Rehearsal]:
    return TypeAdapter(Rehearsal)
