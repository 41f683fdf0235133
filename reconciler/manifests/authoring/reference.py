"""The JSON Schema of manifests for editors, and one page for every kind, read from the schema.

A page has every field with its type, bounds, description and an example. The meaning of a change is from
`Kind.fields`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from reconciler.core.model import Effect
from reconciler.kinds import find_kinds
from reconciler.kinds.manifest import TEXT_PATTERN, Field, ManifestKind
from reconciler.manifests.validation.envelope import API_VERSION, manifest_model, manifest_models
from reconciler.policies import find_manifest_kinds


class _Written(GenerateJsonSchema):
    """A model has None for a missing field, but manifests never hold null: the schema leaves it out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema(kinds: Mapping[str, ManifestKind] | None = None) -> dict[str, Any]:
    """Return one draft-07 schema, which YAML language servers read best, that chooses by `kind`."""
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
    """Return the schema of manifests of one kind, with its named parts under `$defs`."""
    return manifest_model(kind).model_json_schema(by_alias=True, schema_generator=_AsDeclared)


_TYPES = {"integer": "integer", "string": "text", "boolean": "true or false", "number": "number"}
_EFFECTS = {
    Effect.IN_PLACE: "carried out in place",
    Effect.GROW: "a larger value is carried out in place; a smaller one is refused",
    Effect.RESTART: "carried out; needs a restart",
    Effect.WRITE_ONLY: "sent again",
    Effect.REFUSED: "refused",
}
_SOURCES = {
    "live": "compared with what the platform shows",
    "record": "compared with what was sent, as the platform never shows it",
}


class FieldPage(Struct, frozen=True):
    """One field. `path` leads from the manifest's root; `[]` in it means any item of a list.

    `type` and `limits` are words. `change` describes the effect of a change, and after a colon what to do
    about it: "" where nothing on the platform changes. `examples` are YAML, from the
    manifest's root. `fields` are those inside; `names`: the names inside are free. `forms`: the JSON Schemas
    that the value may have, one of them.
    """

    path: str
    type: str
    required: bool
    default: Any
    limits: tuple[str, ...]
    description: str
    change: str
    examples: tuple[str, ...]
    fields: tuple["FieldPage", ...]
    names: bool
    forms: Sequence[Mapping[str, Any]]


class KindPage(Struct, frozen=True):
    """One kind. `example` is a whole manifest, in YAML; `fields` are those of the manifest's root.

    `variables`: see `ManifestKind`.
    """

    name: str
    description: str
    example: str
    fields: tuple[FieldPage, ...]
    variables: Mapping[str, str]

    def all_fields(self) -> Iterator[FieldPage]:
        """Each field, before those below it."""
        left = [*self.fields]
        while left:
            page = left.pop(0)
            yield page
            left[:0] = page.fields


class CapabilityPage(Struct, frozen=True):
    """An undocumented part of a platform's API, which settings may let the program use.

    `kind`: the kind of objects that it is used for.
    """

    name: str
    kind: str
    description: str


def capability_pages() -> dict[str, CapabilityPage]:
    """Return every capability by name, in alphabetical order."""
    pages = [
        CapabilityPage(name, kind.name, description)
        for kind in find_kinds().values()
        for name, description in kind.capabilities.items()
    ]
    return {page.name: page for page in sorted(pages, key=lambda page: page.name)}


def kind_page(kind: ManifestKind) -> KindPage:
    """Return the page of one kind, with an example manifest."""
    schema = kind_schema(kind)
    example = example_manifest(kind)
    pages = _Reader(schema["$defs"], {**example, **_ignoring(kind)}, _changes(kind)).fields(schema, ())
    description = schema["$defs"][kind.Spec.__name__].get("description", "")
    return KindPage(kind.name, _flat(description), _dump(example), pages, kind.variables)


def example_manifest(kind: ManifestKind) -> dict[str, Any]:
    """Return a whole manifest with the example spec of the kind, as data."""
    metadata = {"name": "example", "app": "shop"} if kind.in_app else {"name": "example"}
    return {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata, "spec": dict(kind.example)}


def _ignoring(kind: ManifestKind) -> dict[str, Any]:
    """Return the part of an example that ignores a field of the kind."""
    if "ignore" not in kind.lifecycle:
        return {}
    names = [field.name for field in kind.fields if field.effect is not Effect.REFUSED]
    names += [field.name for field in kind.fields]
    ignored = [{"field": name, "reason": "set by another team", "until": "2030-12-31"} for name in names[:1]]
    return {"lifecycle": {"ignore": ignored}}


def _changes(kind: ManifestKind) -> dict[tuple[str, ...], str]:
    """Return the effect of a change for fields of the spec, by path."""
    meanings = {field.name: _change(field) for field in kind.fields} | dict(kind.remarks)
    fields = kind.Spec.model_fields
    paths = {name: name.split(".") for name in meanings}
    return {
        ("spec", fields[top].alias or top, *below): meanings[name] for name, (top, *below) in paths.items()
    }


