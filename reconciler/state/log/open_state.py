"""All that works on one state, once its lineage is known; and its commits.

Commits of one scope that wait at the same moment are one write of its head. All of it blocks.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.log import segments
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.changes import Change, StoredRecord
from reconciler.state.log.damage import Older, explained
from reconciler.state.log.lease_beats import Exclusion
from reconciler.state.log.leases import Leases
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import ScopeState, ScopeSummary, Wanted, validate
from reconciler.state.log.scopes import Scopes, Seen
from reconciler.state.log.segments import Files
from reconciler.state.store import Event, Lease, no_longer_ours

T = TypeVar("T")
Serve = Callable[[Sequence[T]], Awaitable[None]]


class _Batch(Generic[T]):
    """What is served together. `led`: one who asks waits for the turn, or serves; `told`: he has ended."""

    def __init__(self) -> None:
        self.requests: list[T] = []
        self.led = self.begun = False
        self.told = anyio.Event()


class Batching(Generic[T]):
    """`serve` gets all requests that wait when it begins, and has served each of them when it returns."""

    def __init__(self, serve: Serve[T]) -> None:
        self._serve = serve
        self._next: _Batch[T] = _Batch()
        self._turn = anyio.Lock()

    async def ask(self, request: T) -> None:
        """Return once a `serve` that began after this call has served `request`. Cannot be cancelled."""
        with anyio.CancelScope(shield=True):
            batch = self._next
            batch.requests.append(request)
            # Whoever comes first asks for all. Nobody else stands in line, so that all wake at once.
            while not batch.begun:
                await (batch.told.wait() if batch.led else self._lead(batch))

    async def _lead(self, batch: _Batch[T]) -> None:
        batch.led, batch.told = True, anyio.Event()
        try:
            async with self._turn:
                self._next, batch.begun = _Batch(), True
                await self._serve(batch.requests)
        finally:
            batch.led = False  # if it has not begun, this task dies: another one leads
            batch.told.set()


def in_thread(work: Callable[[Sequence[T]], None], *, is_quick: bool = False) -> Serve[T]:
    """`work`, which blocks, in a worker thread; `is_quick`: here."""

    async def serve(batch: Sequence[T]) -> None:
        if is_quick:
            await checkpoint()
            work(batch)
        else:
            await to_thread.run_sync(work, batch)

    return serve


@dataclass(eq=False, slots=True)
class Request:
    """One call of `Store.commit`, on its way to the worker thread and back. `id`: of its change."""

    lease: Lease
    wanted: Wanted
    id: str
    outcome: Sequence[StateRecord] | StoreError | None = None

    def stored(self, change: Change) -> None:
        """The change has landed: the outcome is its records, with their new serials."""
        self.outcome = tuple(
            replace(record, serial=stored.serial)
            for (record, _), stored in zip(self.wanted.put, change.put, strict=True)
        )


@dataclass(eq=False, slots=True)
class Check:
    """One call of `Store.check`, on its way to the worker thread and back.

    `failure`: what it raises; until it was asked, that nobody knows.
    """

    lease: Lease
    failure: StoreError | None = field(default_factory=lambda: StoreError("the lease could not be checked"))


class Opened:
    """Reads, takes, keeps and commits, for one handle on one state.

    What was asked for at the same moment in one scope is stored as one write of its head. A write whose
    answer is lost is recognised by the ids of its changes, so that nothing is stored twice.
    """

    def __init__(
        self,
        bucket: Bucket,
        layout: Layout,
        clock: Clock,
        root: Root,
        *,
        exclusion: Exclusion,
        nonce: Callable[[], str],
    ) -> None:
        self._bucket = bucket
        self._clock = clock
        self.layout = layout
        files = self.files = Files(bucket, layout)
        begin = ScopeSummary(root.lineage, serial=root.least_serial)
        self.scopes = Scopes(bucket, layout, files, begin, nonce)
        self.leases = Leases(bucket, layout, clock, self.scopes, exclusion)
        self._commits: dict[str, Batching[Request]] = {}
        self.checks = Batching(in_thread(self._check, is_quick=bucket.is_quick or bucket.reads_quickly))

    def commits_to(self, scope: str) -> Batching[Request]:
        """Where one request after another is sent, the commits of all scopes wait for one piece of work."""
        name = scope if self._bucket.at_once > 1 else ""
        if name not in self._commits:
            self._commits[name] = Batching(in_thread(self._commit, is_quick=self._bucket.is_quick))
        return self._commits[name]

    def _commit(self, batch: Sequence[Request]) -> None:
        groups: dict[str, list[Request]] = defaultdict(list)
        for request in batch:
            groups[request.wanted.scope].append(request)
        try:
            self._bucket.in_parallel(self._commit_to_scope, list(groups.values()))
        except StoreError as failure:
            self._commit_one_by_one(groups, failure)

    def _commit_one_by_one(self, groups: Mapping[str, Sequence[Request]], failure: StoreError) -> None:
        """Nothing of them is stored, whatever was taken for that; but one must not fail its neighbours."""
        try:
            with explained(self._bucket):
                self.scopes.read_again(groups)
        except StoreError:
            for request in chain(*groups.values()):
                request.outcome = failure
            return
        for group in groups.values():
            for request in group:
                request.outcome = None
            self._commit_to_scope(group)

    def _commit_to_scope(self, batch: Sequence[Request]) -> None:
        """Store the requests, all of one scope; each has an outcome then. One that fails fails alone."""
        (name,) = {request.wanted.scope for request in batch}
        try:
            with explained(self._bucket):
                while waiting := [request for request in batch if request.outcome is None]:
                    self._attempt(name, waiting)
        except StoreError as error:
            for request in batch:
                request.outcome = request.outcome or error

    def _attempt(self, name: str, batch: Sequence[Request]) -> None:
        """Write what of `batch` may be written; where another head is there, keep up with that one."""
        before = self.scopes.seen(name)
        seen = self._with_room(before, self.scopes.of(name).folded)
        valid = self._validated(name, seen, batch)
        if not valid:
            return
        asked_s = self._clock.monotonic()
        if self.scopes.advance(
            seen, [change for _, change in valid], base=seen.head.base, segments=seen.head.segments
        ):
            for request, (change, _) in valid:
                request.stored(change)
                # Where it is near, a look takes less time than who takes the scope away needs.
                if self._bucket.at_once > 1 and any(row.columns[1] == Event.INTENT for row in change.rows):
                    self.leases.note_commit(request.lease, asked_s)
            if seen is not before:
                self.files.delete_unnamed(before.head, seen.head)
            return
        found = {change.id: change for change in self.scopes.refresh([name])[name]}
        if self.scopes.seen(name).tag == seen.tag:  # what is there is older than what is known
            raise Older(f"the head of `{name}` is an older one")
        for request, _ in valid:
            if request.id in found:  # the answer was lost, and its write was not
                request.stored(found[request.id])

    def _validated(
        self, name: str, seen: Seen, batch: Sequence[Request]
    ) -> list[tuple[Request, tuple[Change, ScopeSummary]]]:
        """The changes that may be made, one after another. A request that may not be has its outcome."""
        overlay: dict[Address, StoredRecord | None] = {}
        known = self.scopes.of(name).folded.stored

        def lookup(address: Address) -> StoredRecord | None:
            return overlay[address] if address in overlay else known.get(address)

        def elsewhere(address: Address) -> str | None:
            return self.scopes.elsewhere(name, address)

        marks, found = seen.marks, []
        for request in batch:
            try:
                self._require(request.lease, seen)
                change, marks = validate(marks, lookup, elsewhere, request.wanted, request.id)
            except StoreError as error:
                request.outcome = error
                continue
            overlay.update(dict.fromkeys(change.remove))
            overlay.update({stored.address: stored for stored in change.put})
            found.append((request, (change, marks)))
        return found

    def _require(self, lease: Lease, seen: Seen) -> None:
        self.leases.require(lease)
        if lease.epochs[lease.scope] != seen.head.epoch:
            self.leases.mark_lost(lease.scope, lease.epochs[lease.scope])
            raise no_longer_ours(lease.scope)

    def _with_room(self, seen: Seen, folded: ScopeState) -> Seen:
        """`seen`, its tail in a segment where it has become long."""
        if sum(map(len, seen.tail)) <= segments.TAIL_BYTES:
            return seen
        return replace(seen, head=self.files.moved_out(seen.head, seen.tail, folded), tail=())

    def _check(self, batch: Sequence[Check]) -> None:
        try:
            with explained(self._bucket):
                self.leases.refresh([check.lease for check in batch])
        except StoreError as failure:
            for check in batch:
                check.failure = failure
        else:
            for check in batch:
                check.failure = None
