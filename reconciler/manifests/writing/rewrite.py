"""Changes values in the text of a manifest file, and reads the new text to prove that nothing else changed.

    tokens = find_tokens(text, {(7, 12)})
    text = splice(text, [(tokens[7, 12], 20)])

A `LineColumn` is a line and a column, both from 1, columns in characters, as in `Span`. All other characters
of the text stay, and nothing here touches the disk. A problem names the place that a person has to edit.
"""

import copy
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from reconciler.core.advice import Command
from reconciler.core.diagnostics import Diagnostic, Severity, Span, error
from reconciler.core.model import Path, Resource
from reconciler.kinds.base import Kind
from reconciler.manifests.overlays.merge import with_value_at
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.refusals import decode
from reconciler.manifests.reading.scalars import written
from reconciler.manifests.validation.problems import describe, value_at
from reconciler.manifests.writing.write import quoted, scalar

LineColumn = tuple[int, int]
Scalar = str | int | float | bool

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ANCHOR = re.compile(r"&\S+[ \t]+")
_LINE_BREAK = re.compile("\r\n|\r|\n")
_OPENING = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSING = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class Token(Struct, frozen=True):
    """The value at a place. `start` and `end`: offsets of a scalar, in characters, without its anchor.

    `style`: "" for a plain scalar, else its quotes. `obstacle`: why it cannot be replaced, as an end of "the
    value …"; "" if it can. `see`: the place of the obstacle.
    """

    start: int
    end: int
    style: str
    obstacle: str = ""
    see: LineColumn | None = None


def find_tokens(text: str, places: Collection[LineColumn]) -> Mapping[LineColumn, Token]:
    """Return the values that begin at `places`, in a text that `compose` reads without a problem."""
    starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]
    found: dict[LineColumn, Token] = {}
    inside: list[str | None] = []  # the anchors of the open lists and mappings
    reach: dict[LineColumn, list[str]] = {}  # the anchors that may repeat a token
    anchored: dict[str, LineColumn] = {}
    uses: dict[str, LineColumn] = {}
    event: Any
    for event in yaml.parse(text, Loader=_LOADER):
        kind = type(event)
        if kind is yaml.DocumentStartEvent:
            reach, anchored, uses = {}, {}, {}
        elif kind is yaml.DocumentEndEvent:
            found |= _shared(found, reach, uses)
        elif kind in _CLOSING:
            inside.pop()
        elif kind in (yaml.AliasEvent, yaml.ScalarEvent, *_OPENING):
            place = (event.start_mark.line + 1, event.start_mark.column + 1)
            if kind is yaml.AliasEvent:
                uses.setdefault(event.anchor, place)
            elif event.anchor is not None:
                anchored[event.anchor] = place
            if place in places and place not in found:
                found[place] = _token(event, text, starts, anchored)
                reach[place] = [name for name in (*inside, getattr(event, "anchor", None)) if name]
            if kind in _OPENING:
                inside.append(event.anchor)
    return found


def _token(event: Any, text: str, starts: Sequence[int], anchored: Mapping[str, LineColumn]) -> Token:
    start = starts[event.start_mark.line] + event.start_mark.column
    end = starts[event.end_mark.line] + event.end_mark.column
    kind = type(event)
    if kind is yaml.AliasEvent:
        return Token(start, end, "", f"comes from the anchor `&{event.anchor}`", anchored.get(event.anchor))
    if kind is not yaml.ScalarEvent:
        return Token(start, end, "", "is not a single one")
    if event.start_mark.line != event.end_mark.line:
        return Token(start, end, "", "spans several lines")
    if event.anchor is not None and (found := _ANCHOR.match(text, start)):
        start = found.end()
    return Token(start, end, event.style or "")


def _shared(
    found: Mapping[LineColumn, Token],
    reach: Mapping[LineColumn, Sequence[str]],
    uses: Mapping[str, LineColumn],
) -> dict[LineColumn, Token]:
    """Return the tokens of one document that an alias repeats at another place."""
    shared = {}
    for place, names in reach.items():
        name = next((anchor for anchor in names if anchor in uses), None)
        if name is not None and not found[place].obstacle:
            shared[place] = replace(
                found[place], obstacle=f"is read a second time, as `*{name}`", see=uses[name]
            )
    return shared


