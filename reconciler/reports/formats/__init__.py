"""One file per format of a report: a module with a `FORMAT` is found here. There is no list to edit."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

from msgspec import Struct

from reconciler.reports.report import Failure, Report


def backslashed(character: str) -> str:
    """An escape as in Python, such as `\\u202e`."""
    return character.encode("ascii", "backslashreplace").decode()


RUNS = frozenset({"plan", "drift", "apply", "validate"})  # the reports that most formats show


class Format(Struct, frozen=True):
    """How reports are written.

    `shows`: the kinds of reports that `write` takes; each format takes a Failure. `write` returns the whole
    report, which ends with a line break. `escape` spells a character that standard output cannot show, in a
    way that readers of the format understand. `in_parts`: for people who watch: the plan is printed before it
    is approved, and diagnostics go to stderr. `step_summary` returns the summary of a step, for the runner of
    a job; None: the format has none.
    """

    name: str
    shows: frozenset[str]
    write: Callable[[Report], str]
    escape: Callable[[str], str] = backslashed
    in_parts: bool = False
    step_summary: Callable[[Report], str] | None = None

    def render(self, report: Report) -> str:
        """Return the whole report. Raises TypeError for a kind that the format does not show."""
        if not self.can_show(report.kind):
            raise TypeError(f"{self.name} shows no {report.kind}")
        return self.write(report)

    def printable(self, text: str, encoding: str) -> str:
        """Return `text` with an escape for each character that `encoding` does not have."""
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return "".join(
                character if _has(encoding, character) else self.escape(character) for character in text
            )
        return text

    def can_show(self, kind: str) -> bool:
        """Whether `render` takes reports of this kind."""
        return kind in self.shows or kind == Failure.kind


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@cache
def find_format(name: str) -> Format | None:
    """Return the format of the module `name`. Others are not imported: a command needs one or two."""
    if name not in {info.name for info in pkgutil.iter_modules(__path__)}:
        return None
    found = getattr(importlib.import_module(f"{__name__}.{name}"), "FORMAT", None)
    return found if isinstance(found, Format) else None


@cache
def find_formats() -> Mapping[str, Format]:
    """Return every format by name: text, then the others in order of name."""
    found = [find_format(info.name) for info in pkgutil.iter_modules(__path__)]
    formats = [format for format in found if format is not None]
    in_order = sorted(formats, key=lambda known: (not known.in_parts, known.name))
    return {format.name: format for format in in_order}


def formats_for(kind: str) -> list[str]:
    """The names of the formats that can show reports of this kind."""
    return [name for name, format in find_formats().items() if format.can_show(kind)]
