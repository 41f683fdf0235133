"""Diagnostics as text with the source line and a caret."""

from collections.abc import Callable, Iterable, Sequence

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, Severity, Span
from reconciler.reports.escape import columns_of, visible

_WIDEST = 100  # columns of a source line
_BEFORE_CARET = 40  # columns kept before the caret of a clipped line
NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
_HIDDEN = "(not shown: it may hold a secret)"


def render(diagnostics: Iterable[Diagnostic], read_line: Callable[[str, int], str | None]) -> str:
    """Return all diagnostics in their order, with an empty line between two.

    `read_line(file, number)` gives a source line, or None when there is none to show. Control and unseen
    characters of names, values and source lines become visible.
    """
    return "\n".join(f"{_render(item, read_line)}\n" for item in diagnostics)


def pointer(diagnostics: Sequence[Diagnostic]) -> str:
    """One line that names the page about the gravest of `diagnostics`."""
    gravest = min(diagnostics, key=lambda item: list(Severity).index(item.severity))
    return f"more about this {NOUNS[gravest.severity]}: {command('explain', gravest.code)}\n"


def _render(item: Diagnostic, read_line: Callable[[str, int], str | None]) -> str:
    lines = [f"{item.severity}[{item.code}]: {visible(item.message)}"]
    margin = " "
    notes = [*item.notes]
    if item.span is not None:
        span = item.span
        margin = " " * (len(str(span.line)) + 2)
        lines.append(f"{margin[1:]}--> {visible(span.file)}:{span.line}:{span.column}")
        source = None if item.hidden else read_line(span.file, span.line)
        if source is not None:
            text, caret = _excerpt(_shown_part(source, item.shown_to), span)
            lines += [f" {span.line} | {text}".rstrip(), f"{margin}| {caret} {visible(item.label)}".rstrip()]
        else:
            if item.hidden:
                lines.append(f" {span.line} | {_HIDDEN}")
            notes[:0] = [item.label] if item.label else []
    for name, texts in (("note", notes), ("help", [item.help] if item.help else [])):
        for text in texts:
            first, *rest = text.split("\n")
            lines.append(f"{margin}= {name}: {visible(first)}")
            lines += (f"{margin}        {visible(line)}" for line in rest)
    return "\n".join(lines)


def _shown_part(source: str, shown_to: int) -> str:
    """The line up to `shown_to`, with the `:` of a key that ends there; 0: all of it."""
    if not shown_to or not source[shown_to:].strip(" :"):
        return source
    return f"{source[:shown_to]}{':' if source[shown_to] == ':' else ''} …"


def _excerpt(source: str, span: Span) -> tuple[str, str]:
    """The source line, clipped around the span when long, and the caret line below it."""
    start = min(span.column - 1, len(source))
    before = visible(source[:start])
    marked = visible(source[start : start + span.width])
    after = visible(source[start + span.width :])
    if columns_of(before + marked + after) > _WIDEST:
        before = _clipped(before, _BEFORE_CARET, left=True)
        marked = _clipped(marked, _WIDEST - _BEFORE_CARET)
        after = _clipped(after, max(1, _WIDEST - columns_of(before + marked)))
    caret = " " * columns_of(before) + "^" * max(1, columns_of(marked))
    return before + marked + after, caret


def _clipped(text: str, columns: int, *, left: bool = False) -> str:
    """The beginning of `text`, or its end (`left`), in at most `columns`."""
    if columns_of(text) <= columns:
        return text
    while (over := columns_of(text) - columns) >= 0:
        less = max(1, over // 2)
        text = text[less:] if left else text[:-less]
    return f"…{text}" if left else f"{text}…"
