"""JSON against JSON Schemas.

`sarif-schema-2.1.0.json` is that of the standard. Source: oasis-tcs/sarif-spec, `sarif-2.1/schema`.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

SARIF = json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text(encoding="utf-8"))


def problems(document: Any, schema: Any) -> list[str]:
    """What of `document` is not as `schema` says, by its place."""
    validators = import_module("jsonschema").validators  # it has no types
    validator = validators.validator_for(schema)
    validator.check_schema(schema)
    return [f"{each.json_path}: {each.message}" for each in validator(schema).iter_errors(document)]
