"""The JSON Schema of `plan -o json`, for policies and scripts that rely on it.

It is derived from the types that write the JSON. Any version may add keys, so it forbids none. A key that
goes, or means something new, changes `format_version`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import fields

from reconciler.reports.documents import PlanJson
from reconciler.reports.fragments import (
    ChangeJson,
    CommandJson,
    DiagnosticJson,
    FieldJson,
    Json,
    OwedJson,
    StepJson,
)

_Schema = dict[str, Any]
# Types that are used in several places, or are long.
_NAMES: dict[type[Struct], str] = {
    ChangeJson: "change",
    FieldJson: "field",
    StepJson: "step",
    OwedJson: "owed",
    DiagnosticJson: "diagnostic",
    CommandJson: "command",
}
_PLAIN: dict[Any, _Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Decimal: {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
    NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


def plan_schema() -> _Schema:
    """Return the schema of a plan. It also fits a plan that failed, which has nothing but diagnostics."""
    plan = schema_of(PlanJson, "reconciler plan")
    required = [name for name in plan["required"] if name not in ("format_version", "changes")]
    return plan | {"required": ["format_version", "diagnostics"], "dependentRequired": {"changes": required}}


def schema_of(kind: type[Json], title: str) -> _Schema:
    """Return the schema of the documents that `kind` writes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_object(kind),
        "$defs": {name: _object(part) for part, name in _NAMES.items()},
    }


def _object(kind: type[Struct]) -> _Schema:
    """Describe a type, with its docstring. An optional key is left out of the JSON, and is never null."""
    types = get_type_hints(kind, include_extras=True)
    found: _Schema = {"description": kind.__doc__} if issubclass(kind, Json) and kind.__doc__ else {}
    required, properties = [], {}
    for field in fields(kind):
        schema = _schema(types[field.name])
        if field.required:
            required.append(field.encode_name)
        elif isinstance(schema.get("type"), list):
            schema["type"] = schema["type"][0]
        properties[field.encode_name] = schema
    return found | {"type": "object", "required": required, "properties": properties}


def _schema(kind: Any) -> _Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _schema(arguments[0]) | _limits(arguments[1:])
    if origin in (Union, UnionType):
        return _any_of([_schema(argument) for argument in arguments])
    if origin is Literal:
        return {"enum": list(arguments)} if len(arguments) > 1 else {"const": arguments[0]}
    if origin is tuple:
        return {"type": "array"} | _unless_any("items", arguments[0])
    if origin is dict:
        return {"type": "object"} | _unless_any("additionalProperties", arguments[1])
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if issubclass(kind, Enum):
        return {"enum": [word.value for word in kind]}
    return {"$ref": f"#/$defs/{_NAMES[kind]}"} if kind in _NAMES else _object(kind)


def _limits(metas: Iterable[Meta]) -> _Schema:
    found: _Schema = {}
    for meta in metas:
        known = {"description": meta.description, "minimum": meta.ge}
        found |= {name: value for name, value in known.items() if value is not None}
        found |= meta.extra_json_schema or {}
    return found


def _unless_any(name: str, kind: Any) -> _Schema:
    return {} if kind is Any else {name: _schema(kind)}


def _any_of(schemas: Sequence[_Schema]) -> _Schema:
    """Any of `schemas`; for one type and null, that type with `null` next to its name."""
    others = [schema for schema in schemas if schema != _PLAIN[NoneType]]
    if len(others) == len(schemas):
        return {"anyOf": others}
    return {**others[0], "type": [others[0]["type"], "null"]}
