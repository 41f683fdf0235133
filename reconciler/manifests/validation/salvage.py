"""Removes the invalid parts of a manifest, so that the rest can still be checked.

Literal secrets are refused with the recipe to encrypt them. Written nulls, as in `region:` or `region: ~`,
are values of a wrong type, not missing fields.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ValidationError

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Path
from reconciler.kinds.manifest import ManifestKind, Spec
from reconciler.kinds.source import is_armored
from reconciler.manifests.reading.compose import Document
from reconciler.manifests.reading.refusals import VALUE_NAMES
from reconciler.manifests.validation.problems import locate


def valid_part(value: Any, model: type[Spec]) -> Spec | None:
    """Return `value` as a spec without its invalid and unknown fields; None if one of them is required.

    `model_fields_set` names the removed fields, too: they were written, so no rule may call them missing.
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
    """Return the field to remove: a whole mapping if a field is missing in it, a whole list for one item."""
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


_FROM = "_from"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")
_ANY_SOURCE = {"env": "NAME"}  # replaces a literal, so that no other problem is reported there

_HELP = """\
encrypt it, and keep only the encrypted text in git:
  {command}   (reads the value from standard input)
  {field}: {{age: {file}}}   or the text itself: {field}: {{age: |…}}
a value that was pushed is no longer secret: set a new one"""


def take_out_literals(value: Any, kind: ManifestKind, document: Document) -> tuple[Any, list[Diagnostic]]:
    """Return a manifest of a kind with secrets without its literal values, and a problem for every one."""
    spec = value.get("spec")
    fields = [name for name in kind.Spec.model_fields if name.endswith(_FROM)]
    problems: list[Diagnostic] = []

    def refuse(path: Path, at_key: bool, field: str) -> None:
        file = _file_name(value, field.removeprefix("spec."))
        span = document.key_span(path) if at_key else document.span(path)
        folder = PurePosixPath(span.file).parent  # an overlay's, if the literal is in one
        encrypt = command("secret", "encrypt", "--to", "RECIPIENT", "--out", folder / file)
        found = error(
            "secret-literal",
            "the manifest contains a secret's value",
            span,
            help=_HELP.format(field=field, file=file, command=encrypt),
            advice=(encrypt,),
        )
        problems.append(found)

    rest = dict(value)
    for name in [name for name in value if _is_value(name, ())]:
        refuse((name,), True, f"spec.{fields[0]}")
        del rest[name]
        rest.setdefault("spec", {fields[0]: _ANY_SOURCE})
    if not isinstance(spec, Mapping):
        return rest, problems
    valid = dict(spec)
    if problems:
        valid.setdefault(fields[0], _ANY_SOURCE)
    for field in fields:
        given = spec.get(field)
        if isinstance(given, str | int | float) and not (isinstance(given, str) and is_armored(given)):
            refuse(("spec", field), False, field)
            valid[field] = _ANY_SOURCE
        elif isinstance(given, Mapping):
            literal = [name for name in given if _is_value(name, ())]
            for name in literal:
                refuse(("spec", field, name), True, field)
            if literal:
                others = {name: item for name, item in given.items() if name not in literal}
                valid[field] = others or _ANY_SOURCE
    for name in [name for name in spec if name not in fields and _is_value(name, fields)]:
        field = f"{name}{_FROM}" if f"{name}{_FROM}" in fields else fields[0]
        refuse(("spec", name), True, field)
        del valid[name]
        valid.setdefault(field, _ANY_SOURCE)
    return {**rest, "spec": valid}, problems


def _is_value(name: Any, fields: Sequence[str]) -> bool:
    """Whether a field of this name is meant for the value itself."""
    if not isinstance(name, str):
        return False
    return name.lower().replace("_", "") in VALUE_NAMES or f"{name}{_FROM}" in fields


def _file_name(value: Mapping[str, Any], field: str) -> str:
    """Return a name for the encrypted file: the resource's own, if that is a safe file name."""
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    stem = name if isinstance(name, str) and _NAME.fullmatch(name) else "value"
    what = field.removesuffix(_FROM)
    return f"{stem}.age" if what == "value" else f"{stem}-{what}.age"


class _Null:
    """Has no valid type, so that pydantic reports the expected one at its place."""


_NULL = _Null()


def mark_nulls(value: Any) -> Any:
    """Return a copy of `value` in which every null is an object that no field accepts."""
    if isinstance(value, dict):
        return {name: mark_nulls(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [mark_nulls(inner) for inner in value]
    return _NULL if value is None else value
