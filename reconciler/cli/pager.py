"""Reports on standard output: for a terminal in colour, wrapped and through a pager, else as plain text."""

import os
import shutil
import signal
import subprocess
import sys

import click

from reconciler.cli.command_line import command_line
from reconciler.cli.signals import blocking
from reconciler.reports.escape import columns_of
from reconciler.reports.style import PLAIN, Style

# As with git: less passes colours on, leaves the text on the screen, and ends by itself where all of it fits.
_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
_NOT_RUN = (126, 127)  # what a shell ends with when a program is not there, or is none


def style_here() -> Style:
    """How a report for standard output looks."""
    if not sys.stdout.isatty():
        return PLAIN
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(shutil.get_terminal_size().columns, colour)


def output_encoding() -> str:
    return sys.stdout.encoding or "utf-8"  # a stream that a program put in its place may name none


def echo_report(text: str, *, paged: bool = False) -> None:
    """Print `text`. `paged`: on a terminal, through the pager where it is longer than the screen."""
    fits = not paged or not sys.stdout.isatty() or not _longer_than_screen(text)
    if fits or not _page(_pager(), text.encode(output_encoding())):
        click.echo(text, nl=False)


def _pager() -> str:
    """The shell command of the pager; empty for none."""
    if command_line().no_pager or os.environ.get("TERM") == "dumb":
        return ""
    for name in ("RECONCILE_PAGER", "PAGER"):
        if name in os.environ:
            command = os.environ[name].strip()
            return "" if command == "cat" else command
    return "less" if shutil.which("less") else ""


def _longer_than_screen(text: str) -> bool:
    size = shutil.get_terminal_size()
    lines = map(columns_of, click.unstyle(text).splitlines())
    return sum(max(1, -(-columns // size.columns)) for columns in lines) >= size.lines


def _page(command: str, data: bytes) -> bool:
    """Returns whether a pager ran. Ctrl-C is for the pager alone; a signal that ends us ends it too."""
    if not command:
        return False
    with blocking():
        previous = signal.signal(signal.SIGINT, lambda number, frame: None)  # not SIG_IGN: that is inherited
        try:
            with subprocess.Popen(  # noqa: S603 - the person's own pager, as they spell it
                ["/bin/sh", "-c", command], stdin=subprocess.PIPE, env={**_DEFAULTS, **os.environ}
            ) as pager:
                try:
                    pager.communicate(data)
                except BaseException:
                    pager.terminate()
                    raise
        except OSError:
            return False
        finally:
            signal.signal(signal.SIGINT, previous)
    return pager.returncode not in _NOT_RUN
