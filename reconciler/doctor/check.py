"""What one look at one thing found."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from reconciler.core.advice import Command


class Outcome(StrEnum):
    OK = "ok"
    WARNING = "warning"  # something that a person should know; nothing is refused because of it
    PROBLEM = "problem"


class Check(Struct, frozen=True):
    """`name`: what was looked at. `help`: the way out, with the commands in `advice`."""

    name: str
    outcome: Outcome
    message: str
    help: str = ""
    advice: tuple[Command, ...] = ()


def fine(name: str, message: str) -> Check:
    return Check(name, Outcome.OK, message)


def suspicious(name: str, message: str, help: str = "", *advice: Command) -> Check:
    return Check(name, Outcome.WARNING, message, help, advice)


def wrong(name: str, message: str, help: str = "", *advice: Command) -> Check:
    return Check(name, Outcome.PROBLEM, message, help, advice)


def has_problems(checks: Iterable[Check]) -> bool:
    return any(each.outcome is Outcome.PROBLEM for each in checks)
