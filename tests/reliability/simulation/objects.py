"""The real store for object stores, in a history: many processes, each with clocks of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from reconciler.rehearsal.twin import Timeline
from reconciler.state.log import bucket, leases, open_state, scopes, segments, writes
from reconciler.state.log import store as object_store
from reconciler.state.log.changes import Change
from tests.reliability.simulation.bucket import Reached, Shared
from tests.reliability.simulation.runner import Landed, Telling, renewing_on
from tests.reliability.simulation.threads import Executor, Lock, ToThread

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

TAIL_BYTES, BASE_BYTES = 3_000, 6_000  # so that a short history makes segments and bases, too


@contextmanager
def on_simulated_time(timeline: Timeline) -> Iterator[None]:
    """Threads, locks and small limits, where this store uses them."""
    replaced: list[tuple[Any, str, Any]] = [
        (object_store, "to_thread", ToThread),
        (open_state, "to_thread", ToThread),
        (bucket, "ThreadPoolExecutor", Executor),
        (writes, "ThreadPoolExecutor", Executor),
        (writes, "_INCREMENTS", 1),
        (segments, "TAIL_BYTES", TAIL_BYTES),
        (segments, "BASE_BYTES", BASE_BYTES),
        (leases, "Held", lambda *given, real=leases.Held: real(*given, lock=cast("Any", Lock()))),
        (scopes, "Scope", lambda *given, real=scopes.Scope: real(*given, lock=cast("Any", Lock()))),
        *renewing_on(timeline),
    ]
    with ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        yield


def tell(landed: Landed, change: Change) -> None:
    landed([each.serial for each in change.put])


class SimulatedObjects(Telling):
    """`landed`: hears of the next commit, by the id of its change."""

    def __init__(self, process: "Process", shared: Shared, rng: Random) -> None:
        self._shared = shared
        self.landed: Landed | None = None
        self.rate = process.rate
        super().__init__(Reached(shared, process), process.store_clock, rng.randbytes)

    def _nonce(self) -> str:
        """The id of a change is made where its commit begins, before anything else can happen."""
        nonce = super()._nonce()
        if self.landed is not None:
            self._shared.asked[nonce], self.landed = partial(tell, self.landed), None
        return nonce

    def bury(self) -> None:
        """No connection is open."""
