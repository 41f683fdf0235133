"""The valid part of an invalid spec, so that rules across its fields can still be checked."""

from collections.abc import Collection
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, ValidationError

from reconciler.core.model import Path
from reconciler.kinds.manifest import Spec
from reconciler.manifests.validation.problems import locate


def valid_part(value: Any, model: type[Spec]) -> Spec | None:
    """`value` as a spec without its invalid and unknown fields; None when it cannot do without one.

    `model_fields_set` names what was left out as well: it was written, so no rule may call it missing.
    """
    left_out: list[Path] = []
    while True:
        try:
            spec = model.model_validate(value)
        except ValidationError as failure:
            paths = {_culprit(item, value) for item in failure.errors(include_url=False)}
            if () in paths:
                return None
            value = _without(value, paths)
            left_out += paths
        else:
            for path in left_out:
                _mark_written(spec, path)
            return spec


def _culprit(item: Any, value: Any) -> Path:
    """The field to leave out; as a whole when a field is missing in it, or an item of it is bad."""
    path, _ = locate(item, value)
    if item["type"] == "missing":
        path = path[:-1]
    return tuple(takewhile(lambda part: isinstance(part, str), path))


def _without(value: Any, paths: Collection[Path], here: Path = ()) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: _without(inner, paths, (*here, name))
        for name, inner in value.items()
        if (*here, name) not in paths
    }


def _mark_written(spec: BaseModel, path: Path) -> None:
    holder: Any = spec
    for part in path[:-1]:
        holder = getattr(holder, _field_name(holder, part), None)
        if not isinstance(holder, BaseModel):
            return
    holder.model_fields_set.add(_field_name(holder, path[-1]))


def _field_name(holder: BaseModel, part: str | int) -> str:
    fields = type(holder).model_fields
    return next((name for name, field in fields.items() if field.alias == part), str(part))
