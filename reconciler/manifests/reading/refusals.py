"""The limits of files, and diagnostics about good YAML that no manifest needs.

An unknown key at a place of secret values may be such a value: no report names it. No manifest needs as much
as the limits allow; a bomb needs more.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from yaml.events import Event

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import Path

MOST_DEPTH = 64
MOST_DOCUMENT_EVENTS = 20_000  # a key, a value, either end of a list or mapping: an event each
MOST_FILE_EVENTS = 500_000
MOST_DOCUMENTS = 20_000
MOST_PROBLEMS = 20
MOST_BYTES = 4 << 20
LONGEST_LINE = 1_000_000  # characters

_HARMLESS = bytes([9, 10, 13, *range(0x20, 0x7F)])
# Control characters; line breaks of Unicode, by which YAML counts lines and editors do not; and characters
# that turn the direction of text, with which a reviewer would see another manifest than the one that is read.
# It is compiled when needed, which takes 3 ms: most manifests have only harmless bytes.
_REFUSED = (
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_KNOWN_AS = {
    0x00: "NUL",
    0x08: "backspace",
    0x0C: "form feed",
    0x1B: "escape",
    0x7F: "delete",
    0x85: "next line",
    0x2028: "line separator",
    0x2029: "paragraph separator",
    0xFEFF: "byte order mark",
}
_SAMPLE = 64  # bytes that show UTF-16 and UTF-32
_TAG_DIRECTIVE = re.compile(r"^%TAG\b", re.MULTILINE)
_SAVE_AS_UTF8 = "save it as UTF-8"


def decode(data: bytes, file: str) -> str | Diagnostic:
    """Return the text of `data`, without its byte order mark, or the problem that prevents reading it."""
    if len(data) > MOST_BYTES:
        return error(
            "file-too-large",
            f"the file is larger than {MOST_BYTES >> 20} MiB",
            Span(file, 1, 1, 1),
            help="split it into several files",
        )
    if _is_wide(data):
        return error("not-utf8", "the file is UTF-16 or UTF-32", Span(file, 1, 1, 2), help=_SAVE_AS_UTF8)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        return _invalid_utf8(problem, file)
    if data.translate(None, _HARMLESS) and (found := re.search(_REFUSED, text)):
        code = ord(found[0])
        known_as = f" ({_KNOWN_AS[code]})" if code in _KNOWN_AS else ""
        return error(
            "control-character",
            f"the character U+{code:04X}{known_as} is not allowed in a manifest",
            span_at(text, found.start(), file),
            help="remove it, or write it as an escape in double quotes",
        )
    if "%TAG" in text and (found := _TAG_DIRECTIVE.search(text)):
        return error(
            "tag-refused",
            "tags are not read from manifests",
            span_at(text, found.start(), file, 4),
            help="remove the `%TAG` line",
        )
    if len(text) > LONGEST_LINE:
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > LONGEST_LINE:
                message = f"the line is longer than {LONGEST_LINE:,} characters"
                return error("line-too-long", message, Span(file, number, 1, 1))
    return text


def span_at(text: str, offset: int, file: str, width: int = 1) -> Span:
    """Return the span of `width` characters from `offset` of `text`."""
    before = text[:offset]
    line = before.count("\n") + before.count("\r") - before.count("\r\n") + 1
    column = offset - max(before.rfind("\n"), before.rfind("\r"))
    return Span(file, line, column, column + width)


def _is_wide(data: bytes) -> bool:
    """Whether this is UTF-16 or UTF-32: it has their mark, or every other byte is NUL, as in ASCII text."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    sample = data[:_SAMPLE]
    return b"\0" in sample[:2] and any(sample) and 5 * sample.count(0) >= 2 * len(sample)


def _invalid_utf8(problem: UnicodeDecodeError, file: str) -> Diagnostic:
    readable = problem.object[: problem.start].decode()  # the codec took the byte order mark away
    byte = problem.object[problem.start]
    return error(
        "not-utf8",
        f"the byte 0x{byte:02X} is not UTF-8 here",
        span_at(readable, len(readable), file),
        help=_SAVE_AS_UTF8,
    )


# Names that people give to a value, here or in Kubernetes. Lower case, without `_`.
VALUE_NAMES = frozenset(
    {"data", "literal", "password", "plain", "plaintext", "secret", "string", "stringdata", "text", "value"}
)
_SOURCE = "_from"
_HOLDERS = ("_secret", "token")  # endings of other such names: `webhook_secret`, `platform.token`


def may_be_a_value(path: Path) -> bool:
    """Whether the last key of `path` stands where a secret value or its source belongs.

    As in `value_from: {hunter2: A}`, which should have been `value_from: {env: A}`.
    """
    return any(isinstance(part, str) and _holds_a_value(part) for part in path[:-1])


def _holds_a_value(field: str) -> bool:
    return field.endswith((_SOURCE, *_HOLDERS)) or field.lower().replace("_", "") in VALUE_NAMES


