"""One complaint of libyaml: its text, where it points, and what is there; with what the texts mean."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.diagnostics import Diagnostic, Span, error

NO_DOCUMENT_START = "did not find expected <document start>"

NO_COLON = "could not find expected ':'"
NO_KEY = "did not find expected key"
NO_HYPHEN = "did not find expected '-' indicator"
NO_TOKEN = "found character that cannot start any token"  # noqa: S105 - a token of YAML
STRAY_COLON = "mapping values are not allowed in this context"
_DIGITS = "`\\x`, `\\u` and `\\U` are followed by 2, 4 and 8 hexadecimal digits"
_DIRECTIVE = ("a line that begins with `%` is a directive, but not this one", "remove it, or quote the text")
READABLE = {
    "could not find expected directive name": _DIRECTIVE,
    "did not find expected alphabetic or numeric character": (
        "the name of an anchor holds letters, digits, `-` and `_`",
        "write a space after it, or quote the text",
    ),
    "did not find expected digit or '.' character": _DIRECTIVE,
    "did not find expected version number": _DIRECTIVE,
    "did not find expected whitespace or line break": ("a space is missing here", ""),
    "did not find expected comment or line break": (
        "only a comment is allowed here",
        "the text begins on the next line",
    ),
    "did not find expected hexdecimal number": ("an escape lacks digits", _DIGITS),
    "found duplicate %YAML directive": ("a second `%YAML` line", "remove it"),
    "found incompatible YAML document": ("only YAML 1.1 and 1.2 can be read", "remove the line"),
    "found invalid Unicode character escape code": (
        "the escape names no character",
        "write the character itself",
    ),
    "found unexpected ':'": (
        "there is a `:` in a text without quotes",
        "write a space after a key's `:`, or quote the text",
    ),
    "found unexpected non-alphabetical character": _DIRECTIVE,
    "found unknown directive name": ("unknown directive", "remove the line"),
    "found unknown escape character": (
        "unknown escape in double quotes",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    STRAY_COLON: (
        "there is a `:` where no mapping can begin",
        "quote text that holds `: `; a nested mapping begins on its own line, indented",
    ),
    NO_KEY: ("expected a key", "check the indentation"),
    NO_HYPHEN: ("expected `-`", "indent all items of a list alike"),
    "did not find expected ',' or ']'": ("expected `,` or `]`", ""),
    "did not find expected ',' or '}'": ("expected `,` or `}`", ""),
    "did not find expected node content": ("expected a value", ""),
    NO_DOCUMENT_START: (
        "expected a new document",
        "check the indentation, or begin the document with `---`",
    ),
}


class Complaint(Struct, frozen=True):
    """What libyaml says, and where; lines and columns count from 0.

    `context` is where the unfinished thing began, `opening` the character there.
    """

    what: str
    file: str
    lines: Sequence[str]
    line: int
    column: int
    context: tuple[int, int] | None

    @property
    def text(self) -> str:
        """The line."""
        return self.lines[self.line]

    @property
    def character(self) -> str:
        return self.text[self.column : self.column + 1]

    @property
    def opening(self) -> str:
        if self.context is None or self.context[0] >= len(self.lines):
            return ""
        line, column = self.context
        return self.lines[line][column : column + 1]

    @property
    def begins_line(self) -> bool:
        return not self.text[: self.column].strip(" ")

    @property
    def above(self) -> int:
        """The nearest line above that is not empty, or -1."""
        return next((number for number in range(self.line - 1, -1, -1) if self.lines[number].strip()), -1)

    def span(self, at: tuple[int, int] | None = None, width: int = 1) -> Span:
        line, column = at or (self.line, self.column)
        return _span(self.file, line, column, width)

    def report(
        self,
        message: str,
        help: str = "",
        at: tuple[int, int] | None = None,
        *,
        width: int = 1,
        label: str = "",
        notes: tuple[str, ...] = (),
    ) -> Diagnostic:
        return error("yaml-syntax", message, self.span(at, width), label=label, notes=notes, help=help)


def _span(file: str, line: int, column: int, width: int) -> Span:
    return Span(file, line + 1, column + 1, column + 1 + width)
