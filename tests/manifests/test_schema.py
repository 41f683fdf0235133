"""The JSON Schema that editors complete by."""

import json

from reconciler.kinds import find_kinds
from reconciler.manifests.schema import json_schema


def test_the_schema_chooses_by_kind() -> None:
    schema = json_schema()
    chosen = {
        rule["if"]["properties"]["kind"]["const"]: rule["then"]["$ref"].removeprefix("#/$defs/")
        for rule in schema["allOf"]
    }
    assert list(chosen) == schema["properties"]["kind"]["enum"] == list(find_kinds())
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