def splice(text: str, changes: Sequence[tuple[Token, Scalar]]) -> str:
    """Return `text` with new values in place of tokens, quoted as before.

    Raises ValueError for a lone surrogate.
    """
    for token, value in sorted(changes, key=lambda change: change[0].start, reverse=True):
        text = text[: token.start] + _as_yaml(value, token.style) + text[token.end :]
    return text


def _as_yaml(value: Scalar, style: str) -> str:
    if not isinstance(value, str):
        return written(value)
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return quoted(value) if style else scalar(value)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NAMES: Sequence[Path] = (("kind",), ("metadata", "name"), ("metadata", "app"))


class Edit(Struct, frozen=True):
    """The order to write `value` at `path` of the manifest of `resource`."""

    resource: Resource
    path: Path
    value: Scalar

    @property
    def name(self) -> str:
        """The path of the field inside the manifest, without `spec`, for messages."""
        return ".".join(map(str, self.path[1:]))

    @property
    def private(self) -> bool:
        """Whether the line of the value may hold a secret."""
        span = self.resource.span(*self.path)
        return span is None or span.private


class Rewritten(Struct, frozen=True):
    """The file's new bytes; positions and earlier values (`before`) of the edits, in their order.

    `problems`: why edits cannot be made, by their index; then `data` is the old content.
    """

    data: bytes
    spans: Sequence[Span]
    before: Sequence[Any]
    problems: Mapping[int, Diagnostic]


def cannot_accept(message: str, span: Span | None, help: str, advice: tuple[Command, ...] = ()) -> Diagnostic:
    """Return the problem of an edit that cannot be made."""
    return error("cannot-accept", message, span, help=help, advice=advice)


def rewrite(data: bytes, file: str, edits: Sequence[Edit]) -> Rewritten:
    """Return `data`, the content of `file`, with all `edits`, or the problems that prevent them."""
    problems: dict[int, Diagnostic] = {}
    text = decode(data, file)
    composed = compose(data, file)
    if isinstance(text, Diagnostic) or not composed.complete:
        return Rewritten(data, (), (), {index: _changed(edit) for index, edit in enumerate(edits)})
    tokens = find_tokens(text, {_place(edit) for edit in edits})
    wanted = [copy.deepcopy(document.value) for document in composed.documents]
    numbers = {_place_of(document.spans, ()): number for number, document in enumerate(composed.documents)}
    changes: list[tuple[Token, Scalar]] = []
    places: list[tuple[int, Path]] = []
    before: list[Any] = []
    for index, edit in enumerate(edits):
        number = numbers.get(_place_of(edit.resource.spans, ()))
        if number is not None and not _as_loaded(edit, composed.documents[number]):
            number = None
        token = tokens.get(_place(edit))
        problem = _changed(edit) if number is None or token is None else _obstacle(edit, token)
        if problem is not None or number is None or token is None:
            problems[index] = problem or _changed(edit)
            continue
        holder = value_at(wanted[number], edit.path[:-1])
        before.append(holder[edit.path[-1]])
        holder[edit.path[-1]] = edit.value
        changes.append((token, edit.value))
        places.append((number, edit.path))
    if problems:
        return Rewritten(data, (), (), problems)
    try:
        new_text = splice(text, changes)
    except ValueError:  # half a surrogate pair, which no text holds
        return Rewritten(data, (), (), {index: _unsound(edit) for index, edit in enumerate(edits)})
    new = (_BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b"") + new_text.encode()
    again = compose(new, file)
    # `repr` compares types, too: `True == 1`. Any effect of a value's text on others is found here.
    if not again.complete or repr([document.value for document in again.documents]) != repr(wanted):
        return Rewritten(data, (), (), {index: _unsound(edit) for index, edit in enumerate(edits)})
    # The value has another position in the same lines: it is as private as before.
    spans = [
        again.documents[number].spans[path]._replace(private=edit.private)
        for (number, path), edit in zip(places, edits, strict=True)
    ]
    return Rewritten(new, spans, before, {})


