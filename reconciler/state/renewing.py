"""Renewing a lease from a thread, for as long as the event loop of this process is alive.

A thread of its own: the loop may be busy for seconds, in which no lease may end. But a loop that hangs must
not keep its scopes for ever: where it has not answered for `QUIET_S`, nothing is renewed.
"""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread

from reconciler.core.clock import SystemClock
from reconciler.core.errors import LeaseLost, StoreError
from reconciler.state import backend_of
from reconciler.state.store import Lease, Store

_monotonic = SystemClock().monotonic

QUIET_S = 10.0
_LOOK_S = 1.0  # how often the loop is asked for an answer
_AGAIN_S = 5.0  # how long after a failure it is tried again


def lasts_s(store: Store) -> float:
    """How long the lease of a process that died may last; 0 where it ends with the process."""
    lease_s = backend_of(store).lease_s
    return lease_s if lease_s < math.inf else 0.0


class Renewal:
    """What the thread does, turn by turn. `failure`: why the newest renewal did not succeed, or None."""

    def __init__(self, renew: Callable[[], object], every_s: float, now_s: float) -> None:
        self._renew = renew
        self._every_s = every_s
        self._due_s = now_s + every_s
        self._answered_s = now_s
        self.failure: Exception | None = None
        self.ended = False

    def answered(self, now_s: float) -> None:
        """The loop is alive."""
        self._answered_s = now_s

    def turn(self, now_s: float) -> None:
        """Renew, if that is due and the loop answers. Raises nothing."""
        if self.ended or now_s < self._due_s or now_s - self._answered_s > QUIET_S:
            return
        try:
            self._renew()
        except StoreError as failure:
            self.failure = failure
            self.ended = isinstance(failure, LeaseLost)
            self._due_s = now_s + min(self._every_s, _AGAIN_S)
        except Exception as failure:
            self.failure, self.ended = failure, True
        else:
            self.failure = None
            self._due_s = now_s + self._every_s


@asynccontextmanager
async def renewed(store: Store, lease: Lease, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Keep `lease` while the block runs, where it would end by itself.

    `tell` gets the reason of a renewal that failed; `Store.check` says whether the lease is still ours.
    What is not a failure of the store is raised after the block.
    """
    backend = backend_of(store)
    if not lasts_s(backend):
        yield
        return
    renewal = Renewal(lambda: backend.beat(lease), backend.lease_s / 3, _monotonic())
    stop, loop = threading.Event(), asyncio.get_running_loop()
    told: list[str] = []

    def answer() -> None:
        renewal.answered(_monotonic())
        failure = renewal.failure
        if isinstance(failure, StoreError) and failure.message not in told:
            told.append(failure.message)
            tell(failure.message)

    def run() -> None:
        while not stop.wait(_LOOK_S):
            loop.call_soon_threadsafe(answer)
            renewal.turn(_monotonic())

    thread = threading.Thread(target=run, name="renews a lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        with anyio.CancelScope(shield=True):  # the lease is given back next: no renewal may come later
            await to_thread.run_sync(thread.join)
        if renewal.failure is not None and not isinstance(renewal.failure, StoreError):
            raise renewal.failure
