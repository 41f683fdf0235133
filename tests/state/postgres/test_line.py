"""The connection to PostgreSQL is cut at the worst moments: nothing is lost, and nothing is stored twice."""

from collections.abc import Iterator

import anyio
import pytest
from anyio import to_thread
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.state.postgres.line import LIMITS
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.store import Event, Lease
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.postgres.proxy import Fate, Proxy, proxied
from tests.state.worlds import entry, record

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

INTENT = entry(Event.INTENT)
COMMIT = b"\nCOMMIT"


@pytest.fixture
def line(database: Postgres) -> Iterator[tuple[Proxy, str]]:
    with proxied(database.url) as made:
        yield made


@pytest.fixture
def proxy(line: tuple[Proxy, str]) -> Proxy:
    return line[0]


@pytest.fixture
async def store(handles: Handles, line: tuple[Proxy, str]) -> PostgresStore:
    """Reaches the server through the proxy."""
    store = handles.open(url=line[1])
    await store.create()
    return store


@pytest.fixture
async def lease(store: PostgresStore) -> Lease:
    return await store.lease(["shop"], "me")


async def journal(handles: Handles) -> list[object]:
    other = handles.open()
    await other.verify()
    return [each for _, each in await other.journal()]


@pytest.mark.parametrize("marker", [b"BEGIN", COMMIT])
@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_a_commit_that_loses_its_connection_is_stored_once(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease, marker: bytes, fate: Fate
) -> None:
    proxy.once(fate, marker)
    (stored,) = await store.commit(lease, [INTENT], [record()])
    assert proxy.connections == 2
    assert await journal(handles) == [INTENT]
    assert (await handles.open().load()).records == {stored.address: stored}
    assert stored.serial == 1


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_a_commit_without_entries_is_stored_once(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease, fate: Fate
) -> None:
    proxy.once(fate, COMMIT)
    (stored,) = await store.commit(lease, [], [record()])
    assert stored.serial == 1
    (again,) = await store.commit(lease, [], [replace(stored, id="vol_2")])
    assert again.serial == 2
    assert (await handles.open().load()).records == {again.address: again}


async def test_whether_a_commit_landed_is_found_out_only_when_it_can_no_more(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease
) -> None:
    """Its COMMIT arrives after the client has called again: the locks of its transaction decide."""
    proxy.reconnected.clear()
    proxy.once(Fate.LATE, COMMIT)
    async with anyio.create_task_group() as both:
        both.start_soon(store.commit, lease, [INTENT], [record()])
        await to_thread.run_sync(proxy.reconnected.wait)
        proxy.late.set()
    assert await journal(handles) == [INTENT]


@pytest.mark.parametrize("fate", [Fate.HALF, Fate.LATE])
async def test_a_transaction_that_nobody_ends_is_ended_by_the_server(
    handles: Handles,
    proxy: Proxy,
    store: PostgresStore,
    lease: Lease,
    monkeypatch: pytest.MonkeyPatch,
    fate: Fate,
) -> None:
    """The server does not see that the client is gone, or stands still while it sends."""
    text, (statement, lock, _) = LIMITS
    monkeypatch.setattr("reconciler.state.postgres.commits.LIMITS", (text, [statement, lock, "300ms"]))
    proxy.once(fate, COMMIT)
    await store.commit(lease, [INTENT], [record()])
    assert await journal(handles) == [INTENT]


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_a_lost_commit_is_told_as_it_is_where_another_has_the_lease_by_now(
    handles: Handles,
    proxy: Proxy,
    store: PostgresStore,
    lease: Lease,
    monkeypatch: pytest.MonkeyPatch,
    fate: Fate,
) -> None:
    """Between the cut and the new connection, the lease ends, and another takes it and commits."""
    other, sleep = handles.open(), handles.clock.sleep
    his = entry(Event.INTENT, "his")

    async def be_overtaken(seconds: float) -> None:
        monkeypatch.setattr(handles.clock, "sleep", sleep)
        handles.clock.elapsed_s += handles.lease_s
        await other.commit(await other.lease(["shop"], "ben"), [his])

    monkeypatch.setattr(handles.clock, "sleep", be_overtaken)
    proxy.once(fate, COMMIT)
    if fate is Fate.LOST:
        with pytest.raises(StoreError, match="the lease of `shop` is no longer ours"):
            await store.commit(lease, [INTENT])
        assert await journal(handles) == [his]
    else:
        await store.commit(lease, [INTENT])
        assert await journal(handles) == [INTENT, his]


@pytest.mark.parametrize("marker", [b"FOR UPDATE", b"UPDATE reconcile.leases", COMMIT])
@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_a_lease_that_loses_its_connection_is_taken_once(
    handles: Handles, proxy: Proxy, store: PostgresStore, marker: bytes, fate: Fate
) -> None:
    proxy.once(fate, marker)
    lease = await store.lease(["blog", "shop"], "me")
    assert dict(lease.epochs) == {"blog": 1, "shop": 1}
    await store.check(lease)


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_a_state_is_made_once_over_a_bad_line(
    handles: Handles, line: tuple[Proxy, str], fate: Fate
) -> None:
    proxy, url = line
    for marker in (b"CREATE SCHEMA", b"INSERT INTO reconcile.states"):
        proxy.once(fate, marker)
        store = handles.open(url=url, environment=marker.decode()[:6].lower())
        assert await store.create()
        assert not await store.create()


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_reading_goes_on_after_the_connection_was_lost(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease, fate: Fate
) -> None:
    (stored,) = await store.commit(lease, [INTENT], [record()])
    proxy.once(fate, b"FROM reconcile.records")
    assert (await store.load()).records == {stored.address: stored}
    proxy.once(fate, b"reconcile.leases")
    await store.check(lease)
    proxy.once(fate, b"UPDATE reconcile.leases")
    await store.renew(lease)
    proxy.once(fate, b"UPDATE reconcile.leases")
    await store.release(lease)
    assert await store.holders(["shop"]) == {}


async def test_a_server_that_restarts_ends_no_run(
    handles: Handles, database: Postgres, store: PostgresStore, lease: Lease
) -> None:
    for number in range(3):
        database.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        await store.commit(lease, [entry(Event.INTENT, f"s{number}")])
    assert len(await journal(handles)) == 3


async def test_a_server_that_stays_away_is_told(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease
) -> None:
    proxy.fate = lambda sent: Fate.LOST
    with pytest.raises(StoreError, match="cannot be reached"):
        await store.commit(lease, [INTENT])
    assert handles.clock.elapsed_s >= 20  # it was called again and again
    proxy.fate = lambda sent: Fate.PASS
    assert await journal(handles) == []


async def test_commits_of_two_scopes_are_in_flight_at_once(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease
) -> None:
    """One transaction has read and locked all that it needs, and stands still; the other passes by it."""
    reached = anyio.Event()
    passed = anyio.Event()
    ask = store._line.ask

    async def stand_still(*statements):  # type: ignore[no-untyped-def]
        if any(text.startswith("INSERT INTO reconcile.journal") for text, _ in statements):
            reached.set()
            await passed.wait()
        return await ask(*statements)

    store._line.ask = stand_still  # type: ignore[method-assign]
    other = handles.open()
    async with anyio.create_task_group() as both:
        both.start_soon(store.commit, lease, [INTENT], [record()])
        await reached.wait()
        blog = await other.lease(["blog"], "ben")
        await other.commit(blog, [entry(Event.INTENT, "in blog")])
        assert len((await other.load()).open_intents) == 1
        passed.set()
    assert len((await other.load()).open_intents) == 2
    await other.verify()
