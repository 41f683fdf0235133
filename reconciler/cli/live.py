"""Progress on a terminal, by rich: finished steps scroll by, one last line shows the running ones.

Names are never cut.
"""

import os
import time
from collections.abc import Callable

from msgspec import Struct
from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.text import Text

from reconciler.cli.progress import limited, says_more, spelled
from reconciler.core.errors import Locked, named
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Step
from reconciler.reports.escape import visible

_MARKS = {"done": "✓", "pending": "…", "unknown": "?", "failed": "✗", "skipped": "-"}
_PLAIN_MARKS = {outcome: f"{outcome}:" for outcome in _MARKS}
_COLOURS = {"done": "green", "pending": "yellow", "unknown": "magenta", "failed": "red", "skipped": "yellow"}
_SPINNER = "⠋"  # one of those that rich turns


class _Count(Struct, frozen=True):
    """A text with seconds that count by themselves: `from_s` at the time `at_s`, then up, or `down`."""

    before: str
    after: str
    from_s: float
    at_s: float
    down: bool = False

    def at(self, now_s: float) -> str:
        passed_s = now_s - self.at_s
        seconds = max(0.0, self.from_s - passed_s) if self.down else self.from_s + passed_s
        return f"{self.before}{seconds:.0f} s{self.after}"


class LiveReporter(Reporter):
    """Prints finished steps, and redraws one last line about running steps and waits."""

    def __init__(
        self, console: Console | None = None, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(
            stderr=True,
            soft_wrap=True,
            highlight=False,
            markup=False,
            # By itself, rich keeps dim and bold under NO_COLOR.
            color_system=None if os.environ.get("NO_COLOR") else "auto",
        )
        self._marks = _MARKS
        try:
            "".join([*_MARKS.values(), _SPINNER]).encode(self._console.encoding)
        except UnicodeEncodeError:
            self._marks = _PLAIN_MARKS
        spinner = "dots" if self._marks is _MARKS else "line"
        self._status = Status("", console=self._console, spinner=spinner)
        self._now_s = now_s
        self._running: dict[str, _Count | None] = {}  # by step, address or lock
        self._reading: _Count | None = None
        self._limited = ""

    def observing(self, done: int, total: int, waited_s: float) -> None:
        text = f"reading the platform: {done} of {total} ("
        self._reading = _Count(text, ")", waited_s, self._now_s()) if done < total and total > 1 else None
        self._show()

    def note(self, message: str) -> None:
        self._console.print(visible(spelled(message)), style="dim")

    def waiting_for_lock(self, held: Locked, left_s: float) -> None:
        about = f"waiting for the lock of {visible(named(held.scope))}"
        self._running.pop(about, None)
        if left_s:
            who = f" ({visible(held.holder)} has held it for "
            self._running[about] = _Count(who, ")", held.age_s, self._now_s())
        self._show()

    def waiting_for_limit(self, action: str, left: int, total: int, waited_s: float) -> None:
        self._limited = visible(limited(action, left, total)) if left else ""
        self._show()

    def step_started(self, step: Step) -> None:
        self._running[step.id] = None
        self._show()

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        self._running[step.id] = _Count(f" ({visible(seen)}, ", ")", waited_s, self._now_s())
        self._show()

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        said = f"  {detail}" if says_more(detail, step) else ""
        text = f"{self._marks[outcome]} {step.id} {elapsed_s:.1f} s{said}"
        self._console.print(visible(text), style=_COLOURS[outcome])
        self._running.pop(step.id, None)
        self._show()

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        self._count_down(step.id, "refused with 429, again in", wait_s)

    def sent_again(self, step: Step, wait_s: float) -> None:
        self._count_down(step.id, "its answer was lost, sent again in", wait_s)

    def settling(self, address: Address, wait_s: float) -> None:
        if wait_s:
            self._count_down(str(address), "its outcome is unknown; its object may appear within", wait_s)
        else:
            self._running.pop(str(address), None)
            self._show()

    def _count_down(self, about: str, why: str, wait_s: float) -> None:
        self._running.pop(about, None)
        count = _Count(f" ({why} ", ")", wait_s, self._now_s(), down=True)
        self._running = {about: count, **self._running}  # the line begins with what waits
        self._show()

    def __rich__(self) -> Text:
        """The last line as of now. rich calls this several times a second, in its own thread."""
        now_s, running = self._now_s(), list(self._running.items())
        lines = [about + (count.at(now_s) if count else "") for about, count in running]
        more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
        text = f"{lines[0]}{more}" if lines else self._reading.at(now_s) if self._reading else ""
        text = "; ".join(filter(None, (text, self._limited)))
        return Text(text, no_wrap=False, overflow="fold")

    def _show(self) -> None:
        if self._running or self._reading or self._limited:
            # A bare Text would be joined with the spinner's, losing what says that it wraps.
            self._status.update(Padding(self, 0))
            self._status.start()
        else:
            self._status.stop()
