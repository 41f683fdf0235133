"""The result of one check of `doctor`."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from reconciler.core.advice import Command
from reconciler.core.errors import Diagnosed, ReconcilerError


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
