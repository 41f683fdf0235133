"""Reads the values of files in block style, line by line, in a tenth of the time that libyaml's events take.

In a hundred thousand manifests most lines are the same few. A line is parsed once (`_line` is cached), and
its value is put where the indentation says. A line with more than a key and a word, a quoted text or such
pairs in braces is composed, as if it was a document.

This module decides nothing about YAML. Values over several lines, except lists and mappings, and all that is
not certain are left to `compose`, and so to PyYAML: there is one judge of what YAML may hold. The fuzzing
(`python -m tests.reliability.fuzz`) compares both readers.

Positions are for diagnostics, so they are read only when one is asked for. Until then, a hundred thousand
manifests have their text in memory, which is half as large as their positions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

from pydantic_core import from_json, to_json

from reconciler.core.diagnostics import Diagnostic, Span
from reconciler.core.model import Path
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.reading.compose import NO_SURPRISES, Document, compose
from reconciler.manifests.reading.refusals import (
    MOST_DEPTH,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
    MOST_FILE_EVENTS,
    decode,
)
from reconciler.manifests.reading.scalars import is_text, resolve

_OPEN = object()  # the value of `key:`, which following lines may give
_KEY = "[A-Za-z_][A-Za-z0-9_.-]{0,99}"
_WORD = "[A-Za-z0-9_/.+@=,-]"
_WORDS = rf"(?:[A-Za-z0-9_/.]|[+-][0-9.]){_WORD}*(?:[: ]{_WORD}+)*|~"
_QUOTED = r"""\"[^\"\\]*\"|'[^']*'"""
_INSIDE = rf"[A-Za-z0-9_/.][A-Za-z0-9_/.+@=-]*|{_QUOTED}"  # of braces, where `,` and `:` mean more
_PAIR = re.compile(rf"({_KEY}): +({_INSIDE})")
_BRACES = rf"\{{ *{_KEY}: +(?:{_INSIDE})(?: *, *{_KEY}: +(?:{_INSIDE}))* *\}}"
_SIMPLE = re.compile(rf"({_KEY}):(?: +(?:({_WORDS}|{_QUOTED})|({_BRACES})))? *(?: #.*)?")
# Signs that mean something else at the start of a document, or begin a text in the following lines.
_NOT_ALONE = re.compile(r"\t|[&*!]|<<|(?:^| )[|>]|^(?:[-?](?: |$)|---|\.\.\.|%)")


def line_values(data: bytes) -> list[Any] | None:
    """Return the values of the documents in `data`, exactly as `compose` reads them; None if it has to.

    The values are shared between calls: nobody may alter them.
    """
    text = decode(data, "")
    if isinstance(text, Diagnostic) or "\r" in text:
        return None
    try:
        return _documents(text)
    except _Unusual:
        return None


class _Unusual(Exception):
    """The text has to be read by `compose`."""


def _documents(text: str) -> list[Any]:
    """Return the values of all documents that are not empty. Raises _Unusual."""
    documents = text.removeprefix("---\n").split("\n---\n")
    if len(documents) > MOST_DOCUMENTS:
        raise _Unusual
    found = []
    events_left = MOST_FILE_EVENTS
    for document in documents:
        lines = document.split("\n")
        value, containers = _document(lines)
        # Not less than libyaml's events: two for a line and for a list or mapping, up to six in brackets.
        flow = document.count(",") + document.count("[") + document.count("{")
        events = 2 * (len(lines) + containers) + 6 * flow
        events_left -= events
        if events > MOST_DOCUMENT_EVENTS or events_left < 0:
            raise _Unusual
        if value is not None:
            found.append(value)
    return found


def _document(lines: list[str]) -> tuple[Any, int]:
    """Return the value of a document, and how many lists and mappings its lines open. Raises _Unusual."""
    stack: list[tuple[int, Any, Any]] = []
    mapping: dict[str, Any] | None = None  # the innermost one, or
    sequence: list[Any] | None = None
    at = 0  # its indentation
    opened: str | None = None  # the last key, if nothing has followed it
    root: Any = None
    containers = 0
    for indent, key, value in filter(None, map(_line, lines)):
        if key is None:  # an item
            inside, key, value = value
            if root is None and not indent:
                root = sequence = []
                containers = 1
            elif opened is not None and indent >= at:
                assert mapping is not None
                stack.append((at, mapping, None))
                mapping[opened] = sequence = []
                mapping, at = None, indent
                containers += 1
            else:
                while indent < at:
                    at, mapping, sequence = stack.pop()
                if indent != at or sequence is None:
                    raise _Unusual
            assert sequence is not None
            opened = None
            if key is None:
                sequence.append(value)
                continue
            stack.append((at, None, sequence))
            mapping, at = {}, inside
            sequence.append(mapping)
            sequence = None
            containers += 1
        elif indent != at or mapping is None:
            if opened is not None and indent > at:
                assert mapping is not None
                stack.append((at, mapping, None))
                mapping[opened] = mapping = {}
                at = indent
                containers += 1
            elif root is None and not indent:
                root = mapping = {}
                containers = 1
            else:
                while stack and (indent < at or mapping is None):
                    at, mapping, sequence = stack.pop()
                if indent != at or mapping is None:
                    raise _Unusual
        if key in mapping:
            raise _Unusual
        if value is not _OPEN:
            mapping[key] = value
            opened = None
        elif len(stack) < MOST_DEPTH // 2:
            mapping[key] = None
            opened = key
        else:
            raise _Unusual
    return root, containers


