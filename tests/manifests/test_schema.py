"""The JSON Schema that editors complete by."""

import json
import re
from typing import Any

import pytest

from reconciler.manifests.authoring.reference import json_schema
from reconciler.policies import find_manifest_kinds


def test_the_schema_chooses_by_kind() -> None:
    schema = json_schema()
    chosen = {
        rule["if"]["properties"]["kind"]["const"]: rule["then"]["$ref"].removeprefix("#/$defs/")
        for rule in schema["allOf"]
    }
    assert list(chosen) == schema["properties"]["kind"]["enum"] == list(find_manifest_kinds())
    for kind, name in chosen.items():
        definition = schema["$defs"][name]
        assert definition["properties"]["kind"]["const"] == kind
        assert set(definition["required"]) == {"apiVersion", "kind", "metadata", "spec"}
        assert definition["additionalProperties"] is False


def test_every_reference_leads_to_a_definition() -> None:
    schema = json_schema()
    text = json.dumps(schema)
    wanted = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert wanted <= set(schema["$defs"])
    assert wanted


def test_fields_carry_their_descriptions_and_manifest_names() -> None:
    definitions = json_schema()["$defs"]
    volume = definitions["VolumeSpec"]["properties"]
    assert "description" in volume["snapshot_retention"]
    assert "from" in volume
    assert "from_" not in volume
    assert "description" in definitions["VolumeMetadata"]["properties"]["name"]
    assert "app" not in definitions["PostgresClusterMetadata"]["properties"]


def test_a_plan_is_offered_by_name_and_accepted_in_any_letter_case() -> None:
    named, patterned = json_schema()["$defs"]["PostgresClusterSpec"]["properties"]["plan"]["anyOf"]
    assert named["enum"] == ["basic", "starter", "launch", "scale", "Performance"]
    for plan in ("performance", "LAUNCH", "bAsIc", "Performance"):
        assert re.search(patterned["pattern"], plan)
    for plan in ("huge", "launches", "xbasic", ""):
        assert not re.search(patterned["pattern"], plan)


def nulls(schema: Any, path: str = "") -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in nulls(item, path)]
    if not isinstance(schema, dict):
        return []
    found = [found for name, item in schema.items() for found in nulls(item, f"{path}/{name}")]
    offered = schema.get("type") == "null" or schema.get("default", ...) is None
    return [path, *found] if offered else found


def test_null_is_offered_nowhere() -> None:
    assert nulls(json_schema()) == []


@pytest.mark.parametrize("path", [("VolumeSpec", "region"), ("VolumeMetadata", "id")])
def test_what_may_be_left_out_is_not_required(path: tuple[str, str]) -> None:
    definition = json_schema()["$defs"][path[0]]
    assert definition["properties"][path[1]]["type"] == "string"
    assert path[1] not in definition.get("required", ())
