"""From the raw body of an answer to its wire models."""

from collections.abc import Sequence
from functools import cache
from types import GenericAlias
from typing import Any

from pydantic import TypeAdapter, create_model

from reconciler.core.wire import Shape, Wire


@cache
def _adapter(shape: Shape) -> TypeAdapter[Any]:
    """Of the whole answer."""
    held: Any = GenericAlias(list, shape.model) if shape.many else shape.model
    fields: dict[str, Any] = {_field(shape): (held, ...)}
    return TypeAdapter(create_model("Answer", __base__=Wire, **fields) if _field(shape) else held)


def _field(shape: Shape) -> str:
    """What of the answer holds the objects; "": all of it."""
    return shape.model.many_at if shape.many else shape.model.one_at


def read_shape(shape: Shape, body: bytes) -> Sequence[Any]:
    """The objects in `body`, one for single answers. Raises pydantic.ValidationError (a ValueError)."""
    if shape.model.may_be_empty and not body.strip():
        body = b"{}"
    answer = _adapter(shape).validate_json(body)
    found = getattr(answer, _field(shape)) if _field(shape) else answer
    return found if shape.many else [found]
