"""Who may do what, on which database, and what is told where it does not work: never with a password."""

from collections.abc import Callable

import anyio
import pytest
from msgspec.structs import replace

from reconciler.core.errors import Locked, ReconcilerError, StoreError
from reconciler.execution.decisions import Actor, recall, remember
from reconciler.project.identity import create_state
from reconciler.state.places.postgres.bucket import TableBucket
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.places.postgres.url import DatabaseUrl
from reconciler.state.store import WHOLE_STATE, Event
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.worlds import entry, record, renew

pytestmark = pytest.mark.slow

SECRET = "hunter2/p@ss:w?rd"
ENCODED = "hunter2%2Fp%40ss%3Aw%3Frd"


def role(database: Postgres, name: str, *grants: str) -> str:
    """The URL of a new role that has only what it is granted."""
    rest = database.url.rpartition("@")[2]
    name = f"{name}_{rest.rpartition('/')[2]}"
    database.rows(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
    for grant in grants:
        database.rows(f"GRANT {grant} TO {name}")
    return f"postgresql://{name}:{ENCODED}@{rest}"


def reader(database: Postgres) -> str:
    return role(database, "reader", "USAGE ON SCHEMA reconcile", "SELECT ON ALL TABLES IN SCHEMA reconcile")


def told(failure: ReconcilerError) -> str:
    return f"{failure!r} {failure.message} {failure.help} {failure.advice} {failure.args}"


async def test_a_role_that_may_only_read_is_enough_to_look(handles: Handles, database: Postgres) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)], [record()])
    looking = handles.open(url=reader(database))
    assert await looking.load() == await store.load()
    assert await looking.fingerprint_key() == await store.fingerprint_key()
    assert set(await looking.holders(["shop"])) == {"shop"}
    assert len(await looking.journal()) == 1
    await looking.verify()


async def test_a_role_that_may_only_read_is_told_at_apply(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    looking = handles.open(url=reader(database))
    with pytest.raises(StoreError, match="the role may not do this") as refused:
        await looking.lease(["shop"], "me")
    assert "INSERT" in refused.value.help
    assert (await looking.load()).records == {}  # the connection is of use after that


async def test_a_role_without_rights_is_told(handles: Handles, database: Postgres) -> None:
    store = handles.open(url=role(database, "nobody"))
    assert (await store.load()).lineage == ""  # no state is there, for anybody
    with pytest.raises(StoreError, match="the role may not do this") as refused:
        await store.create()
    assert "CREATE on the database" in refused.value.help
    await handles.open().create()
    with pytest.raises(StoreError, match="permission denied for schema reconcile"):
        await handles.open(url=role(database, "stranger")).load()


async def test_a_role_that_owns_no_schema_can_apply(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reconcile"
    store = handles.open(url=role(database, "worker", "USAGE ON SCHEMA reconcile", rights))
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)], [record()])
    await renew(store, lease)
    await store.release(lease)
    with pytest.raises(StoreError):
        await store.unlock("nothing", force=True)
    assert "free" in await store.unlock("shop", force=False)


@pytest.mark.parametrize("handles_at_once", [2, 5])
async def test_first_creates_at_the_same_moment_make_one_state(
    handles: Handles, handles_at_once: int
) -> None:
    made: list[bool] = []

    async def create(store: PostgresStore) -> None:
        made.append(await store.create())

    async with anyio.create_task_group() as group:
        for _ in range(handles_at_once):
            group.start_soon(create, handles.open())
    assert sorted(made) == [False] * (handles_at_once - 1) + [True]
    assert len({await store.fingerprint_key() for store in handles.stores}) == 1
    assert len({(await store.load()).lineage for store in handles.stores}) == 1


