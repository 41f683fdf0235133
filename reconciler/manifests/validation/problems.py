"""Turns pydantic's errors into diagnostics at the key or value that they are about.

Values of kinds that hold secrets are described ("text") and never repeated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error, hide, warning
from reconciler.core.model import Path
from reconciler.core.words import did_you_mean
from reconciler.manifests.reading.compose import Document
from reconciler.manifests.reading.refusals import may_be_a_value
from reconciler.manifests.reading.scalars import resolve, written
from reconciler.manifests.suggestions import NULL_HELP, as_pair, clip, lookalike, pattern_help, retype

EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "list_type": "a list",
    "model_attributes_type": "a mapping",
    "model_type": "a mapping",
    "none_required": "nothing",
    "string_type": "text",
}
_BOUNDS = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "the smallest allowed is"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "the largest allowed is"),
    "multiple_of": ("multiple_of", "must be a multiple of"),
}
_LENGTHS = frozenset({"string_too_short", "string_too_long", "too_short", "too_long"})
_BLOCKS = ("metadata", "spec", "lifecycle")
MOST_PROBLEMS = 100  # shown of one file and severity: more would not help


def explain(failure: ValidationError, model: type[BaseModel], document: Document) -> list[Diagnostic]:
    """Return the problems of one document, one for a place, and at most one more than MOST_PROBLEMS."""
    problems: dict[tuple[Path, bool], list[tuple[Mapping[str, Any], bool]]] = {}
    for item in failure.errors(include_url=False):
        path, in_branch = locate(item, document.value)
        problems.setdefault((path, item["type"] == "missing"), []).append((item, in_branch))
    deeper = {path[:size] for path, _ in problems for size in range(len(path))}
    found: list[Diagnostic] = []
    for (path, _), items in problems.items():
        if len(found) > MOST_PROBLEMS:
            break
        if path in deeper and all(in_branch and item["type"] in EXPECTED for item, in_branch in items):
            continue  # another branch of the union fits the value's shape and says more
        about = document.about(path)
        problem = _explain(path, [item for item, _ in items], model, about)
        found.append(hide(problem) if about.private else problem)
    return found


def unknown_fields(failure: ValidationError, model: type[BaseModel], document: Any) -> list[Path]:
    """Return the written fields, with a value, that the kind has nowhere: the value may be anything."""
    paths = (locate(item, document)[0] for item in failure.errors() if item["type"] == "extra_forbidden")
    return [
        path for path in paths if value_at(document, path) is not None and not _homes(str(path[-1]), model)
    ]


def without_values(
    problems: Sequence[Diagnostic], unknown: Sequence[Path], document: Document
) -> Iterator[Diagnostic]:
    """Yield `problems` so that none shows the value of an unknown field, which may be a misspelt secret's.

    The line of such a value is shown up to it, and not at all for a problem behind it.
    """
    shown_to: dict[tuple[str, int], int] = {}  # characters, by file and line
    for path in unknown:
        key, value = document.key_span(path), document.span(path)
        for span, column in ((key, key.end_column), (value, value.column)) if key != value else ():
            line = (span.file, span.line)
            shown_to[line] = min(column - 1, shown_to.get(line, column))
    for problem in problems:
        at = problem.span
        limit = shown_to.get((at.file, at.line)) if at is not None else None
        if at is None or limit is None:
            yield problem
        elif at.end_column - 1 <= limit:
            yield replace(problem, shown_to=limit)
        else:
            yield hide(problem)


def no_kind(document: Document, kinds: Sequence[str]) -> Diagnostic:
    """Return the problem of a mapping without `kind`: a key may be a misspelt one."""
    for key in document.value:
        looks = "; ".join(filter(None, (lookalike(key), did_you_mean(key, ["kind"]))))
        if looks.endswith("?"):
            return error(
                "unknown-field", f"unknown field `{clip(key)}`", document.key_span((key,)), help=looks
            )
    listed = ", ".join(kinds)
    help = f"add `kind:` with one of {listed}"
    return error("missing-field", "the field `kind` is missing", document.span(()), help=help)


def surprises(
    document: Document, explained: Sequence[Diagnostic], unknown: Sequence[Path] = ()
) -> Iterator[Diagnostic]:
    """Warn of scalars that YAML reads as something else, except where an error already says so.

    `unknown`: fields inside which there are no warnings.
    """
    spans = {problem.span for problem in explained}
    for path, text in document.surprises.items():
        span = document.span(path)
        if span in spans or any(path[: len(field)] == field for field in unknown):
            continue
        value, secret = resolve(text)[0], document.about(path).private
        if isinstance(value, str):
            yield warning(
                "typographic-quotes",
                "the quotes are a part of this value"
                if secret
                else f"the quotes are a part of `{clip(text)}`",
                span,
                help="write ' or \", or quote the whole of it to mean them",
            )
        else:
            reading = written(value)
            yield warning(
                "yaml-1.1-surprise",
                "this value is not read as it is written"
                if secret
                else f"`{text}` is read as {reading} (YAML 1.1)",
                span,
                help="quote it to mean the text"
                if secret
                else f'write `{reading}`, or "{text}" with quotes to mean the text',
            )


def describe(value: Any, *, secret: bool = False) -> str:
    """Return the found value for a message: the text "10", the number 10, a list, null."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    kind = "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"
    if secret:
        return kind if kind == "text" else f"a {kind}"
    return f'the text "{clip(value)}"' if kind == "text" else f"the {kind} {clip(written(value))}"


