"""One file per format of a report: a module with a `FORMAT` is found here. There is no list to edit."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

from msgspec import Struct

from reconciler.reports.report import Failure, Report


def backslashed(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode()


RUNS = frozenset({"plan", "drift", "apply", "validate"})  # the reports that most formats show


class Format(Struct, frozen=True):
    """`shows`: the kinds of reports that `write` takes; a Failure is one that every format takes.

    `write` returns all of a report, ending with a newline. `escape` spells a character that standard output
    cannot show, so that the report stays one of this format. `in_parts`: for people who watch, so the plan is
    printed before it is approved, and diagnostics go to stderr. `step_summary`: what else the runner of a job
    shows as the summary of its step; None for nothing.
    """

    name: str
    shows: frozenset[str]
    write: Callable[[Report], str]
    escape: Callable[[str], str] = backslashed
    in_parts: bool = False
    step_summary: Callable[[Report], str] | None = None

    def render(self, report: Report) -> str:
        if not self.can_show(report.kind):
            raise TypeError(f"{self.name} shows no {report.kind}")
        return self.write(report)

    def printable(self, text: str, encoding: str) -> str:
        """`text` with what `encoding` does not have escaped."""
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return "".join(each if _has(encoding, each) else self.escape(each) for each in text)
        return text

    def can_show(self, kind: str) -> bool:
        return kind in self.shows or kind == Failure.kind


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@cache
def find_format(name: str) -> Format | None:
    """The format of the module `name`. The others are not imported: a command needs one or two of them."""
    if name not in {info.name for info in pkgutil.iter_modules(__path__)}:
        return None
    found = getattr(importlib.import_module(f"{__name__}.{name}"), "FORMAT", None)
    return found if isinstance(found, Format) else None


@cache
def find_formats() -> Mapping[str, Format]:
    """Every format by name: text, then the others in order of name."""
    found = [each for info in pkgutil.iter_modules(__path__) if (each := find_format(info.name)) is not None]
    return {each.name: each for each in sorted(found, key=lambda each: (not each.in_parts, each.name))}


def formats_for(kind: str) -> list[str]:
    """The names of the formats that can show reports of this kind."""
    return [name for name, each in find_formats().items() if each.can_show(kind)]
