"""`lifecycle.ignore`: fields whose differences a manifest leaves alone, why, and until when."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticKnownError

from reconciler.core.model import Ignore
from reconciler.kinds.manifest import ManifestKind, Spec

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def context(kind: ManifestKind) -> Mapping[str, Any]:
    """What validation has to know of the manifest's kind: one model for each kind would cost 10 ms apiece."""
    return {"fields": [field.name for field in kind.fields]}


def _known(name: str, info: ValidationInfo) -> str:
    fields = (info.context or {}).get("fields")
    if fields is None or name in fields:
        return name
    if not fields:
        raise ValueError("this kind has no field that can differ")
    *most, last = (f"'{field}'" for field in fields)
    raise PydanticKnownError(
        "literal_error", {"expected": " or ".join([", ".join(most)] * bool(most) + [last])}
    )


def _day(value: Any) -> Any:
    """Also of 20261231 it is said what a day looks like, not that numbers become text in quotes."""
    try:
        if isinstance(value, str | int):
            date.fromisoformat(str(value) if _DATE.fullmatch(str(value)) else "")
    except ValueError:
        raise ValueError("must be a day, such as 2026-12-31") from None
    return value


class IgnoredField(Spec):
    """A field whose difference is neither drift nor put back."""

    field: Annotated[str, AfterValidator(_known)] = Field(description="Name of the field in `spec`.")
    reason: str = Field(min_length=1, description="Why; shown with the difference.")
    until: Annotated[str, BeforeValidator(_day)] | None = Field(
        None, description="Last day of validity (UTC), as YYYY-MM-DD; default: no end."
    )


def _each_once(items: list[IgnoredField]) -> list[IgnoredField]:
    fields = [item.field for item in items]
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:
        raise ValueError(f"`{twice}` is given twice")
    return items


Ignored = Annotated[list[IgnoredField], AfterValidator(_each_once)]


def ignores_of(items: Sequence[IgnoredField]) -> tuple[Ignore, ...]:
    """What the validated list says."""
    return tuple(
        Ignore(
            item.field,
            item.reason,
            date.fromisoformat(item.until) if item.until is not None else None,
            ("lifecycle", "ignore", number),
        )
        for number, item in enumerate(items)
    )