def with_value(edit: Edit, kind: Kind) -> Resource | Diagnostic:
    """Return the edit's resource as the edited manifest declares it, or why that would not be valid."""
    resource = edit.resource
    given = resource.spec.model_dump(by_alias=True, exclude_unset=True)
    span, inside = resource.span(*edit.path), edit.path[1:]
    try:
        spec = kind.Spec.model_validate(with_value_at(given, inside, edit.value))
    except ValidationError:
        return cannot_accept(
            f"`{resource.address}`: {describe(edit.value)} is not a valid `{edit.name}` in a manifest",
            span,
            "no manifest can ask for it: let the next apply put it back, or leave the field to others "
            "with `lifecycle.ignore`",
        )
    others = spec.model_dump(by_alias=True, exclude_unset=True)
    if with_value_at(given, inside, None) != with_value_at(others, inside, None):
        return _unsound(edit)
    broken = [problem for problem in kind.check(spec, resource.span) if problem.severity is Severity.ERROR]
    if broken:
        return cannot_accept(
            f"`{resource.address}`: {broken[0].message}", span, broken[0].help, broken[0].advice
        )
    return replace(resource, spec=spec)


def _place(edit: Edit) -> LineColumn:
    """Return the place of the value, or of the alias that brought it."""
    path = edit.path
    while path and path not in edit.resource.spans:
        path = path[:-1]
    span = edit.resource.spans[path]
    return (span.line, span.column)


def _place_of(spans: Mapping[Path, Span], path: Path) -> tuple[int, int, int] | None:
    """Return line and columns of the value at `path`."""
    return spans[path][1:4] if path in spans else None


def _as_loaded(edit: Edit, document: Document) -> bool:
    """Whether `document` is still the manifest of the edit, with the same value at the same place."""
    address = edit.resource.in_file
    return (
        _place_of(document.spans, edit.path) == _place_of(edit.resource.spans, edit.path)
        and [value_at(document.value, path) for path in _NAMES] == [address.kind, address.name, address.app]
        and _read_as_loaded(edit, value_at(document.value, edit.path))
    )


def _read_as_loaded(edit: Edit, value: Any) -> bool:
    """Whether `value` means the resource's value: other words may mean the same, such as `running`."""
    spec, inside = edit.resource.spec, edit.path[1:]
    given = spec.model_dump(by_alias=True, exclude_unset=True)
    loaded = value_at(given, inside)
    if value is None or value == loaded:
        return bool(value == loaded)
    try:
        again = type(spec).model_validate(with_value_at(given, inside, value))
    except ValidationError:
        return False
    return bool(value_at(again.model_dump(by_alias=True, exclude_unset=True), inside) == loaded)


def _obstacle(edit: Edit, token: Token) -> Diagnostic | None:
    resource = edit.resource
    if edit.path not in resource.spans and token.see is None:
        return cannot_accept(
            f"`{resource.address}`: `{edit.name}` is not in its manifest",
            resource.span(*edit.path),
            f"add `{edit.path[-1]!s}: {written(edit.value)}` there by hand",
        )
    if not token.obstacle:
        return None
    span = resource.span(*edit.path)
    if token.see is not None and span is not None:
        line, column = token.see
        span = Span(span.file, line, column, column + 1, span.private)
    return cannot_accept(
        f"`{resource.address}`: the value of `{edit.name}` {token.obstacle}",
        span,
        f"edit it there by hand; write {written(edit.value)}",
    )


def _changed(edit: Edit) -> Diagnostic:
    return cannot_accept(
        f"`{edit.resource.file}` changed while the platform was read",
        edit.resource.span(*edit.path),
        "run the command again",
    )


def _unsound(edit: Edit) -> Diagnostic:
    return cannot_accept(
        f"`{edit.resource.address}`: the value {written(edit.value)} cannot replace "
        f"`{edit.name}` without changing something else",
        edit.resource.span(*edit.path),
        "edit it by hand",
    )
