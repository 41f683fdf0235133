"""What `reconcile doctor` found, as a page: one line a check, and what to type."""

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
    checks = [replace(each, advice=(*each.advice, *commands_in(each.message))) for each in checks]
    lines = [*(line for check in checks for line in _lines(check, run)), "", _verdict(checks)]
    return Page(
        document={"checks": [_document(each, run) for each in checks]},
        text="".join(f"{line}\n" for line in lines),
        context=context,
    )


def _lines(check: Check, run: RunOptions) -> Iterator[str]:
    yield f"{check.outcome:<8} {check.name}: {visible(spell(check.message, check.advice, run))}"
    if check.help:
        yield f"         = help: {visible(spell(check.help, check.advice, run))}"


def _verdict(checks: Sequence[Check]) -> str:
    problems = sum(each.outcome is Outcome.PROBLEM for each in checks)
    warnings = sum(each.outcome is Outcome.WARNING for each in checks)
    counts = [counted(number, noun) for number, noun in ((problems, "problem"), (warnings, "warning"))]
    return f"{', '.join(counts)}."


def _document(check: Check, run: RunOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": check.name,
        "outcome": check.outcome.value,
        "message": spell(check.message, check.advice, run),
    }
    found |= {"help": spell(check.help, check.advice, run)} if check.help else {}
    return found | {"advice": CommandJson.all_of(each.with_options(run) for each in check.advice)}
