"""Standard streams that may be closed, full or without a reader.

stdout has the result, so losing it is a failure. stderr has progress and messages; losing them stops nothing.
"""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputLost(Exception):
    """Standard output cannot be written. Not an OSError, because libraries catch those."""


def open_streams() -> None:
    """Make the three standard streams usable however the process was started.

    Afterwards stdout raises OutputLost once, at the first write that fails, and stderr nothing.
    """
    _occupy_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as the process
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr, errors="backslashreplace")


def _occupy_descriptors() -> None:
    """Open /dev/null for closed streams, so that no file of ours gets their numbers.

    A closed stdout is opened for reading, so a write to it fails.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # gets the lowest number that is free


def _text(raw: io.FileIO, given: TextIO | None, errors: str = "strict") -> io.TextIOWrapper:
    """A stream over `raw` like the one that the interpreter made, if it made one."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=given.encoding if given is not None else "utf-8",
        errors=(given.errors if given is not None else None) or errors,
        line_buffering=True,
    )


class _Output(io.FileIO):
    """stdout: its first failed write raises OutputLost, later ones are ignored."""

    _lost = False

    def write(self, data: "ReadableBuffer", /) -> int:
        if self._lost:
            return memoryview(data).nbytes  # the interpreter flushes once more at its end
        try:
            return super().write(data)
        except OSError as failure:
            self._lost = True
            raise OutputLost(f"cannot write to standard output: {failure.strerror}") from failure


class _Messages(io.FileIO):
    """stderr: failed writes are ignored."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError:
            return memoryview(data).nbytes  # there is nowhere left to report it
