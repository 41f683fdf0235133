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
_TOGETHER_S = 1.0  # TERM and HUP come together when a service is stopped, and are one wish

_came: list[tuple[int, float]] = []  # the first signal of this process and when, once it came


class Interrupted(BaseException):
    """A signal came before anything was under way, or where all that was is undone."""

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
    """The exit code: a signal wins, also one that came when everything was over."""
    return 128 + _came[0][0] if _came else otherwise


def look() -> None:
    """Raise Interrupted if a signal came: to be called before something begins that waits."""
    if _came:
        raise Interrupted(_came[0][0])


def listening(url: str) -> None:
    """Say where a server that handles signals itself listens. Raises Interrupted if one came before."""
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
    """While only a person, a stream or a program of the person is waited for: signals end it at once.

    The event loop does not run, and would not see them. One that comes just before the answer is read
    does not interrupt the reading: the next alarm does. So it is where `input` passed over the exception,
    as it does while it flushes the streams.
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
    """What a person at the terminal answers; the end of input (Ctrl-D) means no. Raises Interrupted."""
    with blocking():
        try:
            return click.confirm(question, err=True)
        except click.Abort:
            click.echo(err=True)  # the answer's line has no end yet
            return False
