"""One conformance run: the checks in their order, and in the end what was made is deleted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random
from typing import Literal

import anyio
from msgspec import Struct

from reconciler.core.clock import Clock
from reconciler.providers.check import bounds, calls, events, refusals, repeats, sign_in
from reconciler.providers.check.bench import CHECKS, GONE, Bench, Check, NotChecked, Shared, Unmet, path_of
from reconciler.providers.check.evidence import came, sent
from reconciler.providers.check.subject import Subject
from reconciler.services.transport import HttpTransport, Transport

# Importing these fills the table; the order of the run is the order here.
GROUPS = {
    "calls": calls,
    "repeats": repeats,
    "refusals": refusals,
    "events": events,
    "bounds": bounds,
    "sign-in": sign_in,
}
CLEAN_UP_S = 60.0

Outcome = Literal["passed", "failed", "not checked"]


class Result(Struct, frozen=True, omit_defaults=True):
    """`problem`: what is not met, or why it was not checked; `sent` and `came` without secrets."""

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
    """`left`: ids of what was made, or may have been, and could not be deleted."""

    url: str
    results: list[Result] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome == outcome for result in self.results)

    @property
    def passed(self) -> bool:
        """Whether nothing failed, and something was checked at all."""
        return not self.count("failed") and bool(self.count("passed")) and not self.left


def selected(pattern: str | None) -> Sequence[Check]:
    """The checks whose group or title matches the glob, in their order; all without one."""
    ordered = [each for group in GROUPS for each in CHECKS if each.group == group]
    if pattern is None:
        return ordered
    return [each for each in ordered if fnmatchcase(each.title, pattern) or fnmatchcase(each.group, pattern)]


async def run(
    subject: Subject,
    checks: Sequence[Check],
    report: Report,
    *,
    clock: Clock,
    random: Random,
    begins: Callable[[Check], None],
    ends: Callable[[Result], None],
    open_transport: Callable[[str], Transport] = HttpTransport,
) -> None:
    """Fill `report`, also when it is cancelled: created resources are still deleted.

    Raises ReconcilerError, before anything is sent, for an address that is not acceptable.
    """
    shared = Shared(subject, open_transport(subject.base_url), clock, random, open_transport)
    shared.values |= {subject.signing_secret.decode("utf-8", "replace")}
    if subject.webhook_secret:
        shared.values |= {subject.webhook_secret.decode("utf-8", "replace")}
    try:
        for each in checks:
            begins(each)
            result = await _result(each, Bench(shared))
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
        shown = [text(last, bench.shared.values) for text in (sent, came)] if last else ()
        return Result(check.group, check.name, outcome, check.demand, check.source, took_s, problem, *shown)

    try:
        await check.play(bench)
    except Unmet as unmet:
        return result("failed", str(unmet), evidence=True)
    except NotChecked as missing:
        return result("not checked", str(missing))
    return result("passed")


async def _clean_up(shared: Shared) -> None:
    """Delete what may be there, and strike from `pending` what is gone for certain."""
    for id in list(shared.pending):
        try:
            answer = await Bench(shared).call("DELETE", path_of(id))
        except Unmet:
            continue
        if answer.status in GONE or 200 <= answer.status < 300:
            del shared.pending[id]
