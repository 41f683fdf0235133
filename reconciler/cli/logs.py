"""structlog, to stderr: constant event names with keys, secrets redacted by field."""

import logging
import sys

import structlog

from reconciler.core.errors import Locked
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Step
from reconciler.secrets.redaction import redact_event


def log_to_stderr(*, debug: bool) -> None:
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


class LogReporter(Reporter):
    """Progress as events, for machines that read logs."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("reconciler")

    def loading(self, files: int) -> None:
        self._log.info("manifests.loaded", files=files)

    def observing(self, done: int, total: int, waited_s: float) -> None:
        if done == total:
            self._log.info("platform.observed", reads=total)

    def note(self, message: str) -> None:
        self._log.info("note", message=message)

    def waiting_for_lock(self, held: Locked, left_s: float) -> None:
        self._log.info(
            "lock.waiting",
            scope=held.scope,
            holder=held.holder,
            age_s=round(held.age_s, 1),
            left_s=round(left_s, 1),
        )

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
