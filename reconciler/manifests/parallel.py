"""A second process for half of the work, where there is enough of it to pay for the fork."""

import os
import pickle
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def can_fork() -> bool:
    """A process with threads must not fork, and one core gains nothing."""
    return hasattr(os, "fork") and threading.active_count() == 1 and (os.cpu_count() or 1) > 1


def in_second_process(work: Callable[[], T]) -> Callable[[], T]:
    """Start `work` in a forked process; the function that comes back waits for its result.

    The result is pickled. Should that process die, the work is done here instead.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of this process's ends (buffers, exit handlers, tests) may run twice.
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(work(), stream, pickle.HIGHEST_PROTOCOL)
        finally:
            os._exit(0)
    os.close(writing)

    def result() -> T:
        with os.fdopen(reading, "rb") as stream:
            sent = stream.read()
        os.waitpid(child, 0)
        try:
            found: T = pickle.loads(sent)  # noqa: S301 - our own process's
        except (EOFError, pickle.UnpicklingError):
            return work()
        return found

    return result
