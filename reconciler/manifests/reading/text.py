"""How much YAML one file may hold, and its bytes as text that YAML may be read from.

No manifest needs as much as the limits allow; a bomb needs more.
"""

import re

from reconciler.core.diagnostics import Diagnostic, Span, error

MOST_DEPTH = 64
MOST_DOCUMENT_EVENTS = 20_000  # a key, a value, either end of a list or mapping: an event each
MOST_FILE_EVENTS = 500_000
MOST_DOCUMENTS = 20_000
MOST_PROBLEMS = 20
MOST_BYTES = 4 << 20
LONGEST_LINE = 1_000_000  # characters: a position has 20 bits for its column

_HARMLESS = bytes([9, 10, 13, *range(0x20, 0x7F)])
# Beside control characters: the other line breaks of Unicode, by which YAML counts lines and editors do not,
# and what turns the direction of text, by which a reviewer sees another manifest than the one that is read.
# A pattern, which takes 3 ms to compile: most manifests have nothing to try it on.
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
_SAMPLE = 64  # bytes by which UTF-16 and UTF-32 are known
_TAG_DIRECTIVE = re.compile(r"^%TAG\b", re.MULTILINE)
_SAVE_AS_UTF8 = "save it as UTF-8"


def decode(data: bytes, file: str) -> str | Diagnostic:
    """The text of `data`, without its byte order mark, or what is wrong with it."""
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
    """The span of `width` characters from `offset`."""
    before = text[:offset]
    line = before.count("\n") + before.count("\r") - before.count("\r\n") + 1
    column = offset - max(before.rfind("\n"), before.rfind("\r"))
    return Span(file, line, column, column + width)


def _is_wide(data: bytes) -> bool:
    """Whether this is UTF-16 or UTF-32: by its mark, or because of ASCII every other byte is NUL."""
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