def wrong_type(expected: str, path: Path, document: Document) -> Diagnostic:
    """Return the problem of a value of the wrong type. `expected`: the right one, such as "an integer"."""
    value = value_at(document.value, path)
    text = document.surprises.get(path)
    help = ""
    notes: tuple[str, ...] = ()
    if not document.private:
        help = retype(expected, value, text)
        notes = _surprise(path, document)
    elif expected == "text" and isinstance(value, bool | int | float):
        help = "put it in quotes"
    elif value is None:
        help = NULL_HELP
    elif expected == "a list" and isinstance(value, str):
        help = "write it as a list, such as [first, second]"
    message = f"expected {expected}, found {describe(value, secret=document.private)}"
    return error("wrong-type", message, document.span(path), notes=notes, help=help)


def _surprise(path: Path, document: Document) -> tuple[str, ...]:
    """Return a note where YAML 1.1 reads the value as something else than it looks."""
    text = document.surprises.get(path)
    value = value_at(document.value, path)
    if text is None or document.private or isinstance(value, str):
        return ()
    reading = "a boolean" if isinstance(value, bool) else f"the number {written(value)}"
    return (f"`{text}` is {reading} in YAML 1.1: quote it to mean the text",)


def _explain(
    path: Path, items: Sequence[Mapping[str, Any]], model: type[BaseModel], document: Document
) -> Diagnostic:
    first = items[0]
    kind, context = first["type"], first.get("ctx", {})
    name = f"`{_dotted(path)}`"
    value = first["input"]
    shown = "" if document.private or isinstance(value, dict | list) else f"`{clip(written(value))}`"
    if kind == "missing":
        inside = f" in `{_dotted(path[:-1])}`" if len(path) > 1 else ""
        message = f"the field `{path[-1]}` is missing{inside}"
        return error("missing-field", message, document.missing_span(path), help=f"add `{path[-1]}:`")
    if kind == "extra_forbidden":
        return _unknown_field(path, first["loc"], model, document)
    expected = list(dict.fromkeys(EXPECTED[item["type"]] for item in items if item["type"] in EXPECTED))
    if expected and len(expected) == len({item["type"] for item in items}):
        problem = wrong_type(" or ".join(expected), path, document)
        modelled = expected == ["a mapping"] and kind != "dict_type" and len(path) > 1
        fields = field_names(model, first["loc"]) if modelled else []
        return (
            replace(problem, help=f"its fields: {_listed(fields)}")
            if fields and not problem.help
            else problem
        )
    span = document.span(path)
    if kind in ("literal_error", "enum"):
        return _not_allowed(path, context, document)
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        subject = f"{name} is {shown[1:-1]}" if shown else f"{name} is out of range"
        message = f"{subject}, {words} {context[bound]}"
        return error("out-of-range", message, span, notes=_surprise(path, document))
    if kind in _LENGTHS:
        message = f"{name} is empty" if not value else f"{name}: {_lower(first['msg'])}"
        return error("out-of-range", message, span)
    if kind == "string_pattern_mismatch":
        help = (not document.private and lookalike(value)) or pattern_help(context["pattern"])
        if path[-1] in ("name", "app"):
            named = "app name" if path[-1] == "app" else "name"
            message = f"{shown or name} is not a valid {named}" if value else f"{name} is empty"
            return error("bad-name", message, span, help=help)
        return error("invalid-value", f"{name} is not valid", span, help=help)
    if document.private:
        field = ".".join(part for part in path if isinstance(part, str))
        explain = command("explain", f"{document.value['kind']}.{field}")
        help = f"`{explain}` shows an example"
        return error("invalid-value", f"{name} is not valid", span, help=help, advice=(explain,))
    reason = str(context["error"]) if kind == "value_error" else _lower(first["msg"])
    return error("invalid-value", f"{name}: {reason}", span)