async def test_a_state_made_between_two_looks_is_whole(
    handles: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = handles.open(), handles.open()
    looked = TableBucket._tables

    def slow_look(table: TableBucket, ask: object) -> object:
        monkeypatch.undo()
        anyio.from_thread.run(second.create)
        return looked(table, ask)  # type: ignore[arg-type]

    monkeypatch.setattr(TableBucket, "_tables", slow_look)
    assert not await first.create()
    assert (await first.load()).lineage == (await second.load()).lineage != ""


async def test_a_process_that_died_while_it_held_the_whole_state_keeps_nobody_out(handles: Handles) -> None:
    await handles.open().create()
    dying = handles.open()
    await dying.lease([WHOLE_STATE], "the dead")
    await dying.close()
    store = handles.open()
    with pytest.raises(Locked, match="the whole state has been locked by the dead for"):
        await store.lease([WHOLE_STATE], "me")
    await remember(store, Actor(handles.clock, "me"), "fact", lambda known: {"known": True})
    assert recall(await store.load(), "fact") == {"known": True}
    assert handles.lease_s <= handles.clock.elapsed_s < handles.lease_s + 10


async def test_each_environment_has_a_state_of_its_own(handles: Handles) -> None:
    base, prod = handles.open(), handles.open(environment="prod")
    assert await base.create()
    assert (await prod.load()).lineage == ""
    assert await prod.create()
    for store, name in ((base, "posts"), (prod, "data")):
        lease = await store.lease(["shop"], "me")  # both at once
        await store.commit(lease, [entry(Event.INTENT)], [record()])
        assert len((await store.load()).open_intents) == 1, name
    assert (await base.load()).lineage != (await prod.load()).lineage
    assert await base.fingerprint_key() != await prod.fingerprint_key()


async def test_an_environment_takes_the_state_of_none_over(handles: Handles) -> None:
    base = handles.open()
    await base.create()
    lease = await base.lease(["shop"], "me")
    await base.commit(lease, [entry(Event.INTENT)], [record()])
    await base.release(lease)
    before = await base.load()
    heir = handles.open()
    assert await heir.take_over("prod", by="anna")
    for store in (heir, handles.open(environment="prod")):
        assert (await store.load()) == before
        await store.verify()
    assert (await handles.open().load()).lineage == ""
    assert {"environment": "prod", "by": "anna"} in [each.data for _, each in await heir.journal()]
    assert not await handles.open().take_over("prod", by="anna")
    with pytest.raises(StoreError, match="there is no state"):
        await handles.open().take_over("test", by="anna")
    await handles.open().create()
    with pytest.raises(StoreError, match="one of `prod` already"):
        await handles.open().take_over("prod", by="anna")


async def test_nothing_is_taken_over_while_somebody_works_on_it(handles: Handles) -> None:
    base = handles.open()
    await base.create()
    lease = await base.lease(["shop"], "ben")
    with pytest.raises(Locked, match="locked by ben"):
        await handles.open().take_over("prod", by="anna")
    await base.commit(lease, [entry(Event.INTENT)], [record()])
    await base.release(lease)
    heir = handles.open()
    assert await heir.take_over("prod", by="anna")
    assert (await heir.lease(["shop"], "anna")).epochs == {"shop": 3}


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (["DROP TABLE reconcile.objects", "CREATE TABLE reconcile.jobs ()"], "is not whole: the schema"),
        (["ALTER TABLE reconcile.objects RENAME TO heads"], "is not whole: the schema"),
        (["ALTER TABLE reconcile.objects DROP tag"], "column .tag. does not exist"),
    ],
)
async def test_a_part_of_a_state_or_another_programs_tables_are_no_place_for_a_new_state(
    handles: Handles, database: Postgres, made: list[str], told: str
) -> None:
    await handles.open().create()
    for statement in made:
        database.rows(statement)
    for attempt in (handles.open().load, handles.open().verify):
        with pytest.raises(StoreError, match=told):
            await attempt()
    store = handles.open()
    with pytest.raises(StoreError, match=told):
        await create_state(store, Actor(handles.clock, "me"))


async def test_an_empty_schema_is_a_place_for_a_state(handles: Handles, database: Postgres) -> None:
    database.rows("CREATE SCHEMA reconcile")
    assert (await handles.open().load()).lineage == ""
    assert await handles.open().create()


