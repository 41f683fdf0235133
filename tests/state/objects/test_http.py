"""S3 over HTTP, whose answers get lost on the way; and what people are told when it does not work."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import anyio
import pytest

from reconciler.core.errors import StoreError
from reconciler.state.contents import verify
from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.bucket import open_objects
from reconciler.state.store import Event
from tests.state.objects.conftest import S3
from tests.state.objects.proxy import HttpFault, Proxy, proxying
from tests.state.worlds import SimulatedClock, entry

pytestmark = pytest.mark.slow

FAULTS: tuple[HttpFault, ...] = ("answer lost", "request lost", "503", "503 after it landed")


@pytest.fixture
def proxy(moto_server: str) -> Iterator[Proxy]:
    with proxying(moto_server) as proxy:
        yield proxy


@pytest.fixture
def through(s3: S3, proxy: Proxy, clock: SimulatedClock) -> Callable[[], LogStore]:
    """Opens a store behind the proxy."""
    return lambda: LogStore(replace(s3, endpoint=proxy.url).open(), clock)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_commit_whose_answer_is_lost_is_stored_once_and_sent_once(
    through: Callable[[], LogStore], proxy: Proxy, fault: HttpFault
) -> None:
    store = through()
    await store.create()
    lease = await store.lease(["shop"], "me")
    for number in range(5):
        faults: list[HttpFault] = [fault]
        proxy.choose = lambda method, path, left=faults: left.pop() if left and method == "PUT" else ""  # type: ignore[misc]
        proxy.seen.clear()
        await store.commit(lease, [entry(Event.INTENT, f"s{number}")])
        landed = fault in ("answer lost", "503 after it landed")
        assert Counter(method for method, _ in proxy.seen) == {"PUT": 1 if landed else 2, "GET": 1}
    verify(await through().export())
    assert len((await through().load()).open_intents) == 5


async def test_nothing_is_lost_or_there_twice_where_every_third_request_fails(
    through: Callable[[], LogStore], proxy: Proxy
) -> None:
    store = through()
    await store.create()
    lease = await store.lease(["blog", "shop"], "me")
    count = iter(range(100_000))
    proxy.choose = lambda method, path: FAULTS[number % 4] if (number := next(count)) % 3 == 0 else ""
    stored, unknown = [], []

    async def commit(scope: str, step: str) -> None:
        try:
            await store.commit(lease.of(scope), [entry(Event.INTENT, step, scope=scope)])
        except StoreError as error:
            unknown.append((step, error.message))
        else:
            stored.append(step)

    async with anyio.create_task_group() as tasks:
        for number in range(60):
            tasks.start_soon(commit, ("blog", "shop")[number % 2], f"s{number}")
    proxy.choose = lambda method, path: ""
    steps = Counter(each.step for each in (await through().load()).open_intents)
    assert set(steps.values()) == {1}
    assert set(steps) >= set(stored)
    assert set(steps) <= {*stored, *(step for step, _ in unknown)}
    assert all("did not take a change" in message for _, message in unknown)
    verify(await through().export())


async def test_a_store_that_stays_away_is_told(through: Callable[[], LogStore], proxy: Proxy, s3: S3) -> None:
    store = through()
    await store.create()
    lease = await store.lease(["shop"], "me")
    proxy.choose = lambda method, path: "503" if method == "PUT" else ""
    with pytest.raises(StoreError) as refused:
        await store.commit(lease, [entry(Event.INTENT)])
    assert refused.value.message == (
        f"the state {s3.url} did not take a change: the store answered with status 503"
    )
    proxy.choose = lambda method, path: "request lost"
    with pytest.raises(StoreError, match="cannot be reached: the connection to the store broke"):
        await through().load()


async def test_a_missing_bucket_is_told(s3: S3, clock: SimulatedClock) -> None:
    missing = replace(s3, url="s3://no-such-bucket/team/state")
    for attempt in ("load", "create", "fingerprint_key"):
        store = open_objects(missing.url, clock, variables=missing.variables)
        with pytest.raises(
            StoreError, match="the bucket of the state s3://no-such-bucket/team/state does not"
        ):
            await getattr(store, attempt)()


async def test_a_key_that_may_only_read_is_enough_to_load_and_is_told_when_it_writes(
    through: Callable[[], LogStore], proxy: Proxy
) -> None:
    store = through()
    await store.create()
    lease = await store.lease(["shop"], "me")
    proxy.choose = lambda method, path: "AccessDenied" if method == "PUT" else ""
    reader = through()
    assert (await reader.load()).lineage
    assert await reader.fingerprint_key()
    assert set(await reader.holders(["shop"])) == {"shop"}
    for attempt in (reader.lease(["blog"], "me"), store.commit(lease, [entry(Event.INTENT)])):
        with pytest.raises(StoreError, match="these credentials may not write the state"):
            await attempt


async def test_wrong_credentials_are_told_without_repeating_them(
    through: Callable[[], LogStore], proxy: Proxy
) -> None:
    proxy.choose = lambda method, path: "InvalidAccessKeyId"
    with pytest.raises(StoreError, match="does not accept these credentials") as refused:
        await through().load()
    assert "secret" not in str(refused.value.__cause__) + refused.value.message


async def test_nobody_at_the_endpoint_is_told(s3: S3, clock: SimulatedClock) -> None:
    with proxying(s3.endpoint) as proxy:
        gone = replace(s3, endpoint=proxy.url)
    with pytest.raises(StoreError, match="cannot be reached: no connection to the store"):
        await open_objects(gone.url, clock, variables=gone.variables).load()


async def test_a_prefix_with_other_files_is_refused(s3: S3, clock: SimulatedClock) -> None:
    s3.open().create("photo.jpg", b"jpg")
    with pytest.raises(StoreError, match=r"holds files that do not belong to a state, such as photo\.jpg"):
        await LogStore(s3.open(), clock).create()


async def test_environments_stand_beside_each_other(s3: S3, clock: SimulatedClock) -> None:
    stores = {name: LogStore(s3.open(), clock, environment=name) for name in ("", "staging", "prod")}
    for name, store in stores.items():
        assert await store.create(), name
    assert len({(await store.load()).lineage for store in stores.values()}) == 3
    assert not await LogStore(s3.open(), clock, environment="prod").create()


async def test_a_read_only_handle_writes_nothing(s3: S3, clock: SimulatedClock) -> None:
    store = open_objects(s3.url, clock, variables=s3.variables, read_only=True)
    with pytest.raises(StoreError, match="was opened to be read only"):
        await store.create()
    await LogStore(s3.open(), clock).create()
    assert (await store.load()).lineage
    with pytest.raises(StoreError, match="was opened to be read only"):
        await store.lease(["shop"], "me")


@pytest.mark.parametrize(
    "url",
    ["s3://", "s3:bucket", "s3://[bucket", "s3://key:secret@bucket/prefix", "s3://bucket/prefix?versionId=1"],
)
def test_a_url_that_names_no_place_is_refused_without_repeating_it(url: str, clock: SimulatedClock) -> None:
    with pytest.raises(StoreError, match="the state's URL names no place in an object store") as refused:
        open_objects(url, clock, variables={})
    assert "secret" not in refused.value.message + refused.value.help