def stands_alone(key: Span, lines: Sequence[str]) -> bool:
    """Whether no `:` follows the key. In braces, it may be a value without a key, as in `{hunter2}`."""
    return not lines[key.line - 1][key.end_column - 1 :].lstrip().startswith(":")


def named(path: Path) -> str:
    """Return `path` with dots, and `…` for parts that may be a secret value."""
    size = next((size for size in range(1, len(path)) if may_be_a_value(path[: size + 1])), len(path))
    return ".".join([*map(str, path[:size]), *["…"] * (size < len(path))])


_TAG = re.compile(r"!\S*")


class Refusals:
    """Makes the diagnostics about `text` of `file`."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    @cached_property
    def lines(self) -> list[str]:
        """All lines, with the empty one after a final line break, where the text ends."""
        return re.split("\r\n|\r|\n", self._text)

    def tag(self, event: Any) -> Diagnostic:
        """Refuse a tag, which would let a file choose Python types."""
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

    def duplicate_key(self, path: Path, second: Span, first: Span) -> Diagnostic:
        """Refuse the second of two equal keys: PyYAML would silently keep the last one."""
        help = "remove one of the two"
        if path in (("apiVersion",), ("kind",), ("metadata",), ("spec",)):
            help += ", or write `---` before a second manifest"
        hidden = may_be_a_value(path) or any(stands_alone(key, self.lines) for key in (first, second))
        return error(
            "duplicate-key",
            "a key is given twice" if hidden else f"the key `{path[-1]}` is given twice",
            second,
            notes=(f"first at {first.place}",),
            help=help,
        )

    def key_that_is_no_text(self, path: Path, span: Span, *, is_boolean: bool) -> Diagnostic:
        """Refuse a key that is a number, boolean or null. `path` ends with its text."""
        text = path[-1]
        if not text:
            return error("non-string-key", "a key is empty", span)
        what = "a boolean in YAML 1.1" if is_boolean else "not text"
        if may_be_a_value(path) or stands_alone(span, self.lines):
            return error("non-string-key", f"a key is {what}", span, help="quote it")
        return error("non-string-key", f"the key `{text}` is {what}", span, help=f'quote it: "{text}"')

    def key_that_is_no_scalar(self, what: str, span: Span) -> Diagnostic:
        """Refuse a list, mapping or alias as a key; `{{` is a template that somebody forgot to render."""
        before = span.column - 2
        if before >= 0 and self.lines[span.line - 1].startswith("{{", before):
            return error(
                "non-string-key",
                "`{{` begins no value",
                Span(self._file, span.line, span.column - 1, span.column + 1),
                help="templates are not rendered here: do that first, or quote the text",
            )
        return error("non-string-key", f"{what} cannot be a key", span, help="a key is text")

    def merge(self, span: Span) -> Diagnostic:
        """Refuse `<<` with another value than mappings."""
        return error("bad-merge", "`<<` takes a mapping or a list of mappings", span)

    def alias(self, span: Span, *, open: bool) -> Diagnostic:
        """Refuse an alias without an anchor. It may be a text that begins with `*`, so it is not named.

        `open`: it stands inside the value of its own anchor.
        """
        if open:
            message = "the alias is inside the value of its own anchor"
            return error("recursive-alias", message, span)
        return error(
            "unknown-anchor",
            "there is no anchor for this alias before it in the document",
            span,
            help="an anchor is valid only in its own document; quote a text that begins with `*`",
        )

    def too_deep(self, span: Span) -> Diagnostic:
        """Refuse nesting that would exhaust the stack of a recursive reader."""
        message = f"lists and mappings are nested more than {MOST_DEPTH} deep"
        return error("too-deep", message, span)

    def too_much(self, span: Span, budget: int, *, aliases: bool) -> Diagnostic:
        """Refuse a document with more than `budget` events. `aliases`: their expansion has too many."""
        if budget < MOST_DOCUMENT_EVENTS:
            message = f"the file holds more than {MOST_FILE_EVENTS:,} keys and values"
            return error("too-large", message, span, help="split it into several files")
        expand = " once its aliases are expanded" if aliases else ""
        message = f"the document holds more than {MOST_DOCUMENT_EVENTS:,} keys and values{expand}"
        help = "write out what is meant, without aliases" if aliases else "split it into several documents"
        return error("too-large", message, span, help=help)

    def too_many_documents(self, event: Event) -> Diagnostic:
        """Refuse the first document beyond the limit of a file."""
        message = f"the file holds more than {MOST_DOCUMENTS:,} documents"
        return error("too-large", message, self.span(event), help="split it into several files")

    def span(self, event: Any, end_column: int = 0) -> Span:
        """Return the position of `event` up to a column; by default, that of its first character."""
        start = event.start_mark
        return Span(self._file, start.line + 1, start.column + 1, end_column or start.column + 2, True)
