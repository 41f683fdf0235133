"""A second process, forked from this one: Python uses one core a process."""

import os
import signal
import warnings
from collections.abc import Callable

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def forked(work: Callable[[], None]) -> int:
    """The id of a process that does `work` and ends, however that ends. The caller must wait for it.

    A signal ends it at once, and nothing of this process ends in it: no buffers, exit handlers or tests.
    No other thread may be at work now: a lock that it holds would never be free in that process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, for threads that are idle, too
        child = os.fork()
    if child == 0:
        try:
            for number in _ENDING:
                if callable(signal.getsignal(number)):  # and not what `nohup` ignores
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            work()
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child
