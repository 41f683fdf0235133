"""JSON Schemas of `plan -o json` and `inventory -o json`, for policies and scripts that rely on them.

They come from the types that write the JSON. Any version may add keys, so they forbid none. A key that goes,
or means something new, changes `format_version`.
"""

from typing import Any

from msgspec import json

from reconciler.reports.documents import PlanJson
from reconciler.reports.fragments import Json


def plan_schema() -> dict[str, Any]:
    """Return the schema of a plan. It also fits a plan that failed, which has nothing but diagnostics."""
    plan = schema_of(PlanJson, "reconciler plan")
    required = [name for name in plan["required"] if name not in ("format_version", "changes")]
    return plan | {"required": ["format_version", "diagnostics"], "dependentRequired": {"changes": required}}


def schema_of(kind: type[Json], title: str) -> dict[str, Any]:
    """Return the schema of the documents that `kind` writes."""
    found = _portable(json.schema(kind))
    parts = found["$defs"]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **parts.pop(kind.__name__), "title": title, "$defs": parts}


def _portable(schema: Any) -> Any:
    """The schema without the patterns that only Python's `re` reads."""
    if isinstance(schema, list):
        return [_portable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _portable(value)
        for name, value in schema.items()
        if not (name == "pattern" and isinstance(value, str) and r"\Z" in value)
    }
