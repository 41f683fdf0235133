"""INT, TERM and HUP: the first lets calls under way end, the second ends the process at once.

A handler only notes the signal: an exception from it could be dropped by a callback, such as one of a
regular expression, and the signal with it. The event loop acts on a noted signal, and `look` does.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_ALARM_S = 0.5
_TOGETHER_S = 1.0  # a service manager sends TERM and HUP together: that counts as one signal

_came: list[tuple[int, float]] = []  # the first signal of this process and when, once it came


class Interrupted(BaseException):
    """A signal came before any call was sent, or after all of them were undone."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def until_interrupted(work: Callable[[], int]) -> int:
    """The exit code that `work` returns, or that of the signal that came meanwhile."""
    try:
        with noted():
            return signalled(work())
    except Interrupted as interrupted:
        click.echo("interrupted", err=True)
        return interrupted.code
    finally:
        _came.clear()


def signalled(otherwise: int) -> int:
    """The exit code. A signal wins, even one that came after the work."""
    return 128 + _came[0][0] if _came else otherwise


def forget() -> None:
    """The signal ended a service, as it should: the exit code does not show it."""
    _came.clear()


def look() -> None:
    """Raise Interrupted if a signal came. To be called before anything that waits."""
    if _came:
        raise Interrupted(_came[0][0])


def listening(url: str) -> None:
    """Print the address of a server that handles signals itself. Raises Interrupted if one came before."""
    look()
    click.echo(f"listening on {url}")


@contextmanager
def noted(act: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Note the first signal and call `act`. HUP stays ignored where `nohup` has it so."""

    def note(number: int, frame: object) -> None:
        if not _came:
            _came.append((number, time.monotonic()))
            act()
        elif number == _came[0][0] or time.monotonic() > _came[0][1] + _TOGETHER_S:
            os._exit(128 + number)

    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    previous = {number: signal.signal(number, note) for number in ending}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


@contextmanager
def blocking() -> Iterator[None]:
    """Let signals end the block at once, while it waits for a person, a stream or the person's program.

    The event loop does not run then, and would not see them. A signal just before the read does not
    interrupt it, and `input` drops exceptions while it flushes the streams: the next alarm ends both.
    """
    before = signal.signal(signal.SIGALRM, lambda number, frame: look())
    signal.setitimer(signal.ITIMER_REAL, _ALARM_S, _ALARM_S)
    try:
        with noted(look):
            look()
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def confirmed(question: str) -> bool:
    """The answer of a person at the terminal; the end of input (Ctrl-D) means no. Raises Interrupted."""
    with blocking():
        try:
            return click.confirm(question, err=True)
        except click.Abort:
            click.echo(err=True)  # the answer's line has no end yet
            return False
