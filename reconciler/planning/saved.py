"""A plan as one JSON document and back: data that somebody reviewed, and that an apply compares its own with.

Nothing of it is ever sent, so it need not be proved who made it. See `planning.reviewed`.
"""

from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.core.steps import Plan
from reconciler.kinds import find_kinds
from reconciler.planning.digest import parse_plan, plan_json
from reconciler.rehearsal.results import Rehearsal

FORMAT = "reconciler-plan-9"

_MAKE = command("plan", "--out", "FILE")
_ANEW = f"make a new one with `{_MAKE}`"


class SavedPlan(Struct, frozen=True):
    """A plan and the rehearsal that was saved with it; None where it was not rehearsed."""

    plan: Plan
    rehearsal: Rehearsal | None = None


def dump_plan(plan: Plan, rehearsal: Rehearsal | None = None) -> bytes:
    """The plan as JSON. Secrets stand in it as references to their sources only."""
    document: dict[str, Any] = {"format": FORMAT, "plan": plan_json(plan)}
    if rehearsal is not None:
        document["rehearsal"] = _rehearsals().dump_python(rehearsal, mode="json")
    return to_json(document, indent=1)


def load_saved(text: bytes) -> SavedPlan:
    """The plan in `text`, from any author.

    Raises ReconcilerError for anything that `dump_plan` never writes.
    """
    document = _document(text)
    try:
        find_kinds()  # their models have the shapes that reads name
        plan, rehearsal = parse_plan(document.get("plan")), document.get("rehearsal")
        if plan_json(plan) != document["plan"]:
            raise ValueError("it says what is read as something else")
        _check_names(plan)
        return SavedPlan(plan, None if rehearsal is None else _rehearsals().validate_python(rehearsal))
    except ValidationError as error:
        where = map(str, error.errors()[0]["loc"])
        place = ".".join(part for part in where if "[" not in part)  # without how pydantic names a choice
        raise _damaged(place) from None
    except (TypeError, ValueError):
        raise _damaged("steps") from None


def _check_names(plan: Plan) -> None:
    """Raises ValueError for what names something that is not there, as no plan of ours does."""
    ids = {step.id for step in plan.steps}
    for step in plan.steps:
        if not ids.issuperset(step.after):
            raise ValueError(f"{step.id} waits for a step that is not there")
    try:
        TopologicalSorter({step.id: step.after for step in plan.steps}).prepare()
    except CycleError as error:
        raise ValueError("steps wait for each other") from error
    for address in (*plan.manifests.targets, *(source for source, _ in plan.inputs)):
        Address.parse(address)


def _document(text: bytes) -> Mapping[str, Any]:
    """The JSON object in `text`. Raises ReconcilerError for another format."""
    try:
        document = from_json(text)
    except ValueError:
        raise ReconcilerError(
            "the plan file is not JSON", help=f"make it with `{_MAKE}`", advice=(_MAKE,)
        ) from None
    found = document.get("format") if isinstance(document, dict) else None
    if not isinstance(document, dict) or found != FORMAT:
        older = f": it has the format {found}" if isinstance(found, str) else ""
        raise ReconcilerError(
            f"the plan file is not a saved plan of format {FORMAT}{older}", help=_ANEW, advice=(_MAKE,)
        )
    return document


def _damaged(place: str) -> ReconcilerError:
    """The error for a file with something wrong at `place`."""
    return ReconcilerError(f"the saved plan is damaged at `{place}`", help=_ANEW, advice=(_MAKE,))


@cache
def _rehearsals() -> TypeAdapter[Rehearsal]:
    """The validator of rehearsals, made when it is first used."""
    return TypeAdapter(Rehearsal)
