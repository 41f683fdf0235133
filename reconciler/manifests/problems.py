"""pydantic's errors as diagnostics, at the key or value that they are about.

Values of kinds that hold secrets are described ("text") and never repeated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from reconciler.diagnostics import Diagnostic, Span, error, warning
from reconciler.manifests.compose import Document
from reconciler.manifests.scalars import resolve, written
from reconciler.model import Path, unpack_span

_EXPECTED = {
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
_NAMES = {
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}": (
        "at most 63 letters, digits, `.`, `_` and `-`, the first one a letter or digit"
    ),
    r"[A-Za-z_][A-Za-z0-9_]{0,126}": ("at most 127 letters, digits and `_`, the first one a letter or `_`"),
}
_LONGEST_SHOWN = 40
_NULL_HELP = "give it a value, or remove it"
MOST_PROBLEMS = 100  # shown of one file, of each severity: more of them help nobody


@dataclass(frozen=True, slots=True)
class Place:
    """One document and its positions: where diagnostics about it point."""

    document: Document
    file: str
    secret: bool = False

    def value(self, path: Path) -> Span:
        """The value at `path`, or the nearest enclosing one that has a position."""
        return self._nearest(path, self.document.spans, self.document.elsewhere)

    def key(self, path: Path) -> Span:
        """The key at `path`; for the document itself its first line."""
        return self._nearest(path, self.document.key_spans, self.document.keys_elsewhere)

    def missing(self, path: Path) -> Span:
        """Where the field at `path` was removed, or else the key of what it is missing in."""
        removed = self.document.elsewhere.get(path)
        return self.key(path[:-1]) if removed is None else removed

    def _nearest(self, path: Path, spans: Mapping[Path, int], elsewhere: Mapping[Path, Span]) -> Span:
        while path and path not in spans and path not in elsewhere:
            path = path[:-1]
        if path in elsewhere:
            return elsewhere[path]
        return unpack_span(self.file, spans[path] if path in spans else self.document.spans[()])

    def finish(self, problem: Diagnostic) -> Diagnostic:
        """`problem`, without its source line where that may hold a secret."""
        return replace(problem, hide_source=True) if self.secret else problem


def explain(failure: ValidationError, model: type[BaseModel], place: Place) -> list[Diagnostic]:
    """The problems of one document, one for each place; no more of them than tell that they are too many."""
    problems: dict[tuple[Path, bool], list[tuple[Mapping[str, Any], bool]]] = {}
    for item in failure.errors(include_url=False):
        path, in_branch = locate(item, place.document.value)
        problems.setdefault((path, item["type"] == "missing"), []).append((item, in_branch))
    deeper = {path[:size] for path, _ in problems for size in range(len(path))}
    found: list[Diagnostic] = []
    for (path, _), items in problems.items():
        if len(found) > MOST_PROBLEMS:
            break
        if path in deeper and all(in_branch and item["type"] in _EXPECTED for item, in_branch in items):
            continue  # another branch of the union fits the value's shape and says more
        found.append(place.finish(_explain(path, [item for item, _ in items], model, place)))
    return found


def surprises(place: Place, explained: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Warn of scalars that YAML 1.1 reads as something else, except where an error already says so."""
    told = {problem.span for problem in explained}
    for path, text in place.document.surprises.items():
        span = place.value(path)
        if span not in told:
            reading = written(resolve(text)[0])
            yield place.finish(
                warning(
                    "yaml-1.1-surprise",
                    "this value is not read as it is written"
                    if place.secret
                    else f"`{text}` is read as {reading} (YAML 1.1)",
                    span,
                    help="quote it to mean the text"
                    if place.secret
                    else f'write `{reading}`, or "{text}" with quotes to mean the text',
                )
            )


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """A help text naming the candidate nearest to `word`, or ""."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean `{by_lower[near[0]]}`?" if near else ""


def describe(value: Any, *, secret: bool = False) -> str:
    """What was found: the text "10", the number 10, a list, null."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    kind = "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"
    if secret:
        return kind if kind == "text" else f"a {kind}"
    return f'the text "{_clip(value)}"' if kind == "text" else f"the {kind} {_clip(written(value))}"


def wrong_type(expected: str, path: Path, place: Place) -> Diagnostic:
    """`expected` completes "expected an integer"."""
    value = _at(place.document.value, path)
    text = place.document.surprises.get(path)
    help = ""
    notes: tuple[str, ...] = ()
    if not place.secret:
        help = _retype(expected, value, text)
        if text is not None:
            notes = (f"`{text}` is {_article(value)} in YAML 1.1: quote it to mean the text",)
    elif expected == "text" and isinstance(value, bool | int | float):
        help = "put it in quotes"
    elif value is None:
        help = _NULL_HELP
    message = f"expected {expected}, found {describe(value, secret=place.secret)}"
    return error("wrong-type", message, place.value(path), notes=notes, help=help)


def _article(value: Any) -> str:
    return "a boolean" if isinstance(value, bool) else f"the number {written(value)}"


