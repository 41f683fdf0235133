"""`lifecycle.ignore`: fields whose differences a manifest leaves alone, why, and until when."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from reconciler.kinds.base import Kind, Spec
from reconciler.model import Ignore

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def _day(text: str) -> str:
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        date.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a day, such as 2026-12-31") from None
    return text


class IgnoredField(Spec):
    """A field whose difference is neither drift nor put back."""

    reason: str = Field(min_length=1, description="Why: shown wherever the difference is.")
    until: Annotated[str, AfterValidator(_day)] | None = Field(
        None, description="The last day that it holds for (UTC), as YYYY-MM-DD; default: for good."
    )


def _each_once(items: list[Any]) -> list[Any]:
    fields = [item.field for item in items]
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:
        raise ValueError(f"`{twice}` stands here twice")
    return items


def ignore_type(kind: Kind) -> Any:
    """The type of the list in manifests of `kind`: its fields by name, so that a misspelt one is found."""
    names = tuple(field.name for field in kind.fields)
    field: Any = (Literal[names], Field(description="Name of the field in `spec`."))
    item: Any = create_model(
        f"{kind.name}Ignored", __base__=IgnoredField, __doc__=IgnoredField.__doc__, field=field
    )
    return Annotated[list[item], AfterValidator(_each_once)]


def ignores_of(items: Sequence[Any]) -> tuple[Ignore, ...]:
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
