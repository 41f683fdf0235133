"""The result of one check of `doctor`, and the page of all of them: one line a check."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.advice import Command, RunOptions, commands_in, spell
from reconciler.core.context import Context
from reconciler.core.errors import Diagnosed, ReconcilerError
from reconciler.core.words import counted
from reconciler.reports.escape import visible
from reconciler.reports.fragments import CommandJson
from reconciler.reports.report import Page


class Outcome(StrEnum):
    """The three verdicts. A warning is something to know; nothing is refused because of it."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(Struct, frozen=True):
    """`name`: the thing that was checked. `help`: the way out, with the commands in `advice`."""

    name: str
    outcome: Outcome
    message: str
    help: str = ""
    advice: tuple[Command, ...] = ()


def fine(name: str, message: str) -> Check:
    """A check without a finding."""
    return Check(name, Outcome.OK, message)


def suspicious(name: str, message: str, help: str = "", *advice: Command) -> Check:
    """A warning."""
    return Check(name, Outcome.WARNING, message, help, advice)


def wrong(name: str, message: str, help: str = "", *advice: Command) -> Check:
    """A problem."""
    return Check(name, Outcome.PROBLEM, message, help, advice)


def failed(name: str, failure: ReconcilerError) -> Check:
    """The problem of an error that ended the check: its first diagnostic, else its own message."""
    first = next(iter(failure.diagnostics), None) if isinstance(failure, Diagnosed) else None
    if first is not None:
        return wrong(name, first.message, first.help, *first.advice)
    return wrong(name, failure.message, failure.help, *failure.advice)


def has_problems(checks: Iterable[Check]) -> bool:
    """Whether any of the checks found a problem."""
    return any(check.outcome is Outcome.PROBLEM for check in checks)


# --- as a page ---


def checkup_page(checks: Sequence[Check], context: Context, run: RunOptions) -> Page:
    checks = [replace(check, advice=(*check.advice, *commands_in(check.message))) for check in checks]
    lines = [*(line for check in checks for line in _lines(check, run)), "", _verdict(checks)]
    return Page(
        document={"checks": [_document(check, run) for check in checks]},
        text="".join(f"{line}\n" for line in lines),
        context=context,
    )


def _lines(check: Check, run: RunOptions) -> Iterator[str]:
    yield f"{check.outcome:<8} {check.name}: {visible(spell(check.message, check.advice, run))}"
    if check.help:
        yield f"         = help: {visible(spell(check.help, check.advice, run))}"


def _verdict(checks: Sequence[Check]) -> str:
    outcomes = Counter(check.outcome for check in checks)
    problems, warnings = outcomes[Outcome.PROBLEM], outcomes[Outcome.WARNING]
    return f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}."


def _document(check: Check, run: RunOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": check.name,
        "outcome": check.outcome.value,
        "message": spell(check.message, check.advice, run),
    }
    found |= {"help": spell(check.help, check.advice, run)} if check.help else {}
    return found | {"advice": CommandJson.all_of(command.with_options(run) for command in check.advice)}