@lru_cache(maxsize=1 << 14)
def _line(line: str) -> tuple[int, str | None, Any] | None:
    """Return indentation, key and value of one line; None for a comment or an empty line.

    For an item of a list the key is None, and the value is (indentation, key, value) of the item's own
    content, whose key is None unless it is a mapping.
    """
    text = line.lstrip(" ")
    if not text or text.startswith("#"):
        return None
    indent = len(line) - len(text)
    if not text.startswith("- "):
        key, value = _entry(text)
        if key is None:
            raise _Unusual
        return indent, key, value
    item = text[1:].lstrip(" ")
    return indent, None, (indent + len(text) - len(item), *_entry(item))


def _entry(text: str) -> tuple[str | None, Any]:
    """Return key and value; for a word or a collection in brackets, the key is None."""
    simple = _SIMPLE.fullmatch(text)
    if simple is not None and is_text(simple[1]):
        key, scalar, braces = simple.groups()
        if scalar is not None:
            return key, _scalar(scalar)
        return key, _mapping(braces) if braces is not None else _OPEN
    if _NOT_ALONE.search(text) or text.count("[") + text.count("{") > MOST_DEPTH // 4:
        raise _Unusual
    composed = compose(text.encode(), "")
    if not composed.is_plain or len(composed.documents) != 1:
        raise _Unusual
    value = composed.documents[0].value
    if text[0] in "[{" or not isinstance(value, dict):
        return None, value
    ((key, value),) = value.items()
    if value is None:  # the next lines may give it
        raise _Unusual
    return key, value


def _scalar(text: str) -> Any:
    """Return the value of a word or a quoted text."""
    if text[0] in "\"'":
        return text[1:-1]
    value, surprising = resolve(text)
    if surprising or (isinstance(value, float) and not isfinite(value)):
        raise _Unusual
    return value


def _mapping(braces: str) -> dict[str, Any]:
    """Return the value of `{key: word, …}`."""
    pairs = _PAIR.findall(braces)
    value = {key: _scalar(text) for key, text in pairs if is_text(key)}
    if len(value) < len(pairs):
        raise _Unusual
    return value


class Known:
    """Values by the bytes of their file, as JSON; None for a file that `compose` has to read.

    `specs`: valid specs without secrets, by kind and JSON; equal manifests share one.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}
        self.specs: dict[tuple[ManifestKind, bytes], Any] = {}

    def files(self) -> Iterable[bytes]:
        """Return the bytes of all files that were asked for."""
        return self._values.keys()

    def documents(self, file: str, data: bytes) -> list[Document] | None:
        """Return the documents of a file with the bytes `data`; None where `compose` has to read them."""
        if data not in self._values:
            values = line_values(data)
            self._values[data] = to_json(values) if values is not None else None
        known = self._values[data]
        if known is None:
            return None
        text, has_nulls = _Text(file, data), b"null" in known
        return [
            Document(
                file,
                value,
                _Spans(text, number, False),
                _Spans(text, number, True),
                NO_SURPRISES,
                has_nulls,
            )
            for number, value in enumerate(from_json(known))
        ]


class _Text:
    """The bytes of one file until they are composed, then the positions in its documents."""

    __slots__ = ("_composed", "_data", "_file")

    def __init__(self, file: str, data: bytes) -> None:
        self._file = file
        self._data = data
        self._composed: list[tuple[Mapping[Path, Span], Mapping[Path, Span]]] | None = None

    def positions(self, number: int, keys: bool) -> Mapping[Path, Span]:
        """Return the positions of the values, or of the `keys`, of the document `number`."""
        if self._composed is None:
            documents = compose(self._data, self._file).documents
            self._composed = [(document.spans, document.key_spans) for document in documents]
            self._data = b""
        return self._composed[number][keys]


class _Spans(Mapping[Path, Span]):
    """The positions in one document of a text, which are read when one is asked for."""

    __slots__ = ("_keys", "_number", "_text")

    def __init__(self, text: _Text, number: int, keys: bool) -> None:
        self._text = text
        self._number = number
        self._keys = keys

    def __getitem__(self, path: Path) -> Span:
        return self._text.positions(self._number, self._keys)[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._text.positions(self._number, self._keys))

    def __len__(self) -> int:
        return len(self._text.positions(self._number, self._keys))
