"""The real store for object stores, in a history: many processes, each with clocks of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from reconciler.rehearsal.twin import Timeline
from reconciler.state.log import bucket, leases, open_state, scopes, segments, writes
from reconciler.state.log import store as object_store
from tests.reliability.simulation.bucket import Reached, Shared
from tests.reliability.simulation.runner import Telling, renewing_on
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


class SimulatedObjects(Telling):
    def __init__(self, process: "Process", shared: Shared, rng: Random) -> None:
        self.asked, self.rate = shared.asked, process.rate
        super().__init__(Reached(shared, process), process.store_clock, rng.randbytes)
