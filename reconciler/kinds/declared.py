"""A live object in the words of a manifest: what an import writes down."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from reconciler.core.model import Path


class Declared(Struct, frozen=True):
    """`spec` holds JSON values, without `name`. `refused`: why no manifest can stand for the object.

    `comments`: by path in the manifest, what its fields cannot say. `place`: app or organization.
    `apart`: what tells the object from others of its name. `skeleton`: a person has to complete it first,
    so it is written as a comment.
    """

    place: str
    name: str | None
    spec: Mapping[str, Any] = field(default_factory=dict)
    comments: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    refused: str = ""
    apart: str = ""
    skeleton: bool = False


def declared_fields(
    model: type[BaseModel], names: Iterable[str], live: Any, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[Path, tuple[str, ...]]]:
    """The fields of `live` that a manifest has to write, in the model's order, and comments for the others.

    Left out is what equals its default and what the platform does not tell (missing or empty). A value
    that the model does not take becomes a comment. `names` are fields that the model does not require.
    """
    wanted = frozenset(names)
    fields: dict[str, Any] = {}
    comments: dict[Path, tuple[str, ...]] = {}
    for name in model.model_fields:
        value = getattr(live, name, None)
        if name not in wanted or value is None or value == "":
            continue
        try:
            value = getattr(model.model_validate({name: value}), name)
        except ValidationError:
            shown = json.dumps(value, ensure_ascii=False)
            comments["spec", name] = (
                f"{name} is {shown} on the platform; a manifest cannot contain this value",
            )
        else:
            if name not in defaults or value != defaults[name]:
                fields[name] = value
    return fields, comments
