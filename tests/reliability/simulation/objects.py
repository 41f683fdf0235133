"""The real store for object stores, in a history: many processes, each with clocks of its own."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.rehearsal.timeline import Timeline
from reconciler.state import batching, renewing
from reconciler.state.objects import lease_keeping, lease_taking, probing, scopes, segments
from reconciler.state.objects import store as object_store
from reconciler.state.objects.changes import Change
from reconciler.state.objects.lease_beats import Beat
from reconciler.state.objects.store import ObjectStore
from reconciler.state.store import JournalEntry, Lease
from tests.reliability.simulation import invariants
from tests.reliability.simulation.bucket import Reached, Shared
from tests.reliability.simulation.threads import Asyncio, Executor, Lock, Threading, ToThread

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

LOOK_S = 3.0  # how often a renewing thread looks at the loop
HANGS_S = 2.0  # how long a robbed process may hang after that
TAIL_BYTES, BASE_BYTES = 3_000, 6_000  # so that a short history makes segments and bases, too


@contextmanager
def on_simulated_time(timeline: Timeline) -> Iterator[None]:
    """Threads, locks and small limits, where this store uses them."""
    replaced: list[tuple[Any, str, Any]] = [
        (object_store, "to_thread", ToThread),
        (object_store, "ThreadPoolExecutor", Executor),
        (batching, "to_thread", ToThread),
        (segments, "ThreadPoolExecutor", Executor),
        (probing, "ThreadPoolExecutor", Executor),
        (probing, "_TIMES", 1),
        (segments, "TAIL_BYTES", TAIL_BYTES),
        (segments, "BASE_BYTES", BASE_BYTES),
        (lease_taking, "Held", _held),
        (scopes, "Scope", lambda *given, real=scopes.Scope: real(*given, lock=cast("Any", Lock()))),
        (renewing, "to_thread", ToThread),
        (renewing, "threading", Threading),
        (renewing, "asyncio", Asyncio),
        (renewing, "_monotonic", timeline.time),
        (renewing, "_LOOK_S", LOOK_S),
    ]
    with ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        yield


def _held(beat: Beat, tag: str, ends_s: float) -> lease_keeping.Held:
    return lease_keeping.Held(beat, tag, ends_s, lock=cast("Any", Lock()))


class SimulatedObjects(ObjectStore):
    """Tells the ghost what was asked, and dies with its process, whose lease then lasts to its end."""

    def __init__(self, process: "Process", shared: Shared, rng: Random) -> None:
        self._process = process
        self._shared = shared
        self._asking: Any = None
        super().__init__(Reached(shared, process), process.store_clock, rng.randbytes)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        process = self._process
        process.pass_by("lease:before")
        await process.wake()
        lease = await super().lease(scopes, holder, timeout_s=timeout_s)
        process.leased_s = process.ghost.timeline.time()
        process.power_leased = process.ghost.power()
        process.ghost.note(process.name, "leases", *lease.scopes)
        process.pass_by("lease:after")
        await process.wake()
        return lease

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        """A promise: until the call that is to be sent now has its answer, nobody else has the scope."""
        process = self._process
        process.pass_by("check")
        await process.wake()
        began_s = process.ghost.timeline.time()
        await super().check(lease, for_s)
        process.checked(asyncio.current_task(), began_s)
        until_s = process.ghost.timeline.time() + for_s / process.rate
        for key in lease.epochs.items():
            if key not in process.ghost.forced:
                process.ghost.promises[key] = until_s

    async def release(self, lease: Lease) -> None:
        process = self._process
        process.pass_by("release:before")
        await process.wake()
        for scope, epoch in lease.epochs.items():
            process.ghost.promises.pop((scope, epoch), None)
            if process.ghost.leases.get(scope) == (epoch, process):
                process.ghost.leases[scope] = (epoch, None)
        await super().release(lease)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        process = self._process
        process.pass_by("commit:before")
        await process.wake()
        place = process.commit_fault()
        if place == "before":
            raise StoreError("the disk is full")
        task = asyncio.current_task()
        self._asking = partial(self._landed, task, lease, entries, put, remove)
        stored = await super().commit(lease, entries, put, remove)
        process.pass_by("commit:after")
        await process.wake()
        if process.robbery is not None:
            await asyncio.shield(process.robbery)  # it hangs here, and wakes without its lease
            await asyncio.sleep(self._shared.rng.choice((0.0, HANGS_S)))
        if place == "after":
            raise StoreError("the disk did not answer")
        return stored

    def _nonce(self) -> str:
        """The id of a change is made where its commit begins, before anything else can happen."""
        nonce = super()._nonce()
        if self._asking is not None:
            self._shared.asked[nonce], self._asking = self._asking, None
        return nonce

    def _landed(
        self,
        task: asyncio.Task[Any] | None,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord],
        remove: Sequence[Address],
        change: Change,
    ) -> None:
        process, ghost = self._process, self._process.ghost
        stored = [replace(each, serial=now.serial) for each, now in zip(put, change.put, strict=True)]
        ghost.note(process.name, "commits", *(f"{entry.event} {entry.step}" for entry in entries))
        ghost.take_in(process, task, lease, entries, stored, remove)
        invariants.check_committed(ghost, process, lease, entries, stored, remove)

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        """A person takes the lease of a holder that seemed to hang: no promise to it counts."""
        ghost = self._process.ghost
        if scope in ghost.leases:
            ghost.promises.pop((scope, ghost.leases[scope][0]), None)
            ghost.forced.add((scope, ghost.leases[scope][0]))
        return await super().unlock(scope, force=force, by=by)

    async def close(self) -> None:
        if self._process.alive:
            await super().close()

    async def bury(self) -> None:
        """Nothing frees what a dead process held: its lease ends by itself."""
