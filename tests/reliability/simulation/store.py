"""The real store without threads: the ghost hears of every durable change, and it dies with its process."""

import asyncio
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import JournalEntry, Lease
from tests.reliability.simulation import invariants
from tests.reliability.simulation.ghost import CANARY
from tests.reliability.simulation.runner import Telling, tell

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process
    from tests.reliability.simulation.runner import RunnerStore


class SimulatedStore(Telling, SqliteStore):
    """The real store, whose every durable change the ghost is told of, and which dies with its process."""

    def __init__(self, process: "Process", path: Path, rng: Random) -> None:
        self._process = process
        self.asked = {}
        # A backup would only be read again by nobody: the whole state is verified after each round.
        super().__init__(path, process.store_clock, rng.randbytes, backups=False)
        self._written: list[tuple[str, bytes]] = []
        self._telling = self._file._tell_seen
        self._file.create = self._noting(self._file.create)  # type: ignore[method-assign]
        self._file.replace = self._noting(self._file.replace)  # type: ignore[method-assign]
        self._file._tell_seen = self._committed_all  # type: ignore[method-assign]

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        process = self._process
        process.pass_by("lease:before")
        lease = await super().lease(scopes, holder, timeout_s=timeout_s)
        process.leased(lease)
        invariants.check_leased(process.ghost, process, lease)
        for scope, epoch in lease.epochs.items():
            process.ghost.leases[scope] = (epoch, process)
        process.pass_by("lease:after")
        return lease

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        self._process.pass_by("check")
        await super().check(lease, for_s)

    async def release(self, lease: Lease) -> None:
        self._process.pass_by("release:before")
        for scope, epoch in lease.epochs.items():
            if self._process.ghost.leases.get(scope) == (epoch, self._process):
                self._process.ghost.leases[scope] = (epoch, None)
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
        place = process.commit_fault()
        if place == "before":
            raise StoreError("the disk is full")
        self.expect(process, lease, entries, put, remove)
        stored = await super().commit(lease, entries, put, remove)
        process.pass_by("commit:after")
        if process.robbery is not None:
            await asyncio.shield(process.robbery)  # it hangs here, and wakes without its lease
        if place == "after":
            raise StoreError("the disk did not answer")
        return stored

    def _noting(self, write: Callable[..., str]) -> Callable[..., str]:
        """`write`, whose objects are told of once they are durable."""

        def written(key: str, body: bytes, *before: str) -> str:
            self._written.append((key, body))
            try:
                return write(key, body, *before)
            except BaseException:
                self._written.remove((key, body))
                raise

        return written

    def _committed_all(self, changes: tuple[Any, ...]) -> None:
        """What is durable counts from now on, whether or not those who asked for it live to hear of it."""
        self._telling(changes)
        written, self._written = self._written, []
        for key, body in written:
            text = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
            if CANARY.encode() in text:
                self._process.ghost.violate("no-secret-leaves-memory", "an object holds a secret value")
            if "/heads/" in key:
                tell(self.asked, text.decode().splitlines()[1:])

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        """A person takes the lease of a holder that seemed to hang: the scope is at a higher epoch now."""
        said = await super().unlock(scope, force=force, by=by)
        ghost = self._process.ghost
        epoch, holder = ghost.leases[scope]
        ghost.leases[scope] = (epoch + 1, None)
        if holder is not None:
            holder.lease_lost = True
            ghost.tally.note("lease lost")
            ghost.note(holder.name, "loses its lease of", scope)
        return said

    async def close(self) -> None:
        if self._process.alive:
            await super().close()

    async def bury(self) -> None:
        """What the operating system does for a dead process: its locks are free."""
        await super().close()


class SimulatedSpooling(Spooling):
    """What keeps outcomes beside that store, and may fail as well."""

    inner: "SimulatedStore | RunnerStore"

    def __init__(self, process: "Process", inner: "SimulatedStore | RunnerStore", place: Path) -> None:
        self._process = process
        super().__init__(inner, place, process.store_clock)

    async def spool(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> str:
        process = self._process
        process.pass_by("spool:before")
        if process.run.spool_fails:
            process.ghost.tally.note("spool", "failed")
            raise StoreError("no place is left")
        place = await super().spool(lease, entries, put, remove)
        process.ghost.tally.note("spool", "kept")
        process.ghost.note(process.name, "spools", *(f"{entry.event} {entry.step}" for entry in entries))
        process.ghost.take_aside(process, lease, entries, put, remove)
        process.pass_by("spool:after")
        return place


class Inline:
    """Stands for `anyio.to_thread`: blocking work is done at once, but other tasks may go first."""

    @staticmethod
    async def run_sync(work: Callable[..., Any], *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return work(*arguments)
