"""Run checks against a provider from a test: time passes only where a check sleeps."""

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import anyio

from reconciler.core.clock import Clock
from reconciler.providers.check.bench import SignInSubject, Subject
from reconciler.providers.check.run import Report, run, selected
from tests.providers.check.reference import SIGNING, USER, WEBHOOK, Reference


@dataclass
class HastyClock:
    """The real time; sleeping takes none of it, and is counted. Other threads may wait for it."""

    slept_s: float = 0.0
    sleeps: int = 0
    _slept: threading.Condition = field(default_factory=threading.Condition)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() + self.slept_s

    async def sleep(self, seconds: float) -> None:
        with self._slept:
            self.slept_s += seconds
            self.sleeps += 1
            self._slept.notify_all()
        await anyio.lowlevel.checkpoint()

    def wait_for_another_sleep(self, sleeps: int) -> None:
        """Until somebody slept once more than `sleeps` times."""
        with self._slept:
            assert self._slept.wait_for(lambda: self.sleeps > sleeps, 60)


def subject_of(app: Reference, **changes: object) -> Subject:
    settings: dict[str, object] = {
        "base_url": app.url,
        "signing_secret": SIGNING,
        "webhook_secret": WEBHOOK,
        "costs_path": "/costs",
        "sign_in": SignInSubject(f"{app.url}/auth", USER),
        "slow_body_s": 15.0,
        **changes,
    }
    return Subject(**settings)  # type: ignore[arg-type]


def checked(subject: Subject, *patterns: str, clock: Clock | None = None) -> Report:
    """The report of the checks that match one of the patterns; of all, without any."""
    checks = [check for pattern in patterns or ("*",) for check in selected(pattern)]
    report = Report(subject.base_url)

    async def work() -> None:
        await run(
            subject,
            checks,
            report,
            clock=clock or HastyClock(),
            random=Random(5),
            begins=lambda _: None,
            ends=lambda _: None,
        )

    anyio.run(work)
    return report


def failed(report: Report) -> dict[str, str]:
    return {result.title: result.problem for result in report.results if result.outcome == "failed"}
