"""Text to documents with positions, under limits: the only reader of YAML.

PyYAML's own loaders crash on 100,000 `[`, hang on a bomb of merge keys and keep the
last of two equal keys silently. This one builds plain values from libyaml's events
with a stack of its own and refuses what no manifest needs.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import yaml
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

from reconciler.diagnostics import Diagnostic, Span, error
from reconciler.manifests.reading.complaint import NO_DOCUMENT_START
from reconciler.manifests.reading.scalars import FIRST_CHARACTERS, resolve
from reconciler.manifests.reading.spans import PathNode, SpanTable
from reconciler.manifests.reading.syntax import explain
from reconciler.manifests.reading.text import decode
from reconciler.model import Path, pack_span, unpack_span

MOST_DEPTH = 64
MOST_DOCUMENT_EVENTS = 20_000  # a key, a value, either end of a list or mapping: an event each
MOST_FILE_EVENTS = 500_000
MOST_DOCUMENTS = 20_000
MOST_PROBLEMS = 20

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = object()  # stands for a plain `<<` among the keys of a mapping being built
_NO_SURPRISES: Mapping[Path, str] = MappingProxyType({})
_TAG = re.compile(r"!\S*")


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: `value` of dict, list, str, int, float, bool and None.

    `spans` holds the packed position of every value by path, `key_spans` that of every key of a
    mapping. What an alias or a merge key brought stands where the alias stands; paths below it
    have no position of their own. `surprises`: the text of plain scalars that YAML 1.1 reads as
    something else than they look. `has_nulls`: a null stands somewhere in `value`. `elsewhere` and
    `keys_elsewhere`: positions of what overlays gave, or removed (see `overlays`); they go first.
    """

    value: Any
    spans: Mapping[Path, int]
    key_spans: Mapping[Path, int]
    surprises: Mapping[Path, str]
    has_nulls: bool
    elsewhere: Mapping[Path, Span] = field(default_factory=dict)
    keys_elsewhere: Mapping[Path, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Composed:
    """What one file held. Documents with an error are left out; `complete` says that there was none."""

    documents: list[Document]
    diagnostics: list[Diagnostic]

    @property
    def complete(self) -> bool:
        return not self.diagnostics


def compose(data: bytes, file: str, table: SpanTable | None = None) -> Composed:
    """Read `data`, which `file` names in diagnostics; never raises for what the data holds.

    A syntax error and a breached limit end the file. Empty documents are left out.
    """
    text = decode(data, file)
    if isinstance(text, Diagnostic):
        return Composed([], [text])
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
        composed.diagnostics.append(explain(problem, file, composer.lines))
    return composed


class _Stop(Exception):
    """The rest of the file is not read, because of `diagnostic`."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Composer:
    def __init__(self, text: str, file: str, table: SpanTable) -> None:
        self.text = text
        self.file = file
        self.table = table
        self.next_event: Callable[[], Event] = _LOADER(text).get_event
        self.problems: list[Diagnostic] = []
        self.events_left = MOST_FILE_EVENTS
        self.documents_left = MOST_DOCUMENTS

    @cached_property
    def lines(self) -> list[str]:
        """Also the empty one after a final line break, where the text ends."""
        return re.split("\r\n|\r|\n", self.text)

    def begins_document(self) -> bool:
        """Pass over what stands between two documents; False at the end of the stream."""
        while True:
            event = self.next_event()
            kind = type(event)
            if kind is DocumentStartEvent:
                self.documents_left -= 1
                if self.documents_left < 0:
                    raise _Stop(self.too_many_documents(event))
                return True
            if kind is StreamEndEvent:
                return False

    def document(self) -> Document | None:
        """The document whose start was just passed; None when it has a problem.

        One loop over the events with the innermost collection in local variables: this is where
        the time of loading goes, so positions are packed in place (see `model.pack_span`).
        """
        next_event = self.next_event
        problems_before = len(self.problems)
        budget = max(1, min(MOST_DOCUMENT_EVENTS, self.events_left))
        expanded = 0  # events that aliases stood for
        count = 0
        event: Any = None

        node = self.table.root
        nodes: list[PathNode] = []
        positions: list[int] = []
        key_positions: list[int] = []
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
                if mapping is not None and _MERGE in mapping:
                    self.merge(mapping, node, nodes, positions, key_positions)
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
                position |= (end.column if end.line == line else len(self.lines[line])) + 1
                text = event.value
                plain = not event.style
                if event.tag is not None:
                    self.refuse_tag(event)
                if mapping is not None and key is None:
                    key = node.children.get(text)
                    if key is None:
                        key = self.key(node, text, plain, position)
                    if key.name in mapping:
                        self.refuse_duplicate(key, position, nodes, key_positions)
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
                    raise _Stop(self.bad_alias(event, position, open=event.anchor in anchors))
                if mapping is not None and key is None:
                    raise _Stop(self.bad_key(position, "an alias cannot be a key"))
                value, size = known
                expanded += size
                if count + expanded > budget:
                    raise _Stop(self.too_much(position, budget, aliases=True))
                if len(stack) + _height(value) > MOST_DEPTH:
                    raise _Stop(self.too_deep(position))
            else:
                position |= start.column + 2
                surprising = False
                if event.tag is not None:
                    self.refuse_tag(event)
                if mapping is not None and key is None:
                    raise _Stop(self.bad_key(position, "a list or mapping cannot be a key"))
                if len(stack) >= MOST_DEPTH:
                    raise _Stop(self.too_deep(position))
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
            raise _Stop(self.too_much(self.position(event), budget, aliases=False))

        self.events_left -= count + expanded
        if len(self.problems) > problems_before:
            return None
        spans, key_spans = self.table.spans(nodes, positions, key_positions)
        return Document(root, spans, key_spans, surprises or _NO_SURPRISES, has_nulls)

    def key(self, node: PathNode, text: str, plain: bool, position: int) -> PathNode:
        """The path of a key that `node` has not seen, or that is written like something else than text."""
        if text == "<<" and plain:
            return node.child(_MERGE, "<<", _MERGE)
        if plain and not _is_text(text):
            is_boolean = isinstance(resolve(text)[0], bool)
            message = (
                f"the key `{text}` is a boolean in YAML 1.1"
                if is_boolean
                else f"the key `{text}` is not text"
            )
            self.report(
                error(
                    "non-string-key",
                    message if text else "a key is empty",
                    self.span(position),
                    help=f'quote it: "{text}"' if text else "",
                )
            )
        return _key_child(node, text)

    def merge(
        self,
        mapping: dict[Any, Any],
        node: PathNode,
        nodes: list[PathNode],
        positions: list[int],
        key_positions: list[int],
    ) -> None:
        """Replace `<<` by what it brings: keys of `mapping` itself win, then the first mapping listed.

        What stands in a mapping written right there keeps its positions; what comes by an alias has none but
        the alias's.
        """
        sources = mapping.pop(_MERGE)
        begins = nodes.index(node.children[_MERGE])
        places = {nodes[index]: index for index in range(begins, len(nodes))}
        listed = isinstance(sources, list)
        for number, source in enumerate(sources if listed else [sources]):
            if not isinstance(source, dict):
                told = "`<<` takes a mapping or a list of mappings"
                self.report(error("bad-merge", told, self.span(positions[begins])))
                return
            origin = nodes[begins].child(number, number, number) if listed else nodes[begins]
            position = positions[places.get(origin, begins)]
            for name, value in source.items():
                if name not in mapping:
                    mapping[name] = value
                    child, written = _key_child(node, name), places.get(_key_child(origin, name))
                    nodes.append(child)
                    positions.append(position if written is None else positions[written])
                    key_positions.append(position if written is None else key_positions[written])
                    if written is not None:
                        lists = (nodes, positions, key_positions)
                        self.merge_inside(value, nodes[written], child, places, *lists)

    def merge_inside(
        self,
        value: Any,
        origin: PathNode,
        node: PathNode,
        places: Mapping[PathNode, int],
        nodes: list[PathNode],
        positions: list[int],
        key_positions: list[int],
    ) -> None:
        """The positions of all that stands in `value` below `origin`, also below `node`."""
        names: Iterable[Any] = ()
        if origin.children:  # what an alias brought has none
            names = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for name in names:
            part, twin = (
                (each.child(name, name, name) if isinstance(name, int) else _key_child(each, name))
                for each in (origin, node)
            )
            written = places.get(part)
            if written is not None:
                nodes.append(twin)
                positions.append(positions[written])
                key_positions.append(key_positions[written])
                self.merge_inside(value[name], part, twin, places, nodes, positions, key_positions)

    def report(self, problem: Diagnostic) -> None:
        """Keep `problem` and read on, unless there are too many."""
        if len(self.problems) >= MOST_PROBLEMS:
            raise _Stop(problem)
        self.problems.append(problem)

    def refuse_duplicate(
        self, key: PathNode, position: int, nodes: list[PathNode], key_positions: list[int]
    ) -> None:
        first = self.span(key_positions[nodes.index(key)])
        help = "remove one of the two"
        if key.path in (("apiVersion",), ("kind",), ("metadata",), ("spec",)):
            help += ", or write `---` before a second manifest"
        self.report(
            error(
                "duplicate-key",
                f"the key `{key.path[-1]}` stands here twice",
                self.span(position),
                notes=(f"first at {first.file}:{first.line}:{first.column}",),
                help=help,
            )
        )

    def refuse_tag(self, event: Any) -> None:
        line, column = event.start_mark.line, event.start_mark.column
        found = _TAG.search(self.lines[line], column)  # an anchor may stand before the tag
        width = 1
        if found:
            column, width = found.start(), len(found[0])
        self.report(
            error(
                "tag-refused",
                "tags are not read from manifests",
                Span(self.file, line + 1, column + 1, column + 1 + width),
                help="remove the tag; quote a text that begins with `!`",
            )
        )

    def bad_key(self, position: int, message: str) -> Diagnostic:
        span = self.span(position)
        before = span.column - 2
        if before >= 0 and self.lines[span.line - 1].startswith("{{", before):
            return error(
                "non-string-key",
                "`{{` begins no value",
                Span(self.file, span.line, span.column - 1, span.column + 1),
                help="templates are not rendered here: do that first, or quote the text",
            )
        return error("non-string-key", message, span, help="a key is text")

    def bad_alias(self, event: AliasEvent, position: int, *, open: bool) -> Diagnostic:
        if open:
            return error("recursive-alias", f"`*{event.anchor}` contains itself", self.span(position))
        return error(
            "unknown-anchor",
            f"no anchor `&{event.anchor}` stands before this alias in the document",
            self.span(position),
            help="an anchor is known in its own document only; quote a text that begins with `*`",
        )

    def too_deep(self, position: int) -> Diagnostic:
        message = f"lists and mappings are nested more than {MOST_DEPTH} deep"
        return error("too-deep", message, self.span(position))

    def too_much(self, position: int, budget: int, *, aliases: bool) -> Diagnostic:
        if budget < MOST_DOCUMENT_EVENTS:
            message = f"the file holds more than {MOST_FILE_EVENTS:,} keys and values"
            return error("too-large", message, self.span(position), help="split it into several files")
        expand = " once its aliases are expanded" if aliases else ""
        message = f"the document holds more than {MOST_DOCUMENT_EVENTS:,} keys and values{expand}"
        help = "write out what is meant, without aliases" if aliases else "split it into several documents"
        return error("too-large", message, self.span(position), help=help)

    def too_many_documents(self, event: Event) -> Diagnostic:
        message = f"the file holds more than {MOST_DOCUMENTS:,} documents"
        span = self.span(self.position(event))
        return error("too-large", message, span, help="split it into several files")

    def position(self, event: Any) -> int:
        return pack_span(event.start_mark.line + 1, event.start_mark.column + 1, event.start_mark.column + 2)

    def span(self, position: int) -> Span:
        return unpack_span(self.file, position)


def _height(value: Any) -> int:
    """How many lists and mappings are nested in `value`, itself included."""
    height = 0
    level = [value]
    while inner := [item for item in level if isinstance(item, dict | list)]:
        height += 1
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
    return height


def _is_text(text: str) -> bool:
    """Whether the plain scalar `text` is text."""
    return text[:1] not in FIRST_CHARACTERS or isinstance(resolve(text)[0], str)


def _key_child(node: PathNode, text: str) -> PathNode:
    """The path below `node` for the key `text`.

    Only a key that needs no quotes is found by its text alone, so that finding it means that it is fine.
    """
    ordinary = text != "<<" and _is_text(text)
    return node.child(text if ordinary else (text,), text, text)
