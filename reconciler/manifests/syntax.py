"""libyaml's complaints, in the words of somebody who writes manifests."""

import re
from collections.abc import Sequence

from yaml.error import MarkedYAMLError

from reconciler.diagnostics import Diagnostic, Span, error

_READABLE = {
    "found unknown escape character": (
        "unknown escape in double quotes",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    "mapping values are not allowed in this context": (
        "a `:` stands where no mapping can begin",
        "quote text that holds `: `; a nested mapping begins on its own line, indented",
    ),
    "could not find expected ':'": ("a `:` is missing after this key", ""),
    "did not find expected key": (
        "expected a key",
        "check the indentation; nothing may follow a quoted text on its line",
    ),
    "did not find expected '-' indicator": ("expected `-`", "indent all items of a list alike"),
    "did not find expected ',' or ']'": ("expected `,` or `]`", ""),
    "did not find expected ',' or '}'": ("expected `,` or `}`", ""),
    "did not find expected node content": ("expected a value", ""),
    "did not find expected <document start>": (
        "expected a new document",
        "check the indentation, or begin the document with `---`",
    ),
}
_AT_CONTEXT = frozenset({"could not find expected ':'"})
_OPENED = {"[": "list", "{": "mapping"}


def explain(problem: MarkedYAMLError, file: str, lines: Sequence[str]) -> Diagnostic:
    """The first syntax error of a file; what follows it cannot be read."""
    mark = problem.problem_mark or problem.context_mark
    if mark is None:
        return error("yaml-syntax", _lower(str(problem.problem or problem)), Span(file, 1, 1, 1))
    line, column = mark.line, mark.column
    text = lines[line] if line < len(lines) else ""
    indentation = re.match(r"[ \t]*", text)
    if indentation and "\t" in indentation[0] and column <= indentation.end():
        tab = text.index("\t")
        return error(
            "tab-indentation", "a tab cannot indent YAML", _span(file, line, tab), help="indent with spaces"
        )
    context = problem.context_mark
    opening = _character(lines, context.line, context.column) if context else ""
    what = str(problem.problem or problem)
    if context and opening in ('"', "'") and what.startswith("found unexpected"):
        return error(
            "yaml-syntax",
            "the quoted text is never closed",
            _span(file, context.line, context.column),
            label="opened here",
        )
    if context and opening in _OPENED and not any(lines[line:]):
        return error(
            "yaml-syntax",
            f"the {_OPENED[opening]} is never closed",
            _span(file, context.line, context.column),
            label="opened here",
        )
    if what == "found character that cannot start any token":
        return error(
            "yaml-syntax",
            f"`{_character(lines, line, column)}` cannot begin a value",
            _span(file, line, column),
            help="quote the text",
        )
    message, help = _READABLE.get(what, (_lower(what), ""))
    if context and what in _AT_CONTEXT:
        line, column = context.line, context.column
    notes: tuple[str, ...] = ()
    if context and opening in _OPENED:
        notes = (f"the {_OPENED[opening]} begins at {file}:{context.line + 1}:{context.column + 1}",)
    if line >= len(lines):  # libyaml ends a text without a final line break on the line after it
        line, column = len(lines) - 1, len(lines[-1])
    return error("yaml-syntax", message, _span(file, line, column), notes=notes, help=help)


def _character(lines: Sequence[str], line: int, column: int) -> str:
    return lines[line][column : column + 1] if line < len(lines) else ""


def _span(file: str, line: int, column: int) -> Span:
    return Span(file, line + 1, column + 1, column + 2)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
