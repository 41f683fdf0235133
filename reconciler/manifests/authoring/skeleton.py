"""A manifest to fill in, made from a kind's models: the required fields, and all others commented out."""

import json
import re
import types
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Path
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.reading.scalars import resolve, written
from reconciler.manifests.validation.envelope import API_VERSION, manifest_model

_COLUMNS = 100
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@-]*")
_IGNORED: Path = ("lifecycle", "ignore")
_PLACEHOLDERS = (
    "https://HOST",
    "/PATH",
    "2026-01-31T12:00:00Z",
    "2026-12-31",
)  # for texts that are not just any text


def skeleton(kind: ManifestKind, *, name: str, app: str) -> str:
    """The text of one manifest, valid as far as it does not refer to others.

    Required fields have placeholders, such as REGION; `app` stands wherever the kind takes one. Comments
    give each field's description, choices, bounds and default.
    """
    model = manifest_model(kind)
    differs = [field.name for field in kind.fields]
    given: dict[Path, Any] = {("metadata", "name"): name, ("metadata", "app"): app}
    if differs:
        given[*_IGNORED, "field"] = differs[0]
    given |= _addresses(kind, model, given)
    active = _needed(kind, model, given)
    lines = [f"apiVersion: {API_VERSION}", f"kind: {kind.name}"]
    for block in (each for each in ("metadata", "spec", "lifecycle") if each in model.model_fields):
        lines += _field(block, model.model_fields[block], (block,), active, given)
    return "\n".join(lines) + "\n"


# --- what must stand there ---


def _addresses(kind: ManifestKind, model: type[BaseModel], given: Mapping[Path, Any]) -> dict[Path, Any]:
    """Placeholders for the required fields that the kind's rules take an address in, as Volume/APP/TO."""
    active = {path for path, field in _fields(model) if field.is_required() and _reached(path, model)}
    found: dict[Path, Any] = {}
    for path in sorted(path for path in active if path[0] == "spec" and len(path) > 1):
        tried = {**found, path: f"Volume/{given['metadata', 'app']}/{str(path[-1]).upper()}"}
        if _complaints(kind, model, active, {**given, **tried}) < _complaints(
            kind, model, active, {**given, **found}
        ):
            found = tried
    return found


def _needed(kind: ManifestKind, model: type[BaseModel], given: Mapping[Path, Any]) -> set[Path]:
    """The fields without which the manifest is refused, also by the kind's rules across fields."""
    active = {path for path, field in _fields(model) if field.is_required() and _reached(path, model)}
    optional = [path for path, field in _fields(model) if path[0] == "spec" and path not in active]
    while left := _complaints(kind, model, active, given):
        for path in optional:
            with_it = active | {path[:size] for size in range(1, len(path) + 1)}
            if _complaints(kind, model, with_it, given) < left:
                active = with_it
                break
        else:
            break
    for path, field in _fields(model):
        if path in active and _model_of(field) and not any(inner[:-1] == path for inner in active):
            active.add(_first_to_fill_in(path, _model_of(field)))
    return active


def _first_to_fill_in(path: Path, model: type[BaseModel] | None) -> Path:
    """A mapping without fields would have to be `{}`, below which nothing can be taken out of its comment."""
    assert model is not None
    fields = {key: field for key, field in _named(model) if key != "name"}
    amounts = [key for key, field in fields.items() if _limits(field) and len(path) == 1]
    return (*path, next(iter(amounts or fields)))


def _complaints(
    kind: ManifestKind, model: type[BaseModel], active: set[Path], given: Mapping[Path, Any]
) -> int:
    """How many problems a manifest with just these fields has."""
    value = {"apiVersion": API_VERSION, "kind": kind.name, **_values(model, (), active, given)}
    try:
        manifest: Any = model.model_validate(value)
    except ValidationError as failure:
        return 1000 * failure.error_count()
    return sum(has_errors([problem]) for problem in kind.check(manifest.spec, lambda *path: None))


def _values(
    model: type[BaseModel], path: Path, active: set[Path], given: Mapping[Path, Any]
) -> dict[str, Any]:
    found = {}
    for key, field in _named(model):
        here = (*path, key)
        if here in active and (*path, key) not in (("apiVersion",), ("kind",)):
            inner = _model_of(field)
            found[key] = _values(inner, here, active, given) if inner else _placeholder(here, field, given)
    return found


