"""Progress on stderr, one event a line: sentences for logs of CI, structured events with --verbose."""

import logging
import sys
from typing import Any

import click

from reconciler.cli.command_line import of_this_run
from reconciler.core.advice import commands_in, spell
from reconciler.core.errors import Locked, named
from reconciler.core.model import Address
from reconciler.core.reporter import TELL_EVERY_S, Reporter
from reconciler.core.steps import Step
from reconciler.reports.escape import visible


def limited(action: str, left: int, total: int) -> str:
    """The sentence about requests that wait for the platform's rate limit."""
    return f"waiting for the limit of {action}: {left} of {total} left"


def says_more(detail: str, step: Step) -> bool:
    """Whether `detail` adds to the step's id. The id of a secret is its name, which the step's id has."""
    return detail not in ("", step.address.name)


def spelled(message: str) -> str:
    """`message` with this run's options in the commands that it advises."""
    return spell(message, commands_in(message), of_this_run())


class PlainReporter(Reporter):
    """Prints one sentence an event. What takes long is repeated every `TELL_EVERY_S` seconds."""

    def __init__(self) -> None:
        self._reported_at_s: dict[str, float] = {}  # when something was last reported, by what is waited for

    def observing(self, done: int, total: int, waited_s: float) -> None:
        if self._is_due("reads", waited_s):
            self._line(f"reading the platform: {done} of {total} after {waited_s:.0f} s")

    def note(self, message: str) -> None:
        self._line(spelled(message))

    def waiting_for_lock(self, held: Locked, left_s: float) -> None:
        if left_s:
            who = f"{held.holder} has held it for {held.age_s:.0f} s"
            self._line(
                f"waiting for the lock of {named(held.scope)}: {who}; this run waits {left_s:.0f} s more"
            )

    def waiting_for_limit(self, action: str, left: int, total: int, waited_s: float) -> None:
        if left and self._is_due("limit", waited_s):
            self._line(limited(action, left, total))

    def step_started(self, step: Step) -> None:
        self._line(f"{step.id}: {step.call.method} {step.call.path}")

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        if self._is_due(step.id, waited_s):
            self._line(f"{step.id}: still {seen} after {waited_s:.0f} s")

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        said = f" ({detail})" if says_more(detail, step) else ""
        self._line(f"{step.id}: {outcome} after {elapsed_s:.1f} s{said}")

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        self._line(f"{step.id}: refused with 429, tried again in {wait_s:.0f} s")

    def sent_again(self, step: Step, wait_s: float) -> None:
        self._line(f"{step.id}: its answer was lost, sent again in {wait_s:.0f} s")

    def settling(self, address: Address, wait_s: float) -> None:
        if wait_s:
            what = "the outcome of a call is unknown; its object may appear within"
            self._line(f"{address}: {what} {wait_s:.0f} s")

    def _is_due(self, what: str, waited_s: float) -> bool:
        """Whether to report `what` after `waited_s` seconds of waiting. A smaller number: a new wait."""
        reported_at_s = self._reported_at_s.get(what, 0.0)
        if waited_s < reported_at_s:
            reported_at_s = 0.0
        due = waited_s - reported_at_s >= TELL_EVERY_S
        self._reported_at_s[what] = waited_s if due else reported_at_s
        return due

    def _line(self, text: str) -> None:
        click.echo(visible(text), err=True)


class LogReporter(Reporter):
    """Emits structlog events: constant names with keys, for machines that read logs."""

    def __init__(self) -> None:
        import structlog  # only --verbose pays for it

        self._log: Any = structlog.get_logger("reconciler")

    def loading(self, files: int) -> None:
        self._log.info("manifests.loaded", files=files)

    def observing(self, done: int, total: int, waited_s: float) -> None:
        if done == total:
            self._log.info("platform.observed", reads=total)

    def note(self, message: str) -> None:
        self._log.info("note", message=message)

    def waiting_for_lock(self, held: Locked, left_s: float) -> None:
        times = {"age_s": round(held.age_s, 1), "left_s": round(left_s, 1)}
        self._log.info("lock.waiting", scope=held.scope, holder=held.holder, **times)

    def waiting_for_limit(self, action: str, left: int, total: int, waited_s: float) -> None:
        self._log.debug("limit.waiting", action=action, left=left, total=total, waited_s=round(waited_s, 1))

    def step_started(self, step: Step) -> None:
        self._log.info("step.started", step=step.id, method=step.call.method, path=str(step.call.path))

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        self._log.debug("step.waiting", step=step.id, seen=seen, waited_s=round(waited_s, 1))

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        self._log.info(f"step.{outcome}", step=step.id, elapsed_s=round(elapsed_s, 3), detail=detail)

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        self._log.info("step.rate_limited", step=step.id, wait_s=round(wait_s, 1))

    def sent_again(self, step: Step, wait_s: float) -> None:
        self._log.info("step.sent_again", step=step.id, wait_s=round(wait_s, 1))

    def settling(self, address: Address, wait_s: float) -> None:
        self._log.info("outcome.settling", address=str(address), wait_s=round(wait_s, 1))


def log_to_stderr(*, debug: bool) -> None:
    """Send structlog events to stderr: readable on a terminal, else JSON. Secrets are redacted by field."""
    import structlog

    from reconciler.secrets.redaction import redact_event

    level = logging.DEBUG if debug else logging.INFO
    logging.getLogger("reconciler").setLevel(level)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            redact_event,
            structlog.dev.ConsoleRenderer(colors=False)
            if sys.stderr.isatty()
            else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
