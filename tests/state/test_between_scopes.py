"""A record that moves to another scope, and a process that dies on the way."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.between_scopes import move
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import JournalEntry, Lease, Store
from tests.state.worlds import DATA, NOON, SimulatedClock, record

POSTS = Address("Volume", "posts", "blog")
SCOPES = ("blog", "shop")


class Dying(Store):
    """Takes `left` commits and no more, before it answers that one was stored or (`after`) after it."""

    def __init__(self, inner: Store, left: int, *, after: bool) -> None:
        super().__init__(inner)
        self._left = left
        self._after = after

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        self._left -= 1
        if self._left >= 0 or (self._after and self._left == -1):
            stored = await super().commit(lease, entries, put, remove)
        if self._left < 0:
            raise StoreError("the process is dead")
        return stored


class State:
    """One state, opened as each process would open it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.clock = SimulatedClock()
        self.opened: list[Spooling] = []
        self._kind = kind
        self._folder = folder
        self._memory = MemoryState(self.clock)

    def open(self) -> Spooling:
        memory = self._kind == "memory"
        inner: Store = (
            MemoryStore(self._memory) if memory else SqliteStore(self._folder / "state.db", self.clock)
        )
        self.opened.append(Spooling(inner, self._folder / "state.db.spool", self.clock))
        return self.opened[-1]


@pytest.fixture(params=["memory", "sqlite"])
async def state(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[State]:
    found = State(request.param, tmp_path)
    await found.open().create()
    yield found
    for store in found.opened:
        await store.close()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("commits", [0, 1, 2])
async def test_a_move_that_ends_anywhere_has_happened_once_or_not_at_all(
    state: State, commits: int, after: bool
) -> None:
    first = state.open()
    lease = await first.lease(SCOPES, "anna")
    (source,) = await first.commit(lease.of("shop"), [], [record()])
    dying = Dying(first, commits, after=after)
    try:
        await move(dying, lease, source, POSTS, "blog", "r1", NOON)
        ended = True
    except StoreError:
        ended = False
    assert ended is (commits == 2)
    await first.close()
    moved = commits > 0 or after
    expected = {POSTS: "vol_data"} if moved else {DATA: "vol_data"}

    shown = await state.open().load()
    assert {address: each.id for address, each in shown.records.items()} == expected
    for scope in SCOPES:  # in which order does not matter
        store = state.open()
        await store.release(await store.lease([scope], "ben"))
        later = await store.load()
        assert later.records == shown.records
        await store.close()
    assert later.half_moved == ()
    if moved:
        store = state.open()
        (another,) = await store.commit(await store.lease(["shop"], "carl"), [], [record(size_gb=20)])
        assert (await store.load()).records[DATA] == another
