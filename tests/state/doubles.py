"""Stores for tests of what uses one: a state made on purpose, in memory, behind wrappers that misbehave."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import anyio

from reconciler.core.clock import Clock, SystemClock
from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.execution.decisions import Actor
from reconciler.project.identity import create_state, set_platform
from reconciler.state.places.memory import MemoryState, MemoryStore, holding_state
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, Lease, State, Store


def made(clock: Clock, lease_s: float = math.inf, lineage: str = "lineage-1") -> MemoryStore:
    """A store of an empty state that was made on purpose."""
    return MemoryStore(known_as(lineage, bytes(range(32)), clock, lease_s))


def known_as(lineage: str, key: bytes, clock: Clock, lease_s: float = math.inf) -> MemoryState:
    return holding_state(State(lineage, {}, (), frozenset()), key, clock, lease_s)


def make_state(root: Path, environment: str = "", file: str = "state.db") -> None:
    """What `reconcile state init` does in the project `root`, for tests of what comes after it."""

    async def make() -> None:
        path = root / ".reconcile" / environment / file
        store = SqliteStore(path, SystemClock(), environment=environment)
        await create_state(store, Actor(SystemClock(), "test"))
        await store.close()

    anyio.run(make)


def word_of(root: Path, environment: str = "") -> str:
    """What approvals of creates name besides the address, in the project `root`."""

    async def ask() -> str:
        path = root / ".reconcile" / environment / "state.db"
        store = SqliteStore(path, SystemClock(), environment=environment, read_only=True)
        lineage = (await store.load()).lineage
        await store.close()
        return lineage[:8]

    return anyio.run(ask)


def move_platform(root: Path, url: str) -> None:
    """What `reconcile state set-platform URL` does in the project `root`: a sandbox has another port."""

    async def move() -> None:
        store = SqliteStore(root / ".reconcile/state.db", SystemClock(), backups=False)
        await set_platform(store, url, Actor(SystemClock(), "test"))
        await store.close()

    anyio.run(move)


def holding(
    state: State, clock: Clock, key: bytes = bytes(range(32)), at_work: Mapping[str, str] = {}
) -> MemoryStore:
    """A store that holds `state` as it stands. `at_work`: who has been holding which scope for 12 s."""
    known = holding_state(state, key, clock)
    earlier = MemoryStore(dataclasses.replace(known, clock=_Earlier(clock)))
    for scope, name in at_work.items():
        earlier._take([scope], name)
    return MemoryStore(known)


class _Earlier:
    """A clock of 12 s ago."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic, self.sleep = clock.monotonic, clock.sleep

    def now(self) -> datetime:
        return self._clock.now() - timedelta(seconds=12)


def read_only(state: State, clock: Clock, folder: Path, at_work: Mapping[str, str] = {}) -> Spooling:
    """`state` for who may only look: planning must want nothing else of it. `at_work`: see `holding`."""
    held = ReadOnly(holding(state, clock, at_work=at_work), state.spooled)
    return spooling(held, clock, folder)


def spooling(store: Store, clock: Clock, folder: Path) -> Spooling:
    return Spooling(store, folder / "outcomes.spool", clock)


class Unwritable(Store):
    """Gives leases, and takes no commit."""

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        raise StoreError("nothing may be written here")


class ReadOnly(Unwritable):
    """Gives no lease either. `spooled`: the scopes with outcomes in a file, as if one were read."""

    def __init__(self, inner: Store, spooled: frozenset[str] = frozenset()) -> None:
        super().__init__(inner)
        self._spooled = spooled

    async def load(self, scopes: Collection[str] | None = None) -> State:
        return dataclasses.replace(await super().load(scopes), spooled=self._spooled)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        raise StoreError("nobody may take a lease here")


class Failing(Store):
    """The disk fills up at the first commit of `event`."""

    def __init__(self, inner: Store, event: Event) -> None:
        super().__init__(inner)
        self._event = event

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        if any(entry.event is self._event for entry in entries):
            raise StoreError("the disk is full")
        return await super().commit(lease, entries, put, remove)


class NoRoom(Spooling):
    """Nor can anything be spooled."""

    async def spool(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> str:
        raise StoreError("no other disk either")
