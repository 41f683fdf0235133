"""Progress on stderr, one line an event: for logs of CI and cron."""

import click

from reconciler.cli.options import of_this_run
from reconciler.core.advice import commands_in, spell
from reconciler.core.errors import Locked, named
from reconciler.core.model import Address
from reconciler.core.reporter import TELL_EVERY_S, Reporter
from reconciler.core.steps import Step
from reconciler.reports.escape import visible


def limited(action: str, left: int, total: int) -> str:
    return f"waiting for the limit of {action}: {left} of {total} left"


def says_more(detail: str, step: Step) -> bool:
    """A secret's id is its name, which the step's id holds already."""
    return detail not in ("", step.address.name)


def spelled(message: str) -> str:
    return spell(message, commands_in(message), of_this_run())


class PlainReporter(Reporter):
    """One line an event, for logs of CI and cron."""

    def __init__(self) -> None:
        self._last_waited: dict[str, float] = {}
        self._last_read_s = 0.0
        self._last_limited_s = 0.0

    def observing(self, done: int, total: int, waited_s: float) -> None:
        if waited_s < self._last_read_s:
            self._last_read_s = 0.0  # other reads
        if waited_s - self._last_read_s >= TELL_EVERY_S:
            self._last_read_s = waited_s
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
        if waited_s < self._last_limited_s:
            self._last_limited_s = 0.0  # another wait
        if left and waited_s - self._last_limited_s >= TELL_EVERY_S:
            self._last_limited_s = waited_s
            self._line(limited(action, left, total))

    def step_started(self, step: Step) -> None:
        self._line(f"{step.id}: {step.call.method} {step.call.path}")

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        if waited_s - self._last_waited.get(step.id, 0.0) >= TELL_EVERY_S:
            self._last_waited[step.id] = waited_s
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
            what = "the outcome of a call is unknown; looking for evidence"
            self._line(f"{address}: {what} for {wait_s:.0f} s")

    def _line(self, text: str) -> None:
        click.echo(visible(text), err=True)