def _retype(expected: str, value: Any, text: str | None) -> str:
    if value is None:
        return _NULL_HELP
    if expected == "text" and isinstance(value, bool | int):
        return f'quote it: "{_clip(text or written(value))}"'
    if expected == "text" and isinstance(value, float):
        return "put it in quotes"
    if isinstance(value, str):
        meant = resolve(value)[0]
        fits = isinstance(meant, bool) if expected == "true or false" else isinstance(meant, int | float)
        if expected in ("true or false", "an integer", "a number") and fits:
            return f"write `{_clip(written(meant))}` without quotes"
    return ""


def _explain(
    path: Path, items: Sequence[Mapping[str, Any]], model: type[BaseModel], place: Place
) -> Diagnostic:
    first = items[0]
    kind, context = first["type"], first.get("ctx", {})
    name = f"`{_dotted(path)}`"
    value = first["input"]
    shown = "" if place.secret or isinstance(value, dict | list) else f"`{_clip(written(value))}`"
    if kind == "missing":
        inside = f" in `{_dotted(path[:-1])}`" if len(path) > 1 else ""
        message = f"the field `{path[-1]}` is missing{inside}"
        return error("missing-field", message, place.missing(path), help=f"add `{path[-1]}:`")
    if kind == "extra_forbidden":
        return _unknown_field(path, first["loc"], model, place)
    expected = list(dict.fromkeys(_EXPECTED[item["type"]] for item in items if item["type"] in _EXPECTED))
    if expected and len(expected) == len({item["type"] for item in items}):
        return wrong_type(" or ".join(expected), path, place)
    span = place.value(path)
    if kind in ("literal_error", "enum"):
        return _not_allowed(path, context, place)
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        subject = f"{name} is {shown[1:-1]}" if shown else f"{name} is out of range"
        message = f"{subject}, {words} {context[bound]}"
        return error("out-of-range", message, span)
    if kind in _LENGTHS:
        message = f"{name} is empty" if not value else f"{name}: {_lower(first['msg'])}"
        return error("out-of-range", message, span)
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"].removeprefix("^").removesuffix("$")
        if path[-1] in ("name", "app"):
            message = f"{shown or name} is not a valid {'app name' if path[-1] == 'app' else 'name'}"
            return error("bad-name", message, span, help=_NAMES.get(pattern, f"it must match {pattern}"))
        return error("invalid-value", f"{name} is not valid", span, help=f"it must match {pattern}")
    if place.secret:
        return error("invalid-value", f"{name} is not valid", span)
    reason = str(context["error"]) if kind == "value_error" else _lower(first["msg"])
    return error("invalid-value", f"{name}: {reason}", span)


def _unknown_field(path: Path, loc: Path, model: type[BaseModel], place: Place) -> Diagnostic:
    field = str(path[-1])
    known = field_names(model, loc[:-1])
    inside = f" in `{_dotted(path[:-1])}`" if len(path) > 1 else ""
    help = did_you_mean(field, known)
    if not help:
        blocks = ("metadata", "spec", "lifecycle")
        home = [block for block in blocks if field in field_names(model, (block,))]
        if home and path[:-1] != (home[0],):
            help = f"`{field}` belongs under `{home[0]}`"
        elif known:
            help = f"known here: {', '.join(f'`{name}`' for name in known)}"
    may_be_a_value = place.secret and _at(place.document.value, path) is None  # such as {hunter2}
    shown = "an unknown field" if may_be_a_value else f"unknown field `{_clip(field)}`"
    return error("unknown-field", f"{shown}{inside}", place.key(path), help=help)


def _not_allowed(path: Path, context: Mapping[str, Any], place: Place) -> Diagnostic:
    value = _at(place.document.value, path)
    choices = re.findall(r"'([^']*)'", context["expected"])
    listed = context["expected"].replace("'", "`")
    if not isinstance(value, str):
        text = written(value)
        if isinstance(value, bool | int) and text in choices and not place.secret:
            found = describe(value)
            return error(
                "wrong-type",
                f"expected the text `{text}`, found {found}",
                place.value(path),
                help=f'quote it: "{text}"',
            )
        return wrong_type(listed, path, place)
    shown = "this" if place.secret else f"`{_clip(value)}`"
    help = "" if place.secret else did_you_mean(value, choices)
    message = f"{shown} is not allowed for `{_dotted(path)}`"
    return error(
        "not-allowed",
        message,
        place.value(path),
        label=f"one of {listed}" if help else "",
        help=help or f"one of {listed}",
    )


def field_names(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The fields that manifests may write at `path`, in the model's order.

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
    """Where in the document `item` is about, and whether that is inside a branch of a union.

    Parts of pydantic's location that are no key or index of the value name such branches.
    """
    parts: Path = item["loc"]
    last: Path = ()
    if item["type"] == "missing":
        parts, last = parts[:-1], parts[-1:]
    path: Path = ()
    skipped = False
    for part in parts:
        inner = _at(value, (part,), _ABSENT)
        if inner is _ABSENT:
            skipped = True
        else:
            path, value = (*path, part), inner
    return (*path, *last), skipped


_ABSENT = object()


def _at(value: Any, path: Path, default: Any = None) -> Any:
    for part in path:
        inside = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if part not in inside:
            return default
        value = value[part]
    return value


def _dotted(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
