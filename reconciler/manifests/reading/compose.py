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
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from reconciler.core.diagnostics import Diagnostic, Span, hide, show
from reconciler.core.model import SHOWN, Path
from reconciler.manifests.reading.refusals import Refusals, beginning
from reconciler.manifests.reading.scalars import FIRST_CHARACTERS, is_text, resolve
from reconciler.manifests.reading.spans import (
    MERGE,
    PathNode,
    Placed,
    SpanTable,
    key_child,
    merge,
    shown_spans,
)
from reconciler.manifests.reading.syntax import NO_DOCUMENT_START, explain
from reconciler.manifests.reading.text import (
    MOST_DEPTH,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
    MOST_FILE_EVENTS,
    MOST_PROBLEMS,
    decode,
)

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NO_SURPRISES: Mapping[Path, str] = MappingProxyType({})


class Document(Struct, frozen=True):
    """One YAML document: `value` of dict, list, str, int, float, bool and None.

    `spans` holds the packed position of every value by path, `key_spans` that of every key of a
    mapping. What an alias or a merge key brought stands where the alias stands; paths below it
    have no position of their own. `surprises`: the text of plain scalars that YAML reads as
    something else than they look. `has_nulls`: a null may stand somewhere in `value`. `elsewhere` and
    `keys_elsewhere`: positions of what overlays gave, or removed (see `overlays`); they go first.

    A document is private until somebody who knows its kind asks for it `shown`.
    """

    value: Any
    spans: Mapping[Path, int]
    key_spans: Mapping[Path, int]
    surprises: Mapping[Path, str]
    has_nulls: bool
    elsewhere: Mapping[Path, Span] = field(default_factory=dict)
    keys_elsewhere: Mapping[Path, Span] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether it may hold a secret: nothing of it is shown, and no message repeats its values."""
        return not self.spans[()] & SHOWN

    def shown(self) -> "Document":
        """The same, of a kind that holds no secrets."""
        return Document(  # `replace` takes as long as validating a volume
            self.value,
            shown_spans(self.spans),
            shown_spans(self.key_spans),
            self.surprises,
            self.has_nulls,
            self.elsewhere,
            self.keys_elsewhere,
        )

    def hidden(self) -> "Document":
        """The same, of a kind that holds secrets: also what overlays gave is not shown."""
        if not self.elsewhere and not self.keys_elsewhere:
            return self
        return replace(self, elsewhere=_private(self.elsewhere), keys_elsewhere=_private(self.keys_elsewhere))


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
        return not self.diagnostics

    @property
    def is_plain(self) -> bool:
        """Whether the values of its documents are all that has to be known of it."""
        return self.complete and not any(document.surprises for document in self.documents)

    def shown(self) -> list[Diagnostic]:
        """The problems of a file that holds no secrets."""
        return [show(problem) for problem in self.diagnostics]


def compose(data: bytes, file: str, table: SpanTable | None = None) -> Composed:
    """Read `data`, which `file` names in diagnostics; never raises for what the data holds.

    A syntax error and a breached limit end the file. Empty documents are left out.
    """
    text = decode(data, file)
    if isinstance(text, Diagnostic):
        return Composed([], [hide(text)])
    composer = _Composer(text, file, table or SpanTable())
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
    def __init__(self, text: str, file: str, table: SpanTable) -> None:
        self.refusals = Refusals(text, file)
        self.table = table
        self.next_event: Callable[[], Event] = _LOADER(text).get_event
        self.problems: list[Diagnostic] = []
        self.events_left = MOST_FILE_EVENTS
        self.documents_left = MOST_DOCUMENTS

    def begins_document(self) -> bool:
        """Pass over what stands between two documents; False at the end of the stream."""
        while True:
            event = self.next_event()
            kind = type(event)
            if kind is DocumentStartEvent:
                self.documents_left -= 1
                if self.documents_left < 0:
                    raise _Stop(self.refusals.too_many_documents(event))
                return True
            if kind is StreamEndEvent:
                return False

    def document(self) -> Document | None:
        """The document whose start was just passed; None when it has a problem.

        One loop over the events with the innermost collection in local variables: this is where
        the time of loading goes, so positions are packed in place (see `model.pack_span`).
        """
        next_event, refusals = self.next_event, self.refusals
        problems_before = len(self.problems)
        budget = max(1, min(MOST_DOCUMENT_EVENTS, self.events_left))
        expanded = 0  # events that aliases stood for
        count = 0
        event: Any = None

        node = self.table.root
        placed = Placed([], [], [])
        nodes, positions, key_positions = placed
        surprises: dict[Path, str] = {}
        has_nulls = False
        anchors: dict[str, tuple[Any, int] | None] = {}  # None: not yet closed

        stack: list[tuple[Any, ...]] = []
        mapping: dict[Any, Any] | None = None
        sequence: list[Any] | None = None
        key: PathNode | None = None
        key_position = 0
        slot = -1  # index in `positions` of an open flow collection
        anchor: str | None = None
        opened = 0
        root: Any = None
        value: Any

        for count in range(1, budget + 1):
            event = next_event()
            kind = event.__class__

            if kind is MappingEndEvent or kind is SequenceEndEvent:
                if mapping is not None and MERGE in mapping:
                    wrong = merge(mapping, node, placed)
                    if wrong is not None:
                        self.report(refusals.merge(wrong))
                if anchor is not None:
                    anchors[anchor] = (sequence if mapping is None else mapping, count + expanded - opened)
                if slot >= 0 and event.end_mark.line == (positions[slot] >> 40) - 1:
                    positions[slot] = (positions[slot] & ~0xFFFFF) | (event.end_mark.column + 1)
                mapping, sequence, node, slot, anchor, opened = stack.pop()
                key = None
                if not stack:
                    break
                continue

            start, end = event.start_mark, event.end_mark
            line = start.line
            position = ((line + 1) << 40) | ((start.column + 1) << 20)
            if kind is ScalarEvent:
                position |= (end.column if end.line == line else len(refusals.lines[line])) + 1
                text = event.value
                plain = not event.style
                if event.tag is not None:
                    self.report(refusals.tag(event))
                if mapping is not None and key is None:
                    key = node.children.get(text)
                    if key is None:
                        key = self.key(node, text, plain, position)
                    if key.name in mapping:
                        first = key_positions[nodes.index(key)]
                        self.report(refusals.duplicate_key(key.path, position, first))
                    key_position = position
                    if event.anchor is not None:
                        anchors[event.anchor] = (text, 1)
                    continue
                value, surprising = resolve(text) if plain and text[:1] in FIRST_CHARACTERS else (text, False)
                if value is None:
                    has_nulls = True
                if event.anchor is not None:
                    anchors[event.anchor] = (value, 1)
            elif kind is AliasEvent:
                position |= end.column + 1
                known = anchors.get(event.anchor)
                surprising = False
                if known is None:
                    raise _Stop(refusals.alias(position, open=event.anchor in anchors))
                if mapping is not None and key is None:
                    raise _Stop(refusals.key_that_is_no_scalar("an alias", position))
                value, size = known
                expanded += size
                if count + expanded > budget:
                    raise _Stop(refusals.too_much(position, budget, aliases=True))
                if len(stack) + _height(value) > MOST_DEPTH:
                    raise _Stop(refusals.too_deep(position))
            else:
                position |= start.column + 2
                surprising = False
                if event.tag is not None:
                    self.report(refusals.tag(event))
                if mapping is not None and key is None:
                    raise _Stop(refusals.key_that_is_no_scalar("a list or mapping", position))
                if len(stack) >= MOST_DEPTH:
                    raise _Stop(refusals.too_deep(position))
                value = {} if kind is MappingStartEvent else []

            if mapping is not None:
                assert key is not None
                child = key
                mapping[child.name] = value
                key = None
            elif sequence is not None:
                index = len(sequence)
                child = node.children.get(index) or node.child(index, index, index)
                sequence.append(value)
            else:
                child = node
                root = value
            nodes.append(child)
            positions.append(position)
            key_positions.append(key_position if mapping is not None else 0)
            if surprising:
                surprises[child.path] = text

            if kind is MappingStartEvent or kind is SequenceStartEvent:
                stack.append((mapping, sequence, node, slot, anchor, opened))
                mapping, sequence = (value, None) if kind is MappingStartEvent else (None, value)
                node = child
                slot = len(positions) - 1 if event.flow_style else -1
                anchor, opened = event.anchor, count + expanded
                if anchor is not None:
                    anchors[anchor] = None
            elif not stack:
                break
        else:
            raise _Stop(refusals.too_much(beginning(event), budget, aliases=False))

        self.events_left -= count + expanded
        if len(self.problems) > problems_before:
            return None
        spans, key_spans = self.table.spans(*placed)
        return Document(root, spans, key_spans, surprises or NO_SURPRISES, has_nulls)

    def key(self, node: PathNode, text: str, plain: bool, position: int) -> PathNode:
        """The path of a key that `node` has not seen, or that is written like something else than text."""
        if text == "<<" and plain:
            return node.child(MERGE, "<<", MERGE)
        if plain and not is_text(text) and not _is_setting(node.path, text):
            is_boolean = isinstance(resolve(text)[0], bool)
            path = (*node.path, text)
            self.report(self.refusals.key_that_is_no_text(path, position, is_boolean=is_boolean))
        return key_child(node, text)

    def report(self, problem: Diagnostic) -> None:
        """Keep `problem` and read on, unless there are too many."""
        if len(self.problems) >= MOST_PROBLEMS:
            raise _Stop(problem)
        self.problems.append(problem)


def _height(value: Any) -> int:
    """How many lists and mappings are nested in `value`, itself included."""
    height = 0
    level = [value]
    while inner := [item for item in level if isinstance(item, dict | list)]:
        height += 1
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
    return height