async def test_a_state_that_was_replaced_takes_nothing(handles: Handles, database: Postgres) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    database.rows("DROP SCHEMA reconcile CASCADE")
    await handles.open().create()
    await handles.open().lease(["shop"], "me")
    with pytest.raises(StoreError):
        await store.commit(lease, [entry(Event.INTENT)])
    with pytest.raises(StoreError, match="no longer ours"):
        await store.check(lease)
    with pytest.raises(StoreError, match="replaced by another"):
        await store.load()
    assert await handles.open().journal() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda url: url.replace(":" + ENCODED, ""), "no password supplied|fe_sendauth"),
        (lambda url: url.replace(ENCODED, ENCODED + "x"), "password authentication failed"),
        (lambda url: url.rpartition("/")[0] + "/missing", 'database "missing" does not exist'),
        (lambda url: url + "?sslmode=require", "does not support SSL"),
        (lambda url: url.partition("@")[0] + "@127.0.0.1:1/state", "refused"),
        (lambda url: url.partition("@")[0] + "@no.such.host.invalid/state", "resolve|translate|not known"),
    ],
    ids=["none", "wrong", "database", "tls", "port", "host"],
)
async def test_what_cannot_be_reached_is_named_without_a_password(
    handles: Handles,
    database: Postgres,
    change: Callable[[str], str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    store = handles.open(url=change(role(database, "ann")))
    with pytest.raises(StoreError, match=message) as failed:
        await store.load()
    text = told(failed.value)
    assert "cannot be reached" in text
    assert "postgresql://" in text
    for secret in (SECRET, ENCODED, "hunter2"):
        assert secret not in text
    assert handles.clock.elapsed_s == 0  # a first connection is not tried again and again


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2/x@db/state",
        "postgresql://ann:hunter2@x@db/state",
        "postgresql://ann:12/hunter2@db/state",
        "postgresql://db:port/state?password=hunter2",
        "postgresql://db/state?passwort=hunter2",
        "postgresql://ann:hunter2%ZZ@db/state",
    ],
)
def test_a_url_that_libpq_would_not_take_is_refused_unrepeated(url: str) -> None:
    with pytest.raises(StoreError, match="not one of PostgreSQL") as refused:
        DatabaseUrl.of(url)
    assert "hunter2" not in told(refused.value)
    assert "%40" in refused.value.help


def test_a_password_is_in_no_word_about_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter3")
    for url in (f"postgresql://ann:{ENCODED}@db:5/state", f"postgresql://ann@db:5/state?password={ENCODED}"):
        place = DatabaseUrl.of(url)
        assert place.shown == "postgresql://db:5/state"
        assert "hunter2" not in repr(place)
        assert place.without_secrets(f"oh {SECRET} hunter3") in ("oh *** hunter3", "oh *** ***")
    place = DatabaseUrl.of("postgresql:///state")
    assert "hunter3" not in repr(place) + place.without_secrets("hunter3")


async def test_the_variables_of_libpq_count(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = role(database, "ann")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "3")
    store = handles.open(url=url.replace(":" + ENCODED, ""))
    assert (await store.load()).lineage == ""
    assert "connect_timeout" not in DatabaseUrl.of(url).conninfo
    monkeypatch.setenv("PGSSLMODE", "require")
    with pytest.raises(StoreError, match="does not support SSL"):
        await handles.open(url=url.replace(":" + ENCODED, "")).load()


async def test_settings_of_a_role_do_not_change_what_a_commit_is(
    handles: Handles, database: Postgres
) -> None:
    await handles.open().create()
    url = role(database, "odd", "USAGE ON SCHEMA reconcile", "ALL ON ALL TABLES IN SCHEMA reconcile")
    name = url.partition("//")[2].partition(":")[0]
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "synchronous_commit = off",
        "search_path = ''",
        "client_encoding = 'LATIN1'",
        "standard_conforming_strings = off",
        "timezone = '<+03>-03'",
        "datestyle = 'German'",
    ):
        database.rows(f"ALTER ROLE {name} SET {setting}")
    store = handles.open(url=url)
    lease = await store.lease(["größe \\ '"], "me")
    odd = replace(record(scope="größe \\ '"), source="\\ ' \" $1 %s \u2603")
    (stored,) = await store.commit(lease, [entry(Event.INTENT, "\\' ☃ %s")], [odd])
    assert (await handles.open().load()).records == {stored.address: stored}
    assert [each.step for _, each in await store.journal()] == ["\\' ☃ %s"]
