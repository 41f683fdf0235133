"""The page of `reconcile doctor`: one line a check, and the commands to type."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.advice import RunOptions, commands_in, spell
from reconciler.core.context import Context
from reconciler.core.words import counted
from reconciler.doctor.check import Check, Outcome
from reconciler.reports.escape import visible
from reconciler.reports.fragments import CommandJson
from reconciler.reports.report import Page


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
