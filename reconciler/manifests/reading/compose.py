"""Text to documents with positions, under limits: the only reader of YAML.

PyYAML's own loaders crash on 100,000 `[`, hang on a bomb of merge keys and keep the
last of two equal keys silently. This one builds plain values from libyaml's events
with a stack of its own and refuses what no manifest needs.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span, hide, show
from reconciler.core.model import Path
from reconciler.manifests.reading.refusals import (
    MOST_DEPTH,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
    MOST_FILE_EVENTS,
    MOST_PROBLEMS,
    Refusals,
    decode,
)
from reconciler.manifests.reading.scalars import FIRST_CHARACTERS, is_text, resolve
from reconciler.manifests.reading.spans import MERGE, ShownSpans, below, merge
from reconciler.manifests.reading.syntax import NO_DOCUMENT_START, explain

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NO_SURPRISES: Mapping[Path, str] = MappingProxyType({})


class Document(Struct, frozen=True):
    """One YAML document of `file`: `value` of dict, list, str, int, float, bool and None.

    `spans` holds the position of every value by path, `key_spans` that of every key of a mapping. What an
    alias or a merge key brought stands where the alias stands; paths below it have no position of their own.
    `surprises`: the text of plain scalars that YAML reads as something else than they look. `has_nulls`: a
    null may stand somewhere in `value`. `overlaid` and `overlaid_keys`: positions of what overlays gave, or
    removed (see `overlays`); they go first.
    `guarded`: the document is asked about one field whose line may hold a secret.

    A document is private until somebody who knows its kind asks for it `shown`.
    """

    file: str
    value: Any
    spans: Mapping[Path, Span]
    key_spans: Mapping[Path, Span]
    surprises: Mapping[Path, str]
    has_nulls: bool
    overlaid: Mapping[Path, Span] = field(default_factory=dict)
    overlaid_keys: Mapping[Path, Span] = field(default_factory=dict)
    guarded: bool = False

    @property
    def private(self) -> bool:
        """Whether it may hold a secret: nothing of it is shown, and no message repeats its values."""
        return self.guarded or self.spans[()].private

    def shown(self) -> "Document":
        """Return the same document, of a kind that holds no secrets."""
        return replace(self, spans=ShownSpans(self.spans), key_spans=ShownSpans(self.key_spans))

    def hidden(self) -> "Document":
        """Return the same document, of a kind that holds secrets: overlays' values are not shown either."""
        if not self.overlaid and not self.overlaid_keys:
            return self
        return replace(self, overlaid=_private(self.overlaid), overlaid_keys=_private(self.overlaid_keys))

    def about(self, path: Path) -> "Document":
        """Return the document as messages about `path` may quote it: guarded if its line is private."""
        is_private = self.key_span(path).private or self.span(path).private
        return replace(self, guarded=True) if is_private and not self.private else self

    def span(self, path: Path) -> Span:
        """Return where the value at `path` stands, or the nearest enclosing one that has a position."""
        return self._nearest(path, self.spans, self.overlaid)

    def key_span(self, path: Path) -> Span:
        """Return where the key at `path` stands; for the document itself its first line."""
        return self._nearest(path, self.key_spans, self.overlaid_keys)

    def missing_span(self, path: Path) -> Span:
        """Return where the field at `path` was removed, or the key (or list item) that it is missing in."""
        removed = self.overlaid.get(path)
        if removed is not None:
            return removed
        is_in_item = len(path) > 1 and isinstance(path[-2], int)  # which has no key
        return self.span(path[:-1]) if is_in_item else self.key_span(path[:-1])

    def _nearest(self, path: Path, spans: Mapping[Path, Span], overlaid: Mapping[Path, Span]) -> Span:
        while path and path not in spans and path not in overlaid:
            path = path[:-1]
        return overlaid.get(path) or spans.get(path) or self.spans[()]


def _private(spans: Mapping[Path, Span]) -> dict[Path, Span]:
    return {path: span._replace(private=True) for path, span in spans.items()}


class Composed(Struct, frozen=True):
    """What one file held. Documents with an error are left out; `complete` says that there was none.

    Problems are private, since the kind of what cannot be read is not known: ask for those to show.
    """

    documents: list[Document]
    diagnostics: list[Diagnostic]

    @property
    def complete(self) -> bool:
        """Whether the file was read to its end without a problem."""
        return not self.diagnostics

    @property
    def is_plain(self) -> bool:
        """Whether the values of its documents are all that has to be known of it."""
        return self.complete and not any(document.surprises for document in self.documents)

    def shown(self) -> list[Diagnostic]:
        """The problems of a file that holds no secrets."""
        return [show(problem) for problem in self.diagnostics]