def _unknown_field(path: Path, loc: Path, model: type[BaseModel], document: Document) -> Diagnostic:
    field = str(path[-1])
    known = field_names(model, loc[:-1])
    inside = f" in `{_dotted(path[:-1])}`" if len(path) > 1 else ""
    bare = value_at(document.value, path) is None  # such as {hunter2}
    hidden = document.private and (bare or may_be_a_value(path))
    looks = "" if hidden else lookalike(field)
    help = "; ".join(filter(None, (looks, did_you_mean(field, known))))
    if field.partition(":")[0] in known and not document.private:
        help = as_pair(field)
    if not help:
        home = _homes(field, model)
        if home and home[0] and path[:-1] != (home[0],):
            help = f"`{field}` belongs under `{home[0]}`"
        elif "" in home:
            help = f"`{field}` belongs at the top, beside `kind`: remove its indentation"
        elif known:
            help = f"known here: {_listed(known)}"
    shown = "an unknown field" if hidden else f"unknown field `{clip(field)}`"
    return error("unknown-field", f"{shown}{inside}", document.key_span(path), help=help)


def _homes(field: str, model: type[BaseModel]) -> list[str]:
    """The blocks that have a field of that name; "" is the top."""
    homes = [block for block in _BLOCKS if field in field_names(model, (block,))]
    return [*homes, ""] if field in field_names(model, ()) else homes


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _not_allowed(path: Path, context: Mapping[str, Any], document: Document) -> Diagnostic:
    value = value_at(document.value, path)
    choices = re.findall(r"'([^']*)'", context["expected"])
    listed = context["expected"].replace("'", "`")
    if not isinstance(value, str):
        text = written(value)
        if isinstance(value, bool | int) and text in choices and not document.private:
            found = describe(value)
            return error(
                "wrong-type",
                f"expected the text `{text}`, found {found}",
                document.span(path),
                help=f'quote it: "{text}"',
            )
        problem = wrong_type(listed, path, document)
        numbers = all(choice.isdecimal() for choice in choices) and isinstance(value, int | float)
        return (
            replace(problem, help="write one of them in quotes")
            if numbers and not document.private
            else problem
        )
    shown = "this" if document.private else f"`{clip(value)}`"
    help = (
        "" if document.private else "; ".join(filter(None, (lookalike(value), did_you_mean(value, choices))))
    )
    message = f"{shown} is not allowed for `{_dotted(path)}`"
    return error(
        "not-allowed",
        message,
        document.span(path),
        label=f"one of {listed}" if help else "",
        help=help or f"one of {listed}",
    )


def field_names(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the fields that manifests may write at `path`, in the model's order.

    List indices and the names that pydantic gives to the branches of a union are passed over.
    """
    models = [model]
    for part in path:
        below = [
            inner
            for outer in models
            for name, field in outer.model_fields.items()
            if part == (field.alias or name)
            for inner in _models(field.annotation)
        ]
        models = below or models
    return [field.alias or name for found in models for name, field in found.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def locate(item: Mapping[str, Any], value: Any) -> tuple[Path, bool]:
    """Return the path in the document of pydantic's error `item`, and whether it is inside a union.

    Parts of pydantic's location that are neither a key nor an index of the value name such branches.
    """
    parts: Path = item["loc"]
    last: Path = ()
    if item["type"] == "missing":
        parts, last = parts[:-1], parts[-1:]
    path: Path = ()
    skipped = False
    for part in parts:
        inner = value_at(value, (part,), _ABSENT)
        if inner is _ABSENT:
            skipped = True
        else:
            path, value = (*path, part), inner
    return (*path, *last), skipped


_ABSENT = object()


def value_at(value: Any, path: Path, default: Any = None) -> Any:
    """Return what stands at `path` of a manifest's `value`; `default` where nothing does."""
    for part in path:
        inside = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if part not in inside:
            return default
        value = value[part]
    return value


def _dotted(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
