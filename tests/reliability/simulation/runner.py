"""The store of a runner that shares its state with others, in a history, whichever store that is."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.rehearsal.twin import Timeline
from reconciler.state import renewing
from reconciler.state.log.changes import Change
from reconciler.state.log.store import LogStore
from reconciler.state.store import JournalEntry, Lease, Store
from tests.reliability.simulation import invariants
from tests.reliability.simulation.threads import Asyncio, Threading, ToThread

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

LOOK_S = 3.0  # how often a renewing thread looks at the loop
HANGS_S = 2.0  # how long a robbed process may hang after that

Landed = Callable[[Change], None]


def renewing_on(timeline: Timeline) -> list[tuple[Any, str, Any]]:
    """What stands for what, by module and name, where leases are renewed."""
    return [
        (renewing, "to_thread", ToThread),
        (renewing, "threading", Threading),
        (renewing, "asyncio", Asyncio),
        (renewing, "_monotonic", timeline.time),
        (renewing, "_LOOK_S", LOOK_S),
    ]


def tell(asked: dict[str, Landed], lines: Iterable[str]) -> None:
    """The changes of a head that is stored are told to who asked for them."""
    for change in map(Change.from_line, lines):
        if (landed := asked.pop(change.id, None)) is not None:
            landed(change)


class Telling(LogStore):
    """A store that tells when its next commit lands: what the place of all objects has in `asked`, by change.

    `rate`: of the clock by which its leases are judged.
    """

    asked: dict[str, Landed]
    rate: float
    _landed: Landed | None = None

    def expect(
        self,
        process: "Process",
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord],
        remove: Sequence[Address],
    ) -> None:
        """The ghost hears of the commit that begins now, whether or not its process lives to hear of it."""
        ghost, task = process.ghost, asyncio.current_task()

        def landed(change: Change) -> None:
            # A planted bug may write fewer.
            stored = [replace(each, serial=new.serial) for each, new in zip(put, change.put, strict=False)]
            ghost.note(process.name, "commits", *(f"{entry.event} {entry.step}" for entry in entries))
            ghost.take_in(process, task, lease, entries, stored, remove)
            invariants.check_committed(ghost, process, lease, entries, stored, remove)

        self._landed = landed

    def _nonce(self) -> str:
        """The id of a change is made where its commit begins, before anything else can happen."""
        nonce = super()._nonce()
        if self._landed is not None:
            self.asked[nonce], self._landed = self._landed, None
        return nonce

    def die(self) -> None:
        """Its process died: nothing frees what that held, and its lease ends by itself."""


class RunnerStore(Store):
    """Tells the ghost what was asked, and dies with its process."""

    inner: Telling

    def __init__(self, process: "Process", inner: Telling, rng: Random) -> None:
        super().__init__(inner)
        self._process = process
        self._rng = rng

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        process = self._process
        process.pass_by("lease:before")
        await process.wake()
        lease = await self.inner.lease(scopes, holder, timeout_s=timeout_s)
        process.leased(lease)
        process.pass_by("lease:after")
        await process.wake()
        return lease

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        """A promise: until the call that is to be sent now has its answer, nobody else has the scope."""
        process = self._process
        process.pass_by("check")
        await process.wake()
        began_s = process.ghost.timeline.time()
        await self.inner.check(lease, for_s)
        process.checked(asyncio.current_task(), began_s)
        invariants.check_checked(process.ghost, process, lease)
        until_s = process.ghost.timeline.time() + for_s / self.inner.rate
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
        await self.inner.release(lease)

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
        self.inner.expect(process, lease, entries, put, remove)
        stored = await self.inner.commit(lease, entries, put, remove)
        process.pass_by("commit:after")
        await process.wake()
        if process.robbery is not None:
            await asyncio.shield(process.robbery)  # it hangs here, and wakes without its lease
            await asyncio.sleep(self._rng.choice((0.0, HANGS_S)))
        if place == "after":
            raise StoreError("the disk did not answer")
        return stored

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        """A person takes the lease of a holder that seemed to hang: no promise to it counts."""
        ghost = self._process.ghost
        if scope in ghost.leases:
            ghost.promises.pop((scope, ghost.leases[scope][0]), None)
            ghost.forced.add((scope, ghost.leases[scope][0]))
        return await self.inner.unlock(scope, force=force, by=by)

    async def close(self) -> None:
        if self._process.alive:
            await self.inner.close()

    async def bury(self) -> None:
        self.inner.die()
