"""The state in an object store: `store.Store`, for any number of runners that come and go.

Blocking work runs in worker threads. What the files of this folder do is said in `__init__.py`.
"""

import os
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StoreError
from reconciler.core.garbage import collector_paused
from reconciler.core.model import Address, StateRecord
from reconciler.state import contents as wholes
from reconciler.state.codec import encode_entry, encode_record
from reconciler.state.contents import StateDump, has_changed, same
from reconciler.state.log import moving, reading, root, writes
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.damage import Contradiction, Damaged, Gone, explained
from reconciler.state.log.lease_beats import Exclusion, Watched
from reconciler.state.log.leases import Raced
from reconciler.state.log.open_state import Check, Opened, Request
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import Wanted
from reconciler.state.store import JournalEntry, Lease, State, Store, no_longer_ours, no_state, of_runs_since

_KEY_BYTES = 32
_LOOKS = 5  # how often root, heads and files are read again that do not fit
_RACES = 20  # how often somebody else may be faster before we say so

T = TypeVar("T")


class LogStore(Store):
    """A `store.Store`. `randomness(n)` gives n bytes, for ids, nonces and the fingerprint key.

    `environment`: whose state it must be ("": that of none). `read_only`: write nothing.
    """

    def __init__(
        self,
        bucket: Bucket,
        clock: Clock,
        randomness: Callable[[int], bytes] = os.urandom,
        *,
        exclusion: Exclusion | None = None,
        environment: str = "",
        read_only: bool = False,
    ) -> None:
        self.bucket = self._bucket = bucket
        self._clock = clock
        self._randomness = randomness
        self._read_only = read_only
        self._exclusion = exclusion or Watched(clock)
        self._layout = Layout(environment)
        self._opened: Opened | None = None
        self._new_key = b""
        self._loaded: State | None = None

    async def load(self, scopes: Collection[str] | None = None) -> State:
        """As in `Store`: reads the root, the list of heads, and what has changed since."""
        return (await self._in_thread(self._load)).of(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        """As in `Store`. Reads all segments."""
        return await self._in_thread(lambda: of_runs_since(self._journal(), since))

    async def create(self) -> bool:
        """As in `Store`: the root is one conditional write."""
        return await self._in_thread(self._create)

    async def fingerprint_key(self) -> bytes:
        """As in `Store`: the root holds it."""
        return await self._in_thread(self._fingerprint_key)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        """As in `Store`. Waits by asking again, since no place calls back."""
        wanted = sorted(set(scopes))
        ends_s = self._clock.monotonic() + timeout_s
        while True:
            taken = await self._in_thread(lambda: self._take(wanted, holder))
            if isinstance(taken, Lease):
                return taken
            await self._wait(taken, ends_s)

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        """As in `Store`. Reads heads and leases."""
        return await self._in_thread(lambda: self._obstacles(scopes))

    @property
    def lease_s(self) -> float:
        """How long a lease lasts unless it is renewed; `math.inf`: as long as its process."""
        return self._exclusion.lease_s

    def beat(self, lease: Lease) -> None:
        """Put off the end of a lease. Raises StoreError when it is no longer the current one.

        Blocks, for the thread that renews while the main loop is alive.
        """
        with explained(self._bucket):
            self._writable(lease).leases.beat(lease)

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        """As in `Store`. One read serves all who ask at once, and an intent one of them (`Keeping`)."""
        opened = self._writable(lease)
        opened.leases.require(lease)
        if not opened.leases.use_fresh_check(lease):
            check = Check(lease)
            await opened.checks.ask(check)
            if check.failure is not None:
                raise check.failure
        opened.leases.require(lease)
        if opened.leases.shortest_s(lease) <= for_s:
            await self._in_thread(lambda: opened.leases.beat(lease, for_s))
        opened.leases.require(lease, for_s)

    async def release(self, lease: Lease) -> None:
        """As in `Store`. Cannot be cancelled half-way."""
        with anyio.CancelScope(shield=True):
            await self._in_thread(lambda: self._release(lease))

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """As in `Store`. Cannot be cancelled half-way. Where it raises, it is not known to be stored."""
        scope = lease.scope
        wanted = Wanted(
            scope,
            [encode_entry(entry) for entry in entries],
            [(record, encode_record(record)) for record in put],
            remove,
        )
        request = Request(lease, wanted, self._nonce())
        await self._writable(lease).commits_to(scope).ask(request)
        if isinstance(request.outcome, StoreError):
            raise request.outcome
        assert request.outcome is not None
        return request.outcome

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        """Free a scope whose holder hangs; says what was done. `by`: who wants it, for the journal.

        Raises Locked while the holder's process lives, unless `force`: then the holder, when it
        wakes, can neither write nor check successfully. Raises StoreError for a scope no run has ever locked.
        """
        opened, _ = await self._in_thread(self._require_state)
        while not force:
            found = (await self._in_thread(lambda: opened.leases.obstacles([scope]))).get(scope)
            if found is None:
                break
            await self._wait(found, self._clock.monotonic())
        had = await self._in_thread(lambda: opened.leases.unlock(scope, by, force=force))
        if had is not None:
            return (
                f"lock taken from {had.holder}, which can no longer write; stop that process before you apply"
            )
        return "free: no process holds it"

    async def verify(self) -> None:
        """Read everything. Raises StoreError naming the first record or journal row that was changed."""
        await self._in_thread(self._verify)

    async def take_over(self, environment: str, *, by: str) -> bool:
        """Make this state, which is of no environment, that of `environment`, permanently.

        False: it was its own already, and nothing was changed. The first call of a store that was opened
        for no environment. Raises StoreError when it belongs to another one, or does not exist; and here,
        since a state in an object store is where its environment's name says: it is moved instead.
        """
        migrate = command("state", "migrate", "URL")
        raise StoreError(
            f"the state {self._bucket.place} cannot become that of `{environment}` where it is",
            help=f"run `{migrate}` in that environment",
            advice=(migrate,),
        )

    # After `retire`, every method but `export`, `import_` and `revive` raises StateMoved, in every process.

    async def export(self) -> StateDump:
        """All that the state holds, as of one moment, not verified; also of one that has moved.

        Raises StoreError when there is none.
        """
        return await self._in_thread(self.exported)

    async def import_(self, contents: StateDump) -> None:
        """Make a state that holds exactly this; all of it appears, or nothing.

        With `contents.moved_to` it is only a copy, and says so (StateMoved) until `revive`. Raises
        StoreError when there is a state already, or traces of one; but a state of the same lineage that has
        moved away is replaced.
        """
        await self._in_thread(lambda: moving.write(self._bucket, self._layout, contents, self._nonce))
        await self.close()  # what was known is of the state before

    async def retire(self, to: str, contents: StateDump) -> None:
        """The state is at `to` from now on. Raises StoreError, and changes nothing, when it does not hold
        exactly `contents` any more (epochs aside), as one write that nobody can come between.
        """
        await self._in_thread(lambda: self._retire(to, contents))

    async def revive(self) -> None:
        """Be the state itself again, after `retire` or as a copy."""
        await self._in_thread(lambda: self._replace_root(*self._require_root(), moved_to=""))

    async def accept(self) -> None:
        """Go on with what is there now, also where a part of it was put back to an older copy."""
        await self._in_thread(lambda: root.accept(self._bucket, self._layout, self._nonce()))
        self._opened = self._loaded = None

    async def probe(self) -> bool:
        """Let several writers change one thing at the same time, apart from any state; leave nothing behind.

        False where that needs no proof. Raises StoreError that says which promise the store broke.
        """
        if self._bucket.is_sure:
            return False
        await self._in_thread(
            lambda: writes.probe(self._bucket, f"{self._layout.prefix}{root.PROBE}", self._nonce)
        )
        return True

    async def close(self) -> None:
        """As in `Store`. What this handle knows is forgotten."""
        self._exclusion.close()
        self._opened = self._loaded = None

    async def _wait(self, locked: Locked, ends_s: float) -> None:
        """Wait until another try can succeed. Raises `locked` when time is over, if the holder lives."""
        rest_s = ends_s - self._clock.monotonic() if locked.rest_s is None else locked.rest_s
        if rest_s <= 0:
            raise locked
        await self._clock.sleep(min(self._exclusion.poll_s, rest_s))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def explaining() -> T:
            with explained(self._bucket):
                return work()

        if self._bucket.is_quick:
            await checkpoint()
            return explaining()
        # Shielded: a lease that was taken must reach who asked for it.
        with anyio.CancelScope(shield=True):
            result = await to_thread.run_sync(explaining)
        return result  # noqa: RET504 - mypy takes the block for one that may swallow what it raises

    # --- in a worker thread ---

    def _load(self) -> State:
        for _ in range(_LOOKS):
            with suppress(Contradiction):  # the root may have been read a moment too early
                return self._load_once()
        return self._load_once()

    def _load_once(self) -> State:
        found, listed = self._root_and_heads()
        if found is None:
            return State("", {}, (), frozenset())
        opened = self._open(found)
        with collector_paused():
            opened.scopes.keep_up(found, listed)
            state = reading.state_of(opened.scopes, found.lineage, found.scopes)
        if self._loaded is None or self._loaded.version != state.version:
            self._loaded = state
        return self._loaded

    def _journal(self) -> Sequence[tuple[str, JournalEntry]]:
        if self._root() is None:
            return ()
        return [(row.scope, reading.entry_of(row.columns)) for row in self.exported().rows]

    def exported(self) -> StateDump:
        """As `export`, and blocks."""
        for _ in range(_LOOKS):
            known, _tag = self._require_root()
            with suppress(Gone, Contradiction):  # it is merged while it is read
                return moving.dump(self._open(known), known)
        known, _tag = self._require_root()
        return moving.dump(self._open(known), known)

    def _verify(self) -> None:
        root.require_here(self._bucket, self._require_root()[0])
        wholes.verify(self.exported())

    def _retire(self, to: str, contents: StateDump) -> None:
        """First the root says that the state moves: a lease that is taken from then on takes that back.

        Then every lease from before is ended, and what stands there now is compared once more.
        """
        known, tag = self._require_root()
        self._refuse_other(known, to, contents)
        if known.moved_to == to:
            return
        known, tag = self._replace_root(known, tag, moving=True)
        leases = self._open(known).leases
        for name in sorted(known.scopes):
            leases.fence(name)  # nobody who holds it can write or check any more
        self._refuse_other(known, to, contents)
        self._replace_root(known, tag, moving=False, moved_to=to)

    def _refuse_other(self, known: Root, to: str, contents: StateDump) -> None:
        if known.moved_to not in ("", to) or not same(self.exported(), contents):
            raise has_changed(self._bucket.place)

    def _require_root(self) -> tuple[Root, str]:
        """Also of a state that has moved, with its tag."""
        return root.require(self._bucket, self._layout)

    def _replace_root(self, known: Root, tag: str, **fields: Any) -> tuple[Root, str]:
        """Write what follows from `known` over the root with this tag; returns it with its own tag."""
        after = replace(known.next(self._nonce()), **fields)
        outcome = writes.replace(self._bucket, self._layout.root, after.encode(), tag)
        if isinstance(outcome, writes.Conflict):
            raise has_changed(self._bucket.place)
        return after, outcome.tag

    def _create(self) -> bool:
        if root.read(self._bucket, self._layout) is not None:
            self._root()
            return False
        root.refuse_foreign(self._bucket, self._layout)
        lineage = str(uuid.UUID(bytes=self._randomness(16), version=4))
        new = Root(lineage, self._layout.environment, self._fingerprint_key(), self._nonce(), self._nonce())
        self._forbid_read_only()
        made = writes.create(self._bucket.renewed(lineage), self._layout.root, new.encode())
        return isinstance(made, writes.Stored)

    def _fingerprint_key(self) -> bytes:
        found = self._root()
        if found is not None:
            return found.key
        self._new_key = self._new_key or self._randomness(_KEY_BYTES)
        return self._new_key

    def _take(self, scopes: Sequence[str], holder: str) -> Lease | Locked:
        doubt: Raced | Gone | Contradiction = Raced()
        for _ in range(_RACES):
            opened, known = self._require_state()
            self._forbid_read_only()
            if not scopes:
                return Lease(holder, {})
            try:
                taken = opened.leases.take(scopes, holder, known)
            except (Raced, Gone, Contradiction) as raised:
                doubt = raised
                continue
            if isinstance(taken, Lease):
                try:
                    self._load()
                except BaseException:
                    with suppress(StoreError):
                        opened.leases.give_back(taken)
                    raise
            return taken
        if not isinstance(doubt, Raced):
            raise doubt
        raise StoreError(f"others were faster {_RACES} times to lock `{scopes[0]}`", help="run again")

    def _obstacles(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        found = self._root()
        if found is None:
            return {}
        return self._open(found).leases.obstacles([scope for scope in scopes if scope in found.scopes])

    def _release(self, lease: Lease) -> None:
        if self._opened is not None:
            self._opened.leases.give_back(lease)

    def _root(self) -> Root | None:
        """None where there is no state. Raises StateMoved, and Damaged where only its root is missing."""
        found = root.read(self._bucket, self._layout)
        if found is None:
            if not any("/heads/" in key for key in root.traces_of(self._bucket, self._layout)):
                return None
            found = root.read(self._bucket, self._layout)
            if found is None:  # nobody has made one meanwhile
                raise Damaged("state.json is missing")
        root.require_here(self._bucket, found[0])
        return found[0]

    def _root_and_heads(self) -> tuple[Root | None, Mapping[str, str] | None]:
        """The root, and a list of the heads, asked for at the same time once it is known where they are."""
        if self._opened is None:
            return self._root(), None
        heads = self._opened.layout.heads
        asks: list[Callable[[], Any]] = [self._root, lambda: self._bucket.list(heads)]
        found, listed = self._bucket.in_parallel(lambda ask: ask(), asks)
        return found, listed

    def _require_state(self) -> tuple[Opened, Root]:
        found = self._root()
        if found is None:
            raise no_state(self._bucket.place)
        return self._open(found), found

    def _open(self, found: Root) -> Opened:
        if self._opened is None:
            self._opened = Opened(
                self._bucket,
                Layout(self._layout.environment, found.generation),
                self._clock,
                found,
                exclusion=self._exclusion,
                nonce=self._nonce,
            )
        elif self._opened.layout.folder != Layout(self._layout.environment, found.generation).folder:
            raise StoreError(
                f"the state {self._bucket.place} was replaced by another one during this run",
                help="run again",
            )
        return self._opened

    def _writable(self, lease: Lease) -> Opened:
        if self._opened is None:
            raise no_longer_ours(lease.scopes[0])
        return self._opened

    def _forbid_read_only(self) -> None:
        if self._read_only:
            raise StoreError(f"the state {self._bucket.place} was opened to be read only")

    def _nonce(self) -> str:
        return self._randomness(8).hex()
