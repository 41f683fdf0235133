"""Progress on stderr: a live line on a terminal, plain lines elsewhere. Names are never cut."""

import logging
import os
import sys
from typing import TYPE_CHECKING

import click

from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Step
from reconciler.reports.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {"done": "✓", "pending": "…", "unknown": "?", "failed": "✗", "skipped": "-"}
_PLAIN_MARKS = {outcome: f"{outcome}:" for outcome in _MARKS}
_COLOURS = {"done": "green", "pending": "yellow", "unknown": "magenta", "failed": "red", "skipped": "yellow"}
_SPINNER = "⠋"  # one of those that rich turns
_WAITING_EVERY_S = 10.0  # how often a plain log repeats that something is still being waited for


def make_reporter() -> Reporter:
    """For a terminal, for a log of CI or cron, or (with --verbose) structured events."""
    if logging.getLogger("reconciler").isEnabledFor(logging.INFO):
        from reconciler.cli.logs import LogReporter

        return LogReporter()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveReporter()
    return PlainReporter()


def _says_more(detail: str, step: Step) -> bool:
    """A secret's id is its name, which the step's id holds already."""
    return detail not in ("", step.address.name)


def _can_show(encoding: str) -> bool:
    """Whether text of `encoding` can hold our marks, and the spinner's."""
    try:
        "".join([*_MARKS.values(), _SPINNER]).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


class PlainReporter(Reporter):
    """One line an event, for logs of CI and cron."""

    def __init__(self) -> None:
        self._last_waited: dict[str, float] = {}

    def note(self, message: str) -> None:
        self._line(message)

    def step_started(self, step: Step) -> None:
        self._line(f"{step.id}: {step.call.method} {step.call.path}")

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        if waited_s - self._last_waited.get(step.id, 0.0) >= _WAITING_EVERY_S:
            self._last_waited[step.id] = waited_s
            self._line(f"{step.id}: still {seen} after {waited_s:.0f} s")

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        said = f" ({detail})" if _says_more(detail, step) else ""
        self._line(f"{step.id}: {outcome} after {elapsed_s:.1f} s{said}")

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        self._line(f"{step.id}: refused with 429, tried again in {wait_s:.0f} s")

    def settling(self, address: Address, wait_s: float) -> None:
        self._line(f"{address}: the outcome of a call is unknown; looking for evidence for {wait_s:.0f} s")

    def _line(self, text: str) -> None:
        click.echo(visible(text), err=True)


class LiveReporter(Reporter):
    """Finished steps scroll by; one last line shows what is under way."""

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = console or Console(
            stderr=True,
            soft_wrap=True,
            highlight=False,
            markup=False,
            # By itself, rich keeps dim and bold under NO_COLOR.
            color_system=None if os.environ.get("NO_COLOR") else "auto",
        )
        self._marks = _MARKS if _can_show(self._console.encoding) else _PLAIN_MARKS
        spinner = "dots" if self._marks is _MARKS else "line"
        self._status = Status("", console=self._console, spinner=spinner)
        self._running: dict[str, str] = {}

    def observing(self, done: int, total: int) -> None:
        if done == total:
            self._show("")
        elif total > 1:
            self._show(f"reading the platform: {done} of {total}")

    def note(self, message: str) -> None:
        self._console.print(visible(message), style="dim")

    def step_started(self, step: Step) -> None:
        self._running[step.id] = ""
        self._show_running()

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        self._running[step.id] = f" ({visible(seen)}, {waited_s:.0f} s)"
        self._show_running()

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        self._running.pop(step.id, None)
        said = f"  {detail}" if _says_more(detail, step) else ""
        text = f"{self._marks[outcome]} {step.id} {elapsed_s:.1f} s{said}"
        self._console.print(visible(text), style=_COLOURS[outcome])
        self._show_running()

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        self._running[step.id] = f" (429, again in {wait_s:.0f} s)"
        self._show_running()

    def settling(self, address: Address, wait_s: float) -> None:
        self._console.print(f"? {address}: looking for evidence for {wait_s:.0f} s", style="magenta")

    def _show_running(self) -> None:
        first = next(iter(self._running.items()), None)
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        self._show(f"{first[0]}{first[1]}{more}" if first else "")

    def _show(self, text: str) -> None:
        from rich.padding import Padding
        from rich.text import Text

        if text:
            # A bare Text would be joined with the spinner's, losing what says that it wraps.
            self._status.update(Padding(Text(text, no_wrap=False, overflow="fold"), 0))
            self._status.start()
        else:
            self._status.stop()
