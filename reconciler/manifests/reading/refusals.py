"""Good YAML that no manifest needs, and what is said of it.

Where a secret's value may stand, an unknown key may be that value: no report names it.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from yaml.events import Event

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import Path, pack_span, unpack_span
from reconciler.manifests.reading.text import (
    MOST_DEPTH,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
    MOST_FILE_EVENTS,
)

# Lower case, without `_`: what people call a value, here or in Kubernetes.
VALUE_NAMES = frozenset(
    {"data", "literal", "password", "plain", "plaintext", "secret", "string", "stringdata", "text", "value"}
)
_SOURCE = "_from"
_HOLDERS = ("_secret", "token")  # end what others call one: `webhook_secret`, `platform.token`


def may_be_a_value(path: Path) -> bool:
    """Whether the key that `path` ends with stands where a value or its source belongs.

    As in `value_from: {hunter2: A}`, which should have been `value_from: {env: A}`.
    """
    return any(isinstance(part, str) and _holds_a_value(part) for part in path[:-1])


def _holds_a_value(field: str) -> bool:
    return field.endswith((_SOURCE, *_HOLDERS)) or field.lower().replace("_", "") in VALUE_NAMES


def stands_alone(key: Span, lines: Sequence[str]) -> bool:
    """Whether no `:` follows the key: in braces that may be a value that lacks its own, as in `{hunter2}`."""
    return not lines[key.line - 1][key.end_column - 1 :].lstrip().startswith(":")


def named(path: Path) -> str:
    """`path` with dots, and `…` for what may be a value."""
    size = next((size for size in range(1, len(path)) if may_be_a_value(path[: size + 1])), len(path))
    return ".".join([*map(str, path[:size]), *["…"] * (size < len(path))])


_TAG = re.compile(r"!\S*")


class Refusals:
    """The diagnostics about `text`, which `file` names. Positions are packed (`model.pack_span`)."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    @cached_property
    def lines(self) -> list[str]:
        """Also the empty one after a final line break, where the text ends."""
        return re.split("\r\n|\r|\n", self._text)

    def tag(self, event: Any) -> Diagnostic:
        line, column = event.start_mark.line, event.start_mark.column
        found = _TAG.search(self.lines[line], column)  # an anchor may stand before the tag
        width = 1
        if found:
            column, width = found.start(), len(found[0])
        return error(
            "tag-refused",
            "tags are not read from manifests",
            Span(self._file, line + 1, column + 1, column + 1 + width),
            help="remove the tag; quote a text that begins with `!`",
        )

    def duplicate_key(self, path: Path, position: int, first_position: int) -> Diagnostic:
        first, second = self._span(first_position), self._span(position)
        help = "remove one of the two"
        if path in (("apiVersion",), ("kind",), ("metadata",), ("spec",)):
            help += ", or write `---` before a second manifest"
        hidden = may_be_a_value(path) or any(stands_alone(each, self.lines) for each in (first, second))
        return error(
            "duplicate-key",
            "a key is given twice" if hidden else f"the key `{path[-1]}` is given twice",
            second,
            notes=(f"first at {first.place}",),
            help=help,
        )

    def key_that_is_no_text(self, path: Path, position: int, *, is_boolean: bool) -> Diagnostic:
        """`path` ends with the text of the plain scalar."""
        text = path[-1]
        span = self._span(position)
        if not text:
            return error("non-string-key", "a key is empty", span)
        what = "a boolean in YAML 1.1" if is_boolean else "not text"
        if may_be_a_value(path) or stands_alone(span, self.lines):
            return error("non-string-key", f"a key is {what}", span, help="quote it")
        return error("non-string-key", f"the key `{text}` is {what}", span, help=f'quote it: "{text}"')

    def key_that_is_no_scalar(self, what: str, position: int) -> Diagnostic:
        span = self._span(position)
        before = span.column - 2
        if before >= 0 and self.lines[span.line - 1].startswith("{{", before):
            return error(
                "non-string-key",
                "`{{` begins no value",
                Span(self._file, span.line, span.column - 1, span.column + 1),
                help="templates are not rendered here: do that first, or quote the text",
            )
        return error("non-string-key", f"{what} cannot be a key", span, help="a key is text")

    def merge(self, position: int) -> Diagnostic:
        return error("bad-merge", "`<<` takes a mapping or a list of mappings", self._span(position))

    def alias(self, position: int, *, open: bool) -> Diagnostic:
        """`open`: it stands inside of what it names. The name may be a value that begins with `*`."""
        if open:
            message = "the alias is inside the value of its own anchor"
            return error("recursive-alias", message, self._span(position))
        return error(
            "unknown-anchor",
            "there is no anchor for this alias before it in the document",
            self._span(position),
            help="an anchor is valid only in its own document; quote a text that begins with `*`",
        )

    def too_deep(self, position: int) -> Diagnostic:
        message = f"lists and mappings are nested more than {MOST_DEPTH} deep"
        return error("too-deep", message, self._span(position))

    def too_much(self, position: int, budget: int, *, aliases: bool) -> Diagnostic:
        """`budget`: the events that were left to the document. `aliases`: they stood for too many."""
        if budget < MOST_DOCUMENT_EVENTS:
            message = f"the file holds more than {MOST_FILE_EVENTS:,} keys and values"
            return error("too-large", message, self._span(position), help="split it into several files")
        expand = " once its aliases are expanded" if aliases else ""
        message = f"the document holds more than {MOST_DOCUMENT_EVENTS:,} keys and values{expand}"
        help = "write out what is meant, without aliases" if aliases else "split it into several documents"
        return error("too-large", message, self._span(position), help=help)

    def too_many_documents(self, event: Event) -> Diagnostic:
        message = f"the file holds more than {MOST_DOCUMENTS:,} documents"
        return error("too-large", message, self._span(beginning(event)), help="split it into several files")

    def _span(self, position: int) -> Span:
        return unpack_span(self._file, position)


def beginning(event: Any) -> int:
    """The position of the first character of `event`."""
    mark = event.start_mark
    return pack_span(mark.line + 1, mark.column + 1, mark.column + 2)
