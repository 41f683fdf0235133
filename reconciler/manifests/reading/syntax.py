"""libyaml's complaints, in words for people who write manifests.

Ten recognisers explain the mistakes that people make; a table has words for all other complaints.
"""

import re
from collections.abc import Callable, Sequence

import yaml
from msgspec import Struct

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.manifests.suggestions import lookalike

NO_DOCUMENT_START = "did not find expected <document start>"

NO_COLON = "could not find expected ':'"
NO_KEY = "did not find expected key"
NO_HYPHEN = "did not find expected '-' indicator"
NO_TOKEN = "found character that cannot start any token"  # noqa: S105 - a token of YAML
STRAY_COLON = "mapping values are not allowed in this context"
_DIGITS = "`\\x`, `\\u` and `\\U` are followed by 2, 4 and 8 hexadecimal digits"
READABLE = {
    "did not find expected alphabetic or numeric character": (
        "the name of an anchor holds letters, digits, `-` and `_`",
        "write a space after it, or quote the text",
    ),
    "did not find expected whitespace or line break": ("a space is missing here", ""),
    "did not find expected comment or line break": (
        "only a comment is allowed here",
        "the text begins on the next line",
    ),
    "did not find expected hexdecimal number": ("an escape lacks digits", _DIGITS),
    "found invalid Unicode character escape code": (
        "the escape names no character",
        "write the character itself",
    ),
    "found unexpected ':'": (
        "there is a `:` in a text without quotes",
        "write a space after a key's `:`, or quote the text",
    ),
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
    NO_DOCUMENT_START: ("expected a new document", "check the indentation, or begin the document with `---`"),
}


