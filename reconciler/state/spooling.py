"""A store whose outcomes survive when it takes no more commits: they are spooled, and taken in later."""

import dataclasses
import errno
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import ingest, spool_file
from reconciler.state.durable import make_private
from reconciler.state.encryption.bucket import SealedBucket
from reconciler.state.marks import Marks, StateOlder
from reconciler.state.spool_file import Content, Kept
from reconciler.state.store import JournalEntry, Lease, State, Store, of_runs_since

T = TypeVar("T")


class Spooling(Store):
    """`inner`, and beside it the file `place` for what `inner` could not take. A `Store` itself.

    `load` shows what is spooled at once. A lease takes in what is spooled for its scopes.
    """

    def __init__(
        self,
        inner: Store,
        place: Path,
        clock: Clock,
        seal: SealedBucket | None = None,
        marks: Marks | None = None,
    ) -> None:
        """`seal`: of a state that may be encrypted; once it was loaded, it knows.

        `marks`: what was seen of the state, to tell an older copy of it.
        """
        super().__init__(inner)
        self._marks = marks or Marks(Path(os.devnull), "", read_only=True)
        self._seal = seal
        self._place = place
        self._clock = clock
        self._lineage = ""
        self._busy = anyio.Lock()

    async def load(self, scopes: Collection[str] | None = None) -> State:
        """As in `Store`, with what is spooled. Raises StateOlder where the state lacks what was seen."""
        # Before the state: what is taken in or committed meanwhile is then found twice, not missed.
        content = await self._read(self._lineage or spool_file.ANY)
        if content.foreign and not self._lineage:
            content = await self._read(await self._known())
        if content.lines:
            return ingest.overlay(await self._newest(), content, self._clock.now()).of(scopes)
        state = await self._newest(scopes)
        self._lineage = state.lineage
        return ingest.without_tracked(state)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        """As in `Store`, with the spooled entries last."""
        content = await self._read(await self._known())
        if not content.lines:
            return await self.inner.journal(since=since)
        ingestion = ingest.ingest(content, await self.inner.load(), self._clock.now())
        entries = list(await self.inner.journal())
        spooled = [(scope, entry) for scope, kept in ingestion.applied for entry in kept.entries]
        entries += [entry for entry in spooled if entry not in entries]  # it may have been taken in meanwhile
        return of_runs_since(entries, since)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        """As in `Store`. Raises StoreError, too, when there is no room for what may have to be spooled."""
        lease = await self.inner.lease(scopes, holder, timeout_s=timeout_s)
        try:
            await self._take_in(lease)
            await self._in_thread(lambda: spool_file.reserve(self._place))
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await self.inner.release(lease)
            raise
        return lease

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """As in `Store`. Counts the change, to tell an older copy of the state."""
        stored = await self.inner.commit(lease, entries, put, remove)
        self._marks.committed(lease.scope, len(entries))
        return stored

    async def release(self, lease: Lease) -> None:
        """As in `Store`. Marks what was committed."""
        await self.inner.release(lease)
        self._marks.released()

    async def create(self) -> bool:
        """As in `Store`. Raises StoreError where a state was at this place."""
        if not (await self.inner.load()).lineage:
            self._marks.refuse_new()
        return await self.inner.create()

    async def lost(self) -> str:
        """Which changes that were seen the state lacks, in words; "" for none."""
        try:
            await self._newest()
        except StoreError as failure:
            return failure.because if isinstance(failure, StateOlder) else ""
        return ""

    async def accept(self) -> None:
        """From now on this is the state at its place, and the newest of its lineage."""
        self._marks.accept(await self.inner.load())

    async def spool(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> str:
        """Keep a commit that could not be stored, durably and outside of the store; says where.

        For the outcome of a call that was sent, after `commit` raised StoreError; also under a lease
        that is no longer ours. `load` shows it at once, the next lease of its scope takes it in, if
        its intent is still open and its record has not moved. Raises StoreError when no place takes it.
        """
        kept = Kept(await self._known(), lease.epochs, entries, put, remove)
        with anyio.CancelScope(shield=True):
            async with self._busy:
                place = await self._in_thread(lambda: spool_file.keep(self._place, kept, self._seal))
        return str(place)

    async def spooled(self) -> list[bytes]:
        """What is spooled for this state, oldest first, as `ingest` takes it; nothing where it was never
        reached. Each of them is a line, and encrypted if the state is."""
        if not self._lineage:
            return []
        content = await self._read(self._lineage)
        return [spool_file.encode(line.kept, self._seal) for line in content.lines]

    async def ingest(self, lines: bytes, holder: str, *, timeout_s: float = 0) -> int:
        """Take in what another machine spooled for this state (`spooled`); returns how many outcomes.

        Raises Locked, ValueError for what are not such lines, and StoreError for those of another state.
        """
        lineage = await self._known()
        try:
            spooled = spool_file.decode(lines, self._seal)
        except (KeyError, TypeError) as failure:
            raise ValueError(f"there is no {failure} in it") from failure
        if any(outcome.lineage != lineage for outcome in spooled):
            raise StoreError(
                "these outcomes are of another state", help="check --env, --state and RECONCILE_STATE"
            )
        if any(outcome.sealed for outcome in spooled):
            plan = command("plan")
            raise StoreError(
                "these outcomes are encrypted with a key that this state no longer has",
                help=f"run `{plan}`: what became of their calls is found out from the platform",
                advice=(plan,),
            )
        await self._in_thread(lambda: self._add(spooled))
        scopes = sorted({scope for outcome in spooled for scope in outcome.epochs})
        await self.release(await self.lease(scopes, holder, timeout_s=timeout_s))
        return len(spooled)

    def _add(self, spooled: Sequence[Kept]) -> None:
        make_private(self._place.parent)
        for kept in spooled:
            spool_file.keep(self._place, kept, self._seal)

    async def _newest(self, scopes: Collection[str] | None = None) -> State:
        """What `inner` holds. Raises StateOlder where more of it was seen before."""
        state = await self.inner.load(scopes)
        if not state.lineage:
            return dataclasses.replace(state, traces=(*state.traces, *map(str, self._marks.traces())))
        seen = self._marks.of(state.lineage)
        if self._marks.lost(state, seen):
            state = await self.inner.load(scopes)  # another process may have committed after the first look
        if lost := self._marks.lost(state, seen):
            raise StateOlder(lost)
        self._marks.keep(state, seen)
        return state

    async def _known(self) -> str:
        """The lineage; "" while there is no state."""
        if not self._lineage:
            self._lineage = (await self._newest()).lineage
        return self._lineage

    async def _take_in(self, lease: Lease) -> None:
        """What is spooled for the lease's scopes, each commit into its own."""
        if not lease.epochs:
            return
        lineage = await self._known()
        async with self._busy:
            with ExitStack() as stack:
                content = await self._in_thread(
                    lambda: stack.enter_context(spool_file.held(self._place, lineage, self._seal))
                )
                if not content.lines and not content.torn:
                    return
                state = await self.inner.load()
                ingestion = ingest.ingest(content, state, self._clock.now(), lease.epochs)
                for scope, kept in ingestion.applied:
                    await self.inner.commit(lease.of(scope), kept.entries, kept.put, kept.remove)
                for note in ingestion.notes:
                    scope = note.data.get("scope", lease.scopes[0])
                    await self.inner.commit(lease.of(scope), [note])
                await self._in_thread(lambda: spool_file.free(self._place, content, ingestion.done))

    async def _read(self, lineage: str) -> Content:
        return await self._in_thread(lambda: spool_file.read(self._place, lineage, self._seal))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def explaining() -> T:
            try:
                return work()
            except OSError as error:
                raise _failed(self._place, error) from error

        return await to_thread.run_sync(explaining)  # not cancelled half-way


def _failed(place: Path, error: OSError) -> StoreError:
    """Names the place, and what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"no space left for {place}", help="free some space and run again")
    return StoreError(
        f"{place} cannot be read or written: {error}",
        help="check the file, its directory and their permissions",
    )
