"""One conformance run: the checks in their order; in the end, its resources are deleted.

A failed check does not end the run. Resources are deleted when the run is cut off, too; the report names
those that could not be deleted. Results as text, JSON and JUnit are without secrets and signatures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import BytesIO
from random import Random
from textwrap import indent
from typing import Any, Literal

import anyio
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.providers.check import calls, events, refusals, sign_in
from reconciler.providers.check.bench import (
    GONE,
    Bench,
    Check,
    NotChecked,
    Shared,
    Subject,
    Unmet,
    is_success,
    path_of,
)
from reconciler.providers.check.request import came, sent, without
from reconciler.services.transport import HttpTransport

# In the order of the run.
GROUPS = (calls.calls, calls.repeats, refusals.refusals, events.events, events.bounds, sign_in.sign_in)
CLEAN_UP_S = 60.0

Outcome = Literal["passed", "failed", "not checked"]


class Result(Struct, frozen=True, omit_defaults=True):
    """The result of one check. `problem`: what is not met, or why it was not checked.

    `sent` and `came` are the last request and answer, without secrets.
    """

    group: str
    name: str
    outcome: Outcome
    demand: str
    source: str
    took_s: float
    problem: str = ""
    sent: str = ""
    came: str = ""

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(slots=True)
class Report:
    """The results of a run. `left`: ids of resources that it made, or may have, and could not delete."""

    url: str
    results: list[Result] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        """How many results have this outcome."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def passed(self) -> bool:
        """Whether nothing failed, and something was checked at all."""
        return not self.count("failed") and bool(self.count("passed")) and not self.left


def selected(pattern: str | None) -> Sequence[Check]:
    """The checks whose group or title matches the glob, in their order; all without one."""
    wanted = "*" if pattern is None else pattern
    checks = [check for group in GROUPS for check in group.checks]
    return [check for check in checks if fnmatchcase(check.title, wanted) or fnmatchcase(check.group, wanted)]


async def run(
    subject: Subject,
    checks: Sequence[Check],
    report: Report,
    *,
    clock: Clock,
    random: Random,
    begins: Callable[[Check], None],
    ends: Callable[[Result], None],
) -> None:
    """Fill `report`, also when it is cancelled: created resources are still deleted.

    Raises ReconcilerError, before anything is sent, for an address that is not acceptable.
    """
    shared = Shared(subject, HttpTransport(subject.base_url), clock, random)
    secrets = (subject.signing_secret, subject.webhook_secret or b"")
    shared.values |= {secret.decode("utf-8", "replace") for secret in secrets}
    try:
        for check in checks:
            begins(check)
            result = await _result(check, Bench(shared))
            report.results.append(result)
            ends(result)
    finally:
        with anyio.move_on_after(CLEAN_UP_S, shield=True):
            await _clean_up(shared)
        report.left += [id for id, made in shared.pending.items() if made]
        await shared.transport.aclose()


async def _result(check: Check, bench: Bench) -> Result:
    began = bench.shared.clock.monotonic()

    def result(outcome: Outcome, problem: str = "", *, evidence: bool = False) -> Result:
        took_s = bench.shared.clock.monotonic() - began
        last = bench.trail[-1] if evidence and bench.trail else None
        values = bench.shared.values
        shown = [without(problem, values), *(text(last, values) for text in (sent, came) if last)]
        return Result(check.group, check.name, outcome, check.demand, check.source, took_s, *shown)

    try:
        await check.play(bench)
    except Unmet as unmet:
        return result("failed", str(unmet), evidence=True)
    except NotChecked as missing:
        return result("not checked", str(missing))
    return result("passed")


async def _clean_up(shared: Shared) -> None:
    """Delete all that may be there, and strike from `pending` all that is surely gone."""
    for id in list(shared.pending):
        try:
            answer = await Bench(shared).call("DELETE", path_of(id))
        except Unmet:
            continue
        if answer.status in GONE or is_success(answer):
            del shared.pending[id]


_MARKS = {"passed": "ok", "failed": "FAIL", "not checked": "--"}


def line(result: Result) -> str:
    """One result; a failure with what was sent, what came and what is demanded."""
    head = f"{_MARKS[result.outcome]:<4} {result.title}"
    if result.outcome == "not checked":
        return f"{head}\n       not checked: {result.problem}"
    if result.outcome == "passed":
        return head
    parts = [
        head,
        f"       {result.problem}",
        f"       required: {result.demand}",
        f"       source:   {result.source}",
    ]
    for name, text in (("sent:", result.sent), ("came:", result.came)):
        if text:
            parts += [f"       {name}", indent(text, "         ")]
    return "\n".join(parts)


def summary(report: Report) -> str:
    """How many checks passed, failed and were not checked, and which resources are left."""
    parts = [f"{report.count('passed')} passed", f"{report.count('failed')} failed"]
    skipped = report.count("not checked")
    if skipped:
        parts.append(f"{skipped} not checked")
    text = ", ".join(parts)
    if report.left:
        text += f"\nnot deleted: {', '.join(report.left)}"
    return text


def document(report: Report) -> dict[str, Any]:
    """The run as one JSON document."""
    return {
        "format_version": "1",
        "url": report.url,
        "checks": [to_builtins(replace(result, took_s=round(result.took_s, 3))) for result in report.results],
        "summary": {
            "passed": report.count("passed"),
            "failed": report.count("failed"),
            "not_checked": report.count("not checked"),
        },
        "not_deleted": report.left,
    }


def junit(report: Report) -> str:
    """JUnit XML: a suite for each group; what was not checked is a skipped case."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    xml = JUnitXml("reconcile provider check")
    for group in dict.fromkeys(result.group for result in report.results):
        suite = TestSuite(group)
        for result in report.results:
            if result.group != group:
                continue
            case = TestCase(result.name, f"provider.{group}", result.took_s)
            if result.outcome == "failed":
                failure = Failure(_printable(result.problem), "unmet")
                failure.text = _printable(line(result))
                case.result = [failure]
            elif result.outcome == "not checked":
                case.result = [Skipped(_printable(result.problem), "not checked")]
            suite.add_testcase(case)
        xml.add_testsuite(suite)
    written = BytesIO()
    xml.write(written, pretty=True)
    return written.getvalue().decode("utf-8")


def _printable(text: str) -> str:
    """XML has no control characters."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