class Complaint(Struct, frozen=True):
    """One complaint of libyaml: its words, and where. Lines and columns count from 0.

    `context` is where the unfinished list, mapping, text or key began, `opening` the character there.
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
        """The character at the complaint; "" at the end of a line."""
        return self.text[self.column : self.column + 1]

    @property
    def opening(self) -> str:
        """The character where the unfinished thing began."""
        if self.context is None or self.context[0] >= len(self.lines):
            return ""
        line, column = self.context
        return self.lines[line][column : column + 1]

    @property
    def above(self) -> int:
        """The nearest line above that is not empty, or -1."""
        return next((number for number in range(self.line - 1, -1, -1) if self.lines[number].strip()), -1)

    def span(self, at: tuple[int, int] | None = None, width: int = 1) -> Span:
        """Return the span of `width` characters from `at`, or from the complaint."""
        line, column = at or (self.line, self.column)
        return Span(self.file, line + 1, column + 1, column + 1 + width)

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
        """Return a diagnostic about `width` characters from `at`; by default, where the complaint is."""
        return error("yaml-syntax", message, self.span(at, width), label=label, notes=notes, help=help)


_OF_TAGS = frozenset(
    {
        "did not find URI escaped octet",
        "did not find expected '!'",
        "did not find expected tag URI",
        "did not find expected whitespace or line break",
        "did not find the expected '>'",
        "found undefined tag handle",
    }
)
_TAG = re.compile(r"!\S*")
_OPENED = {"[": "list", "{": "mapping"}
_CLOSED_BY = {"list": "]", "mapping": "}"}
_ESCAPED = {"'": "''", '"': '\\"'}
_FLOW_STARTS = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
_FLOW_ENDS = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_PAIR = re.compile(r"[A-Za-z_]\w*\s*([:=])\s*\S")
_LONGEST_KEY = 1024  # characters. Source: YAML 1.1, 4.5.1
_RENDER_FIRST = "templates are not rendered here: do that first"


def explain(problem: yaml.MarkedYAMLError, file: str, lines: Sequence[str]) -> Diagnostic:
    """Return the first syntax error of a file; the rest of the file cannot be read."""
    mark = problem.problem_mark or problem.context_mark
    what = str(problem.problem or problem)
    if mark is None:
        return error("yaml-syntax", _lower(what), Span(file, 1, 1, 1))
    line, column = mark.line, mark.column
    if line >= len(lines):  # libyaml ends a text without a final line break on the line after it
        line, column = len(lines) - 1, len(lines[-1])
    context = problem.context_mark
    complaint = Complaint(
        what, file, lines, line, column, (context.line, context.column) if context else None
    )
    for recognise in _RECOGNISED:
        found = recognise(complaint)
        if found is not None:
            return found
    message, help = READABLE.get(what, (_lower(what), ""))
    return complaint.report(message, help)


def _tab(it: Complaint) -> Diagnostic | None:
    indentation = re.match(r"[ \t]*", it.text)
    if indentation and "\t" in indentation[0] and it.column <= indentation.end():
        first = (it.line, it.text.index("\t"))
        return error("tab-indentation", "a tab cannot indent YAML", it.span(first), help="indent with spaces")
    if it.what == NO_TOKEN and it.character == "\t":
        message = "there is a tab where only spaces are allowed"
        return error("tab-indentation", message, it.span(), help="use a space")
    return None


def _merge_conflict(it: Complaint) -> Diagnostic | None:
    marks = [number for number in range(it.line + 1) if it.lines[number].startswith("<<<<<<< ")]
    if not marks or not any(line.startswith("=======") for line in it.lines[marks[-1] :]):
        return None
    return it.report(
        "a merge conflict is not resolved",
        "keep one of the two sides, and remove the lines of `<<<<<<<`, `=======` and `>>>>>>>`",
        (marks[-1], 0),
        width=7,
    )


def _open_quote(it: Complaint) -> Diagnostic | None:
    if it.opening in ('"', "'") and it.what.startswith("found unexpected"):
        return it.report("the quoted text is never closed", at=it.context, label="opened here")
    return None


def _open_bracket(it: Complaint) -> Diagnostic | None:
    """The text ends inside brackets, or something else stands where they should continue."""
    kind = _OPENED.get(it.opening, "")
    if not any(it.lines[it.line :]) and (kind or it.what == "did not find expected node content"):
        opened = it.context if kind else _innermost_open(it.lines)
        if opened is None:
            return None
        kind = _OPENED[it.lines[opened[0]][opened[1]]]
        return it.report(f"the {kind} is never closed", at=opened, label="opened here")
    if not kind or it.context is None or it.what == NO_COLON:
        return None
    begins = (f"the {kind} begins at {it.file}:{it.context[0] + 1}:{it.context[1] + 1}",)
    for number in range(it.context[0], it.line + 1):
        if it.lines[number].lstrip().startswith("//"):
            column = it.lines[number].index("//")
            return it.report("a comment begins with `#`", "", (number, column), width=2)
    message, help = READABLE.get(it.what, (_lower(it.what), ""))
    if it.character in ("]", "}") and it.character != _CLOSED_BY[kind]:
        message, help = f"`{it.character}` does not close the {kind}", f"close it with `{_CLOSED_BY[kind]}`"
    elif it.what.startswith("did not find expected ','"):
        there = "end the line above" if it.line > it.context[0] else "separate two entries"
        help = f"{there} with `,`, or close the {kind} with `{_CLOSED_BY[kind]}`"
    return it.report(message, help, notes=begins)


def _innermost_open(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the place of the last bracket that is not closed."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)("\n".join(lines))
    opened: list[tuple[int, int]] = []
    try:
        while (token := loader.get_token()) is not None:
            if isinstance(token, _FLOW_STARTS):
                opened.append((token.start_mark.line, token.start_mark.column))
            elif isinstance(token, _FLOW_ENDS) and opened:
                opened.pop()
    except yaml.MarkedYAMLError:
        pass
    return opened[-1] if opened else None


def _no_token(it: Complaint) -> Diagnostic | None:
    if it.what != NO_TOKEN:
        return None
    if it.character == "%" and it.text[: it.column].endswith("{"):
        return it.report("`{%` begins no value", _RENDER_FIRST, (it.line, it.column - 1), width=2)
    if it.text.startswith("```"):
        return it.report("a Markdown fence is not YAML", "remove the line", width=3)
    shown = "a backtick" if it.character == "`" else f"`{it.character}`"
    return it.report(f"{shown} cannot begin a value", "quote the text")


def _no_name(it: Complaint) -> Diagnostic | None:
    sign = it.text[: it.column][-1:]
    if it.what != "did not find expected alphabetic or numeric character" or sign not in ("&", "*"):
        return None
    return it.report(f"a name is missing after `{sign}`", "quote the text", (it.line, it.column - 1))


def _tag(it: Complaint) -> Diagnostic | None:
    at = it.context if it.opening == "!" else (it.line, it.column) if it.character == "!" else None
    found = _TAG.match(it.lines[at[0]], at[1]) if at is not None else None
    if at is None or found is None or it.what not in _OF_TAGS:
        return None
    help = "remove the tag; quote a text that begins with `!`"
    return error("tag-refused", "tags are not read from manifests", it.span(at, len(found[0])), help=help)


def _directive(it: Complaint) -> Diagnostic | None:
    if it.text.startswith("%"):
        message = "a line that begins with `%` is a directive, but not this one"
        return it.report(message, "remove it, or quote the text", (it.line, 0), width=len(it.text.split()[0]))
    if it.what == NO_DOCUMENT_START and not it.text.strip() and it.above >= 0:
        message, help = READABLE[it.what]
        return it.report(message, help, (it.above, 0), width=len(it.lines[it.above].rstrip()))
    return None


def _missing_colon(it: Complaint) -> Diagnostic | None:
    if it.what == NO_COLON and it.context is not None:
        return _without_colon(it, *it.context)
    if it.what != STRAY_COLON or it.character != ":":
        return None
    key = it.text[: it.column]
    if ": " in key or not key.strip():
        return None
    if len(key.strip()) > _LONGEST_KEY:
        start = len(key) - len(key.lstrip())
        return it.report(f"a key has at most {_LONGEST_KEY:,} characters", at=(it.line, start))
    above = it.lines[it.above] if it.above >= 0 else ""
    start, before = len(key) - len(key.lstrip()), len(above) - len(above.lstrip())
    if re.search(r":(\s|$)", above):
        deeper = start > before and not above.rstrip().endswith(":")
        return _too_deep(it, start, before) if deeper else None
    return _without_colon(it, it.above, before) if above else None


def _too_deep(it: Complaint, column: int, above: int) -> Diagnostic:
    return it.report(
        f"the line is indented by {column}, but the one above, by {above}, has its value already",
        "indent the two alike",
        (it.line, column),
        width=it.column - column,
    )


def _without_colon(it: Complaint, line: int, column: int) -> Diagnostic:
    """A line starts a key and has no colon. It may hold a secret, so the message does not repeat it."""
    text = it.lines[line][column:].rstrip()
    width = len(text) or 1
    if re.fullmatch(r"--|----+", text):
        return it.report("three hyphens separate two documents", "write `---`", (line, column), width=width)
    if re.match(r"-[^\s-]", text):
        return it.report("a space is missing after `-`", at=(line, column))
    if found := _PAIR.match(text):
        instead = "write a space after it" if found[1] == ":" else "write `: ` instead"
        return it.report("a key ends with `:` and a space", instead, (line, column + found.start(1)))
    return it.report("a `:` is missing after this key", lookalike(text), (line, column), width=width)


def _no_key(it: Complaint) -> Diagnostic | None:
    if it.what not in (NO_KEY, NO_HYPHEN):
        return None
    before = it.text[: it.column].rstrip()
    if before[-1:] in _ESCAPED and before.count(before[-1]) > 1:
        help = f"quote the whole value; a quote inside is written `{_ESCAPED[before[-1]]}`"
        return it.report("text follows a quoted text", help)
    if it.character in ("]", "}"):
        return it.report(f"`{it.character}` closes nothing", "remove it")
    if it.character == ":":
        return it.report("a key is missing before the `:`", "")
    if it.text[: it.column].strip(" ") or it.context is None:
        return None
    if it.column == it.context[1]:
        if it.what == NO_HYPHEN:
            return it.report("there is a key among the items of a list", "put `- ` before it, or indent it")
        if re.match(r"-(\s|$)", it.text[it.column :]):
            return it.report("there is a list item among keys", "indent it below its own key")
        return None
    indentation = f"{it.column} space{'' if it.column == 1 else 's'}"
    return it.report(
        f"the line is indented by {indentation}, like none that it could belong to",
        "indent it like the lines beside it",
    )


_RECOGNISED: tuple[Callable[[Complaint], Diagnostic | None], ...] = (
    _tab,
    _merge_conflict,
    _open_quote,
    _open_bracket,
    _no_token,
    _no_name,
    _tag,
    _directive,
    _missing_colon,
    _no_key,
)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