def _fields(model: type[BaseModel], path: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Every field at any depth, outer ones first."""
    for key, field in _named(model):
        yield (*path, key), field
        inner = _model_of(field)
        if inner is not None:
            yield from _fields(inner, (*path, key))


def _reached(path: Path, model: type[BaseModel]) -> bool:
    """Whether all that `path` lies in is required, too."""
    required = {inner for inner, field in _fields(model) if field.is_required()}
    return all(path[:size] in required for size in range(1, len(path)))


# --- text ---


def _field(
    key: str, field: FieldInfo, path: Path, active: set[Path], given: Mapping[Path, Any]
) -> Iterator[str]:
    """The lines of one field, which is commented out unless it is in `active`."""
    margin = "  " * (len(path) - 1)
    inner = _model_of(field)
    lines = []
    if len(path) > 1 or path not in active:
        lines = [f"# {line}" for line in _wrapped(_about(field), _COLUMNS - len(margin) - 2)]
    if path in active:
        lines.append(f"{key}:" if inner else f"{key}: {_scalar(_placeholder(path, field, given))}")
        yield from (f"{margin}{line}" for line in lines)
        if inner is not None:
            for name, each in _named(inner):
                yield from _field(name, each, (*path, name), active, given)
        return
    lines += [f"# {line}" for line in _commented(key, field, path, given)]
    yield from (f"{margin}{line}" for line in lines)


def _commented(key: str, field: FieldInfo, path: Path, given: Mapping[Path, Any]) -> Iterator[str]:
    """An optional field with all that is in it, as it stands once its comment signs are taken away."""
    item = _item_of(field) if path not in given else None
    inner = item or _model_of(field)
    if inner is None:
        yield f"{key}: {_scalar(_placeholder(path, field, given))}"
        return
    yield f"{key}:"
    lead, margin = "- " if item is not None else "", ""
    for name, each in _named(inner):
        for line in _wrapped(_about(each), _COLUMNS - 2 * len(path)):
            yield f"  {margin}# {line}"
        for line in _commented(name, each, (*path, name), given):
            yield f"  {lead}{line}"
            lead = margin = " " * len(lead)


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a comment, none of which begins like a field."""
    glued = re.sub(r" (?=[A-Za-z_]+: )", "\N{NO-BREAK SPACE}", text)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrap(glued, width)]


def _about(field: FieldInfo) -> str:
    """What a person must know to fill it in."""
    inner = _model_of(field)
    text = field.description or (inner.__doc__ if inner is not None else _described(field.annotation)) or ""
    said = [" ".join(text.split())]
    choices = _choices(field.annotation)
    if choices:
        said.append(f"One of {', '.join(choices)}.")
    said += [_bounds(field)]
    default = field.get_default(call_default_factory=True)
    if default is not PydanticUndefined and default not in (None, {}, []) and "default" not in text.lower():
        said.append(f"Default {_scalar(default)}.")
    return " ".join(filter(None, said))


def _described(annotation: Any) -> str | None:
    """What the type itself says, inside of a union with None."""
    for part in (annotation, *get_args(annotation)):
        for item in get_args(part) if get_origin(part) is Annotated else ():
            if isinstance(item, FieldInfo) and item.description:
                return item.description
    return None


def _bounds(field: FieldInfo) -> str:
    said = _limits(field)
    if len(said) == 2:
        return f"{said['ge']} to {said['le']}."
    return "".join(f"{'At least' if name == 'ge' else 'At most'} {bound}." for name, bound in said.items())


def _limits(field: FieldInfo) -> dict[str, int]:
    """The smallest (`ge`) and largest (`le`) number allowed, where there are such."""
    found = {}
    for bound in _metadata(field.annotation, field.metadata):
        for name in ("ge", "le"):
            if getattr(bound, name, None) is not None:
                found[name] = getattr(bound, name)
    return found


def _placeholder(path: Path, field: FieldInfo, given: Mapping[Path, Any]) -> Any:
    """A value that the field takes: the one given, its default, or something to be replaced."""
    if path in given:
        return given[path]
    default = field.get_default(call_default_factory=True)
    if default is not PydanticUndefined and default is not None:
        return default
    key = str(path[-1])
    upper = key.upper()
    app = given["metadata", "app"] if key == "app" else upper
    described: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(described)
    texts = [*_choices(field.annotation)[:1], app, upper.replace("_", "-"), *_PLACEHOLDERS]
    candidates: list[Any] = [
        _limits(field).get("ge", 1),
        True,
        *texts,
        [upper.replace("_", "-")],
        [upper],
        {},
    ]
    for candidate in candidates:
        try:
            adapter.validate_python(candidate, strict=True)
        except ValidationError:
            continue
        return candidate
    return upper


def _scalar(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) is not None and isinstance(resolve(value)[0], str)
        return value if plain else json.dumps(value, ensure_ascii=False)
    return written(value)


# --- models ---


def _named(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """Fields by the name that manifests write; `app` beside the name it belongs to."""
    fields = [(field.alias or name, field) for name, field in model.model_fields.items()]
    return (
        sorted(fields, key=lambda item: not item[1].is_required())
        if model.__name__.endswith("Metadata")
        else fields
    )


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a nested mapping; None for a field that is written on one line."""
    return next(_models(field.annotation), None) if not _one_line(field.annotation) else None


def _item_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a list's items; None for anything else, and for a list of texts or numbers."""
    lists = [part for part in _parts(field.annotation) if get_origin(part) is list]
    return next((inner for part in lists for inner in _models(get_args(part)[0])), None)


def _one_line(annotation: Any) -> bool:
    """Whether a number, text or list will do."""
    return any(
        part in (int, str, bool, float) or get_origin(part) in (list, dict, Literal)
        for part in _parts(annotation)
    )


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part


def _parts(annotation: Any) -> Iterator[Any]:
    """The types that a union offers, without what Annotated says of them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _parts(part)
    else:
        yield annotation


def _choices(annotation: Any) -> list[str]:
    found = []
    for part in _parts(annotation):
        inner = get_args(part)[0] if get_origin(part) is list else part
        if get_origin(inner) is Literal:
            found += [str(choice) for choice in get_args(inner)]
    return found


def _metadata(annotation: Any, metadata: Any) -> Iterator[Any]:
    """What Field and Annotated say of a type, at any depth of its unions."""
    for item in metadata:
        yield from item.metadata if isinstance(item, FieldInfo) else (item,)
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        yield from _metadata(inner, more)
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _metadata(part, ())
