"""JSON against JSON Schemas.

`sarif-schema-2.1.0.json` is that of the standard. Source: oasis-tcs/sarif-spec, `sarif-2.1/schema`.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from reconciler.reports.schema import plan_schema


class Schema:
    def __init__(self, document: Any) -> None:
        validators = import_module("jsonschema").validators  # it has no types
        kind = validators.validator_for(document)
        kind.check_schema(document)
        self._validator = kind(document)

    def problems(self, document: Any) -> list[str]:
        """What of `document` is not as the schema says, by its place."""
        return [f"{each.json_path}: {each.message}" for each in self._validator.iter_errors(document)]


def closed(schema: Any) -> Any:
    """A copy of `schema` that allows no key but those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **found} if "properties" in schema else found


SARIF_TEXT = json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
SARIF = Schema(SARIF_TEXT)
PLAN = Schema(closed(plan_schema()))
