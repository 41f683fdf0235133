"""The values of files in which nothing is unusual, without positions: a third of the time of `compose`.

Most files are like that, and of most files no position is ever asked for (see `later`). Whatever needs a
word to a person, or a rule of `compose`, is left to it: there is one judge of what YAML may hold.
"""

import re
from math import isfinite
from typing import Any

import yaml
from yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from reconciler.core.diagnostics import Diagnostic
from reconciler.manifests.reading.limits import (
    MOST_DEPTH,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
    MOST_FILE_EVENTS,
)
from reconciler.manifests.reading.scalars import FIRST_CHARACTERS, resolve
from reconciler.manifests.reading.text import decode

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Anchors, aliases, merge keys and tags, or text that looks like them: known before any time is spent.
_UNUSUAL = re.compile(rb"[&*!]|<<")


def plain_values(data: bytes) -> list[Any] | None:
    """The values of the documents in `data`, exactly as `compose` reads them.

    None where it would find a problem or a surprise, or where the file has to be read by it for another
    reason: anchors, aliases, merge keys, tags, numbers that are not finite.
    """
    if _UNUSUAL.search(data):
        return None
    text = decode(data, "")
    return None if isinstance(text, Diagnostic) else text_values(text)


def text_values(text: str) -> list[Any] | None:
    """The same for a text that `decode` has passed, and in which none of these signs stands."""
    try:
        return _documents(text)
    except (_Unusual, yaml.MarkedYAMLError):
        return None


class _Unusual(Exception):
    pass


def _documents(text: str) -> list[Any]:
    next_event = _LOADER(text).get_event
    found: list[Any] = []
    events_left, documents_left = MOST_FILE_EVENTS, MOST_DOCUMENTS
    while (kind := next_event().__class__) is not StreamEndEvent:
        if kind is not DocumentStartEvent:
            continue
        value, events = _document(next_event)
        events_left -= events
        documents_left -= 1
        if events_left < 0 or documents_left < 0:
            raise _Unusual
        if value is not None:
            found.append(value)
    return found


def _document(next_event: Any) -> tuple[Any, int]:
    """The value of the document whose start was just passed, and how many events it took."""
    stack: list[tuple[Any, Any]] = []
    mapping: dict[str, Any] | None = None
    sequence: list[Any] | None = None
    key: str | None = None
    root: Any = None
    value: Any
    for count in range(1, MOST_DOCUMENT_EVENTS + 1):
        event = next_event()
        kind = event.__class__
        if kind is ScalarEvent:
            value = event.value
            if event.tag is not None:
                raise _Unusual
            if not event.style and value[:1] in FIRST_CHARACTERS:
                value, surprising = resolve(value)
                if surprising or (value.__class__ is float and not isfinite(value)):
                    raise _Unusual
            if mapping is not None and key is None:
                if value.__class__ is not str or value in mapping:
                    raise _Unusual
                key = value
                continue
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            mapping, sequence = stack.pop()
            key = None
            if not stack:
                return root, count
            continue
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if event.tag is not None or len(stack) >= MOST_DEPTH or (mapping is not None and key is None):
                raise _Unusual
            value = {} if kind is MappingStartEvent else []
        else:
            raise _Unusual
        if mapping is not None:
            assert key is not None
            mapping[key] = value
            key = None
        elif sequence is not None:
            sequence.append(value)
        else:
            root = value
        if kind is not ScalarEvent:
            stack.append((mapping, sequence))
            mapping, sequence = (value, None) if kind is MappingStartEvent else (None, value)
        elif not stack:
            return root, count
    raise _Unusual
