"""Making many objects without the garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """A hundred thousand new objects, none of them garbage, would be scanned again and again.

    Also not when it is over: they are old at once, unless somebody has frozen objects in this process.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()  # takes all objects out of their generations,
            gc.unfreeze()  # and puts them into the oldest one
        gc.enable()
