"""The connection to PostgreSQL is cut at the worst moments: nothing is lost, and nothing is stored twice."""

from collections.abc import Iterator

import anyio
import psycopg
import pytest
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Found
from reconciler.state.places.postgres.bucket import TableBucket
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import Event, Lease
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.postgres.proxy import Fate, Proxy, proxied
from tests.state.worlds import entry, record, renew

pytestmark = pytest.mark.slow

INTENT = entry(Event.INTENT)
WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
HEAD = b"/heads/shop"  # in each message that reads or writes it


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


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED, Fate.HALF])
async def test_a_commit_that_loses_its_connection_is_stored_once(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease, fate: Fate
) -> None:
    proxy.once(fate, HEAD)
    (stored,) = await store.commit(lease, [INTENT], [record()])
    assert await journal(handles) == [INTENT]
    assert (await handles.open().load()).records == {stored.address: stored}
    assert stored.serial == 1


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_a_commit_without_entries_is_stored_once(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease, fate: Fate
) -> None:
    proxy.once(fate, HEAD)
    (stored,) = await store.commit(lease, [], [record()])
    assert stored.serial == 1
    (again,) = await store.commit(lease, [], [replace(stored, id="vol_2")])
    assert again.serial == 2
    assert (await handles.open().load()).records == {again.address: again}


async def test_a_commit_that_arrives_after_it_was_sent_again_changes_nothing(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease
) -> None:
    """It writes over a head that is not there any more."""
    proxy.once(Fate.LATE, HEAD)
    (stored,) = await store.commit(lease, [INTENT], [record()])
    proxy.late.set()
    (again,) = await store.commit(lease, [entry(Event.DONE)], [replace(stored, id="vol_2")])
    assert again.serial == 2
    assert await journal(handles) == [INTENT, entry(Event.DONE)]


async def test_no_transaction_is_left_open_whatever_is_cut(
    handles: Handles, database: Postgres, proxy: Proxy, store: PostgresStore, lease: Lease
) -> None:
    """The server does not see that a client is gone, or stands still while it sends."""
    proxy.once(Fate.HALF, HEAD)
    await store.commit(lease, [INTENT], [record()])
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    assert database.rows(open_ones) == [(0,)]


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
    his, other, read = entry(Event.INTENT, "his"), handles.open(), TableBucket.get

    async def take() -> None:
        handles.clock.elapsed_s += handles.lease_s
        await other.commit(await other.lease(["shop"], "ben"), [his])

    def read_late(table: TableBucket, key: str) -> Found | None:
        monkeypatch.undo()
        anyio.from_thread.run(take)
        return read(table, key)

    monkeypatch.setattr(TableBucket, "get", read_late)
    proxy.once(fate, HEAD)
    if fate is Fate.LOST:
        with pytest.raises(StoreError, match="the lease of `shop` is no longer ours"):
            await store.commit(lease, [INTENT])
        assert await journal(handles) == [his]
    else:
        await store.commit(lease, [INTENT])
        assert await journal(handles) == [INTENT, his]


@pytest.mark.parametrize("marker", [HEAD, b"INSERT INTO reconcile.objects", b"UPDATE reconcile.objects"])
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
    for marker in (b"CREATE TABLE", b"INSERT INTO reconcile.objects"):
        proxy.once(fate, marker)
        store = handles.open(url=url, environment=marker.decode()[:6].lower())
        assert await store.create()
        assert not await store.create()


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNANSWERED])
async def test_reading_goes_on_after_the_connection_was_lost(
    handles: Handles, proxy: Proxy, store: PostgresStore, lease: Lease, fate: Fate
) -> None:
    (stored,) = await store.commit(lease, [INTENT], [record()])
    proxy.once(fate, b"FROM reconcile.objects")
    assert (await store.load()).records == {stored.address: stored}
    handles.clock.elapsed_s += 1  # the commit of an intent serves a check for a moment only
    proxy.once(fate, b"/leases/")
    await store.check(lease)
    proxy.once(fate, b"UPDATE reconcile.objects")
    await renew(store, lease)
    proxy.once(fate, b"DELETE FROM reconcile.objects")
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
    handles: Handles, database: Postgres, store: PostgresStore, lease: Lease
) -> None:
    """One waits for its head, and the other passes by it."""
    other = handles.open()
    async with anyio.create_task_group() as both:
        with psycopg.connect(database.url) as blocking:
            blocking.execute("SELECT FROM reconcile.objects WHERE key LIKE '%/heads/shop' FOR UPDATE")
            both.start_soon(store.commit, lease, [INTENT], [record()])
            while database.rows(WAITS) == [(0,)]:
                await anyio.sleep(0.01)
            blog = await other.lease(["blog"], "ben")
            await other.commit(blog, [entry(Event.INTENT, "in blog")])
            assert len((await other.load()).open_intents) == 1
    assert len((await other.load()).open_intents) == 2
    await other.verify()