def compose(data: bytes, file: str) -> Composed:
    """Read `data`, which `file` names in diagnostics; never raises for what the data holds.

    A syntax error and a breached limit end the file. Empty documents are left out.
    """
    text = decode(data, file)
    if isinstance(text, Diagnostic):
        return Composed([], [hide(text)])
    composer = _Composer(text, file)
    composed = Composed([], composer.problems)
    try:
        while composer.begins_document():
            document = composer.document()
            if document is not None and document.value is not None:
                composed.documents.append(document)
    except _Stop as stop:
        composed.diagnostics.append(stop.diagnostic)
    except yaml.MarkedYAMLError as problem:
        if problem.problem == NO_DOCUMENT_START and composed.documents:
            composed.documents.pop()  # it was not at its end: what could be said of it would be wrong
        composed.diagnostics.append(explain(problem, file, composer.refusals.lines))
    return Composed(composed.documents, [hide(problem) for problem in composed.diagnostics])


def _is_setting(path: Path, key: str) -> bool:
    """Whether it is `on` of the settings' `notify`, written as in jobs of CI; no manifest has it."""
    return key == "on" and path[:1] == ("notify",)


class _Stop(Exception):
    """The rest of the file is not read, because of `diagnostic`."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Composer:
    """The stream of one file: where its documents begin, its problems, and what is left of its limits."""

    def __init__(self, text: str, file: str) -> None:
        self.refusals = Refusals(text, file)
        self.file = file
        self.next_event: Callable[[], yaml.Event] = _LOADER(text).get_event
        self.problems: list[Diagnostic] = []
        self.events_left = MOST_FILE_EVENTS
        self.documents_left = MOST_DOCUMENTS

    def begins_document(self) -> bool:
        """Pass over what stands between two documents; False at the end of the stream."""
        while True:
            event = self.next_event()
            kind = type(event)
            if kind is yaml.DocumentStartEvent:
                self.documents_left -= 1
                if self.documents_left < 0:
                    raise _Stop(self.refusals.too_many_documents(event))
                return True
            if kind is yaml.StreamEndEvent:
                return False

    def document(self) -> Document | None:
        """Read the document whose start was just passed. Return None when it has a problem."""
        problems_before = len(self.problems)
        builder = _Builder(self, max(1, min(MOST_DOCUMENT_EVENTS, self.events_left)))
        while not builder.take(self.next_event()):
            pass
        self.events_left -= builder.size
        if len(self.problems) > problems_before:
            return None
        surprises = builder.surprises or NO_SURPRISES
        return Document(
            self.file, builder.root, builder.spans, builder.key_spans, surprises, builder.has_nulls
        )

    def report(self, problem: Diagnostic) -> None:
        """Keep `problem` and read on, unless there are too many."""
        if len(self.problems) >= MOST_PROBLEMS:
            raise _Stop(problem)
        self.problems.append(problem)


class _Frame(Struct):
    """A list or mapping that is not closed yet. `size_before`: of the document up to its start.

    `key`: the path of the value for which a mapping waits. `in_brackets`: whether it is written in these, so
    that its end on the line is not known yet.
    """

    path: Path
    values: Any  # the list or dict
    is_mapping: bool
    anchor: str | None
    in_brackets: bool
    size_before: int
    key: Path | None = None


class _Builder:
    """One document while its events come: values with their positions, open collections and anchors.

    `budget`: how many events it may have, `size` how many it has, aliases expanded.
    """

    def __init__(self, composer: _Composer, budget: int) -> None:
        self._composer = composer
        self._refusals = composer.refusals
        self._budget = budget
        self._count = 0
        self._expanded = 0  # events that aliases stood for
        self._frames: list[_Frame] = []
        self._frame: _Frame | None = None  # the innermost
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # None: not yet closed
        self.root: Any = None
        self.spans: dict[Path, Span] = {}
        self.key_spans: dict[Path, Span] = {}
        self.surprises: dict[Path, str] = {}
        self.has_nulls = False

    @property
    def size(self) -> int:
        """The events so far, aliases expanded."""
        return self._count + self._expanded

    def take(self, event: Any) -> bool:
        """Add what `event` says. Return whether it ends the document."""
        self._count += 1
        kind = event.__class__
        if kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close(event.end_mark)
        elif kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.AliasEvent:
            self._alias(event)
        else:
            self._open(event, {} if kind is yaml.MappingStartEvent else [])
        if self._frame is None:
            return True
        if self._count >= self._budget:
            raise _Stop(self._refusals.too_much(self._refusals.span(event), self._budget, aliases=False))
        return False

    def _scalar(self, event: Any) -> None:
        start, end, text = event.start_mark, event.end_mark, event.value
        one_line = end.line == start.line
        last = end.column if one_line else len(self._refusals.lines[start.line])
        span = self._refusals.span(event, last + 1)
        if event.tag is not None:
            self._composer.report(self._refusals.tag(event))
        frame = self._frame
        if frame is not None and frame.is_mapping and frame.key is None:
            self._key(frame, text, not event.style, span)
            value, surprising = text, False
        else:
            plain = not event.style and text[:1] in FIRST_CHARACTERS
            value, surprising = resolve(text) if plain else (text, False)
            self.has_nulls |= value is None
            path = self._place(value, span)
            if surprising:
                self.surprises[path] = text
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)

    def _key(self, frame: _Frame, text: str, plain: bool, span: Span) -> None:
        """Let the next value be that of the key `text`."""
        name = MERGE if text == "<<" and plain else text
        frame.key = path = below(frame.path, name)
        if name is text and plain and not is_text(text) and not _is_setting(frame.path, text):
            is_boolean = isinstance(resolve(text)[0], bool)
            self._composer.report(self._refusals.key_that_is_no_text(path, span, is_boolean=is_boolean))
        if name in frame.values:
            first = self.key_spans[path]
            self._composer.report(self._refusals.duplicate_key((*frame.path, text), span, first))
        self.key_spans[path] = span

    def _alias(self, event: Any) -> None:
        known, span = self._anchors.get(event.anchor), self._refusals.span(event, event.end_mark.column + 1)
        if known is None:
            raise _Stop(self._refusals.alias(span, open=event.anchor in self._anchors))
        self._refuse_as_key("an alias", span)
        value, size = known
        self._expanded += size
        if self.size > self._budget:
            raise _Stop(self._refusals.too_much(span, self._budget, aliases=True))
        if len(self._frames) + _height(value) > MOST_DEPTH:
            raise _Stop(self._refusals.too_deep(span))
        self._place(value, span)

    def _open(self, event: Any, values: Any) -> None:
        """Begin a list or mapping, whose items go into `values`."""
        span = self._refusals.span(event)
        if event.tag is not None:
            self._composer.report(self._refusals.tag(event))
        self._refuse_as_key("a list or mapping", span)
        if len(self._frames) >= MOST_DEPTH:
            raise _Stop(self._refusals.too_deep(span))
        path = self._place(values, span)
        is_mapping = event.__class__ is yaml.MappingStartEvent
        self._frame = _Frame(path, values, is_mapping, event.anchor, event.flow_style, self.size)
        self._frames.append(self._frame)
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _close(self, end: Any) -> None:
        frame = self._frames.pop()
        if frame.is_mapping and MERGE in frame.values:
            wrong = merge(frame.values, frame.path, self.spans, self.key_spans)
            if wrong is not None:
                self._composer.report(self._refusals.merge(wrong))
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.values, self.size - frame.size_before)
        span = self.spans[frame.path]
        if frame.in_brackets and end.line == span.line - 1:
            self.spans[frame.path] = span._replace(end_column=end.column + 1)
        self._frame = self._frames[-1] if self._frames else None

    def _refuse_as_key(self, what: str, span: Span) -> None:
        if self._frame is not None and self._frame.is_mapping and self._frame.key is None:
            raise _Stop(self._refusals.key_that_is_no_scalar(what, span))

    def _place(self, value: Any, span: Span) -> Path:
        """Put `value` where it belongs in the innermost collection, and return its path."""
        frame = self._frame
        path: Path = ()
        if frame is None:
            self.root = value
        elif frame.is_mapping:
            assert frame.key is not None
            path, frame.key = frame.key, None
            frame.values[path[-1]] = value
        else:
            path = below(frame.path, len(frame.values))
            frame.values.append(value)
        self.spans[path] = span
        return path


def _height(value: Any) -> int:
    """How many lists and mappings are nested in `value`, itself included."""
    height = 0
    level = [value]
    while inner := [item for item in level if isinstance(item, dict | list)]:
        height += 1
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
    return height