def _change(field: Field) -> str:
    recipe = f": {field.help}" if field.help else ""
    return f"{_EFFECTS[field.effect]}{recipe} ({_SOURCES[field.source]})"


class _Reader(Struct, frozen=True):
    """Reads pages out of one schema. `defs` are its named parts."""

    defs: Mapping[str, Any]
    example: Mapping[str, Any]
    changes: Mapping[tuple[str, ...], str]

    def fields(self, node: Mapping[str, Any], path: tuple[str, ...]) -> tuple[FieldPage, ...]:
        """Return the fields that may be written at `path`, in any form that its value may take."""
        return tuple(
            self.page(inner, (*path, name), name in form.get("required", ()), form.get("examples", ()))
            for form in self.forms(node)
            for name, inner in form.get("properties", {}).items()
        )

    def page(
        self, node: Mapping[str, Any], path: tuple[str, ...], required: bool, around: Sequence[Any]
    ) -> FieldPage:
        """Return the page of one field. `around`: examples of its parent, if it means nothing alone."""
        forms = self.forms(node)
        items = [form["items"] for form in forms if "items" in form]
        below = [page for item in items for page in self.fields(item, (*path[:-1], f"{path[-1]}[]"))]
        description = node.get("description") or self.defs_of(node).get("description", "")
        return FieldPage(
            path=".".join(path),
            type=" or ".join(self.type_of(form, with_limits=len(forms) > 1) for form in forms),
            required=required,
            default=node.get("default"),
            limits=_limits(forms[0]) if len(forms) == 1 else (),
            description=_flat(description),
            change=self.changes.get(path) or self.changes.get(path[:2], ""),
            examples=tuple(_dump(_nested(path, value)) for value in self.examples(node, path))
            or tuple(_dump(_nested(path[:-1], whole)) for whole in around if path[-1] in whole),
            fields=(*self.fields(node, path), *below),
            names=any(form.get("additionalProperties") for form in forms),
            forms=forms,
        )

    def defs_of(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema that `node` refers to, or `node` itself."""
        found: Mapping[str, Any] = self.defs[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        return found

    def forms(self, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the schemas that a value may have. Choices of a text replace patterns of their spelling."""
        node = self.defs_of(node)
        branches = node.get("oneOf") or node.get("anyOf") or ()
        choices = [branch for branch in branches if "enum" in branch]
        return choices or [form for branch in branches for form in self.forms(branch)] or [node]

    def type_of(self, form: Mapping[str, Any], *, with_limits: bool = False) -> str:
        """Return the type of one form in words. `with_limits`: with its bounds, among several forms."""
        if "const" in form:
            return f"`{form['const']}`"
        if "enum" in form:
            return f"one of {', '.join(f'`{value}`' for value in form['enum'])}"
        if "items" in form:
            return f"list of {' or '.join(self.type_of(item) for item in self.forms(form['items']))}"
        if "properties" in form:
            return f"mapping {{{', '.join(form['properties'])}}}" if with_limits else "mapping"
        if "additionalProperties" in form:
            return f"mapping of names to {self.type_of(form['additionalProperties'])}"
        limits = f" ({', '.join(_limits(form))})" if with_limits and _limits(form) else ""
        return f"{_TYPES[form['type']]}{limits}"

    def examples(self, node: Mapping[str, Any], path: tuple[str, ...]) -> list[Any]:
        """Return the field's own examples, or that in the kind's example, or one that its type implies."""
        if node.get("examples"):
            return list(node["examples"])
        found: Any = self.example
        for name in path:
            found = found.get(name.removesuffix("[]")) if isinstance(found, Mapping) else None
            found = found[0] if name.endswith("[]") and found else found
        if found is not None:
            return [found]
        return [value for form in self.forms(node) for value in _obvious(form)][:1]


def _obvious(form: Mapping[str, Any]) -> list[Any]:
    if "default" in form:
        return [form["default"]]
    if form.get("type") == "boolean":
        return [True]
    return [*form.get("enum", ())][:1]


def _limits(form: Mapping[str, Any]) -> tuple[str, ...]:
    words = []
    if "minimum" in form:
        words.append(f"at least {form['minimum']}")
    if "maximum" in form:
        words.append(f"at most {form['maximum']}")
    if form.get("minLength"):
        words.append("not empty")
    if form.get("pattern") == TEXT_PATTERN:
        words.append("on one line")
    elif "pattern" in form:
        words.append(f"matches `{form['pattern'].removeprefix('^').removesuffix('$')}`")
    return tuple(words)


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for name in reversed(path):
        value = {name[:-2]: [value]} if name.endswith("[]") else {name: value}
    return value


def _dump(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
    return text


def _flat(text: str) -> str:
    return " ".join(text.split())
