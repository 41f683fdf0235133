"""New values in the place of old ones: every other character of the text stays as somebody wrote it.

    tokens = find_tokens(text, {(7, 12)})
    text = splice(text, [(tokens[7, 12], 20)])

A place is a line and a column, both from 1, columns in characters, as in `Span`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from reconciler.manifests.reading.scalars import written
from reconciler.manifests.writing.write import quoted, scalar

Place = tuple[int, int]
Scalar = str | int | float | bool

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ANCHOR = re.compile(r"&\S+[ \t]+")
_LINE_BREAK = re.compile("\r\n|\r|\n")
_OPENING = (MappingStartEvent, SequenceStartEvent)
_CLOSING = (MappingEndEvent, SequenceEndEvent)


class Token(Struct, frozen=True):
    """What stands at a place. `start` and `end`: offsets of a scalar, in characters, without its anchor.

    `style`: "" for a plain scalar, else its quotes. `obstacle`: why nothing may be put in its place
    ("" when something may), which completes "the value …"; `see`: the place that it is about.
    """

    start: int
    end: int
    style: str
    obstacle: str = ""
    see: Place | None = None


def find_tokens(text: str, places: Collection[Place]) -> Mapping[Place, Token]:
    """The values that begin at `places`, of a text that `compose` has read without a complaint."""
    starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]
    found: dict[Place, Token] = {}
    inside: list[str | None] = []  # the anchors of the open lists and mappings
    reach: dict[Place, list[str]] = {}  # the anchors by which a token can be read elsewhere
    anchored: dict[str, Place] = {}
    uses: dict[str, Place] = {}
    event: Any
    for event in yaml.parse(text, Loader=_LOADER):
        kind = type(event)
        if kind is DocumentStartEvent:
            reach, anchored, uses = {}, {}, {}
        elif kind is DocumentEndEvent:
            found |= _shared(found, reach, uses)
        elif kind in _CLOSING:
            inside.pop()
        elif kind in (AliasEvent, ScalarEvent, *_OPENING):
            place = (event.start_mark.line + 1, event.start_mark.column + 1)
            if kind is AliasEvent:
                uses.setdefault(event.anchor, place)
            elif event.anchor is not None:
                anchored[event.anchor] = place
            if place in places and place not in found:
                found[place] = _token(event, text, starts, anchored)
                reach[place] = [name for name in (*inside, getattr(event, "anchor", None)) if name]
            if kind in _OPENING:
                inside.append(event.anchor)
    return found


def _token(event: Any, text: str, starts: Sequence[int], anchored: Mapping[str, Place]) -> Token:
    start = starts[event.start_mark.line] + event.start_mark.column
    end = starts[event.end_mark.line] + event.end_mark.column
    kind = type(event)
    if kind is AliasEvent:
        return Token(start, end, "", f"comes from the anchor `&{event.anchor}`", anchored.get(event.anchor))
    if kind is not ScalarEvent:
        return Token(start, end, "", "is not a single one")
    if event.start_mark.line != event.end_mark.line:
        return Token(start, end, "", "spans several lines")
    if event.anchor is not None and (found := _ANCHOR.match(text, start)):
        start = found.end()
    return Token(start, end, event.style or "")


def _shared(
    found: Mapping[Place, Token], reach: Mapping[Place, Sequence[str]], uses: Mapping[str, Place]
) -> dict[Place, Token]:
    """The tokens of one document that an alias repeats somewhere else."""
    shared = {}
    for place, names in reach.items():
        name = next((each for each in names if each in uses), None)
        if name is not None and not found[place].obstacle:
            shared[place] = replace(
                found[place], obstacle=f"is read a second time, as `*{name}`", see=uses[name]
            )
    return shared


def splice(text: str, changes: Sequence[tuple[Token, Scalar]]) -> str:
    """`text` with each value in the place of its token, quoted as that one was.

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
