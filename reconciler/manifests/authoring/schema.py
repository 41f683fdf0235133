"""The JSON Schema of all manifests, for editors: completion and checks by kind."""

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.validation.envelope import API_VERSION, manifest_model, manifest_models
from reconciler.policies import find_manifest_kinds


class _Written(GenerateJsonSchema):
    """None is what a model holds for a field that nobody wrote; manifests never hold null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema(kinds: Mapping[str, ManifestKind] | None = None) -> dict[str, Any]:
    """One draft-07 schema (what YAML language servers read best) that chooses by `kind`."""
    models = manifest_models(find_manifest_kinds() if kinds is None else kinds)
    references, generated = models_json_schema(
        [(model, "validation") for model in models.values()], by_alias=True, schema_generator=_Written
    )
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "reconciler manifest",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": API_VERSION, "description": "Version of the manifest format."},
            "kind": {"enum": list(models), "description": "What the manifest describes."},
        },
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": references[model, "validation"],
            }
            for name, model in models.items()
        ],
        "$defs": generated["$defs"],
    }


class _AsDeclared(_Written):
    """Examples keep the order in which they are written."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value


def kind_schema(kind: ManifestKind) -> dict[str, Any]:
    """The schema of manifests of one kind, with its named parts under `$defs`."""
    return manifest_model(kind).model_json_schema(by_alias=True, schema_generator=_AsDeclared)
