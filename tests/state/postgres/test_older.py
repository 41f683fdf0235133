"""States that older programs left in tables of their own (`versions/`): read as they are, and migrated once.

`version-3.sql` is the dump of a schema as the last such program wrote it, with the states of two
environments: that of none as `filled` makes it, its journal packed in part; and that of `prod`, with a volume
and an intent.
"""

from pathlib import Path
from typing import Any

import anyio
import pytest

from reconciler.core.errors import Locked, StateMoved, StoreError
from reconciler.core.model import Address
from reconciler.state.contents import verify
from reconciler.state.places.postgres import older as older_tables
from reconciler.state.places.postgres.bucket import TableBucket
from reconciler.state.store import Event
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.postgres.test_access import reader
from tests.state.worlds import DATA, entry, record

pytestmark = pytest.mark.slow

DUMP = Path(__file__).parent / "versions" / "version-3.sql"
# What the versions before had otherwise.
EARLIER = {
    3: (),
    2: (
        "ALTER TABLE reconcile.states ADD trunk_seq bigint NOT NULL DEFAULT 0, ADD trunk_hash text,"
        " ADD trunk_serial bigint NOT NULL DEFAULT 0",
        "UPDATE reconcile.version SET version = 2",
    ),
}
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'reconcile'::regnamespace AND relkind = 'r'"
KEY = bytes.fromhex("c4bb86c3d1c427103c344c4189eb2f1e7bd5d47e446fcec2a3d811736110e578")


@pytest.fixture(params=EARLIER)
def older(request: pytest.FixtureRequest, database: Postgres) -> Postgres:
    for statement in (DUMP.read_text(encoding="utf-8").replace("%", "%%"), *EARLIER[request.param]):
        database.rows(statement)
    return database


def tables(database: Postgres) -> set[str]:
    return {name for (name,) in database.rows(TABLES)}


async def test_a_state_that_an_older_program_left_is_whole(handles: Handles, older: Postgres) -> None:
    before = tables(older)
    url = reader(older)  # which was granted nothing after the migration
    looks = handles.open(url=url, read_only=True)
    state = await looks.load()
    assert set(state.records) == {DATA, *(Address("Volume", "logs", app) for app in ("blog", "shop"))}
    assert [opened.step for opened in state.open_intents] == ["s2"]
    assert (state.plans_run, state.platform) == (frozenset({"plan-1"}), "https://platform")
    assert [entry.data["unclaimed"] for entry in state.unclaimed] == ["vol_9"]
    assert len(await looks.journal()) == 7
    assert await looks.fingerprint_key() == KEY
    await looks.verify()
    assert await looks.holders(["shop"]) == {}
    assert tables(older) == before, "who only reads migrates nothing"
    notes: list[str] = []
    store = handles.open(tell=notes.append)
    lease = await store.lease(["shop"], "me")
    assert lease.epochs == {"shop": 2}
    assert tables(older) == {"objects"}
    assert len(notes) == 1
    assert await handles.open(url=url, read_only=True).load() == state
    (stored,) = await store.commit(lease, [entry(Event.SETTLED, "s2", landed=False)], [record(serial=3)])
    assert stored.serial == 4
    assert (await looks.load()).open_intents == ()
    for environment in ("", "prod"):
        opened = handles.open(environment=environment)
        await opened.verify()
        verify(await opened.export())
    assert len((await handles.open(environment="prod").load()).open_intents) == 1


async def test_two_that_write_first_migrate_it_once(handles: Handles, older: Postgres) -> None:
    notes: list[str] = []

    async def take(scope: str) -> None:
        await handles.open(tell=notes.append).lease([scope], scope)

    async with anyio.create_task_group() as both:
        for scope in ("blog", "shop"):
            both.start_soon(take, scope)
    assert len(notes) == 1
    assert set(await handles.open().holders(["blog", "shop"])) == {"blog", "shop"}


@pytest.mark.parametrize("at", ["look", "read"])
async def test_a_state_that_is_migrated_while_it_is_read_is_there(
    handles: Handles, older: Postgres, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    module, name = (TableBucket, "_tables") if at == "look" else (older_tables, "objects")
    real, looks = getattr(module, name), handles.open(read_only=True)

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        anyio.from_thread.run(handles.open().lease, ["shop"], "ben")
        return real(*arguments)

    monkeypatch.setattr(module, name, overtaken)
    assert len((await looks.load()).records) == 3


async def test_a_state_that_an_older_program_works_on_is_not_migrated(
    handles: Handles, older: Postgres
) -> None:
    before = tables(older)
    older.rows(
        "UPDATE reconcile.leases SET released = false, holder = 'ben', since = clock_timestamp(),"
        f" expires_at = timestamptz '{handles.clock.now()}' + interval '1 minute' WHERE state = 2"
    )
    with pytest.raises(Locked, match="locked by ben"):
        await handles.open().lease(["blog"], "me")
    assert tables(older) == before


async def test_a_role_that_does_not_own_the_schema_migrates_nothing(
    handles: Handles, older: Postgres
) -> None:
    before = tables(older)
    looks = handles.open(url=reader(older))
    with pytest.raises(StoreError, match="the role may not do this"):
        await looks.lease(["shop"], "me")
    assert tables(older) == before


async def test_an_older_state_that_moved_away_says_so(handles: Handles, older: Postgres) -> None:
    older.rows("UPDATE reconcile.states SET moved_to = 's3://there' WHERE environment = ''")
    with pytest.raises(StateMoved):
        await handles.open().load()
    assert (await handles.open().export()).moved_to == "s3://there"


async def test_a_schema_of_a_newer_program_is_refused(handles: Handles, older: Postgres) -> None:
    older.rows("UPDATE reconcile.version SET version = 4")
    for attempt in (handles.open().load, lambda: handles.open().lease(["shop"], "me")):
        with pytest.raises(StoreError, match="newer version"):
            await attempt()


DAMAGE = {
    "another record": "UPDATE reconcile.records SET body = replace(body, '10', '20') WHERE name = 'data'",
    "no record": "DELETE FROM reconcile.records WHERE name = 'data'",
    "another row": "UPDATE reconcile.journal SET step = 's7' WHERE scope = 'shop' AND seq = 3",
    "no newest row": "DELETE FROM reconcile.journal WHERE scope = 'shop' AND seq = 4",
    "no packed rows": "DELETE FROM reconcile.archive",
    "other packed rows": "UPDATE reconcile.archive SET body = '\\x00'",
    "another head": "UPDATE reconcile.heads SET serial = serial + 1 WHERE scope = 'shop'",
    "no head": "DELETE FROM reconcile.heads WHERE scope = 'blog'",
    "nothing of a scope": "DELETE FROM reconcile.heads WHERE state = 2; DELETE FROM reconcile.records WHERE"
    " state = 2; DELETE FROM reconcile.journal WHERE state = 2",
    "another key": "UPDATE reconcile.states SET key = '\\x00'",
    "no version": "DELETE FROM reconcile.version",
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_an_older_state_that_is_damaged_is_not_migrated(
    handles: Handles, database: Postgres, what: str
) -> None:
    database.rows(DUMP.read_text(encoding="utf-8").replace("%", "%%"))
    before = tables(database)
    database.rows(DAMAGE[what])
    for attempt in (handles.open().load, lambda: handles.open().lease(["shop"], "me")):
        with pytest.raises(StoreError, match="is damaged"):
            await attempt()
    assert tables(database) == before


@pytest.mark.parametrize("table", ["heads", "records", "journal", "states"])
async def test_a_part_of_an_older_schema_is_no_place_for_a_new_state(
    handles: Handles, database: Postgres, table: str
) -> None:
    database.rows(DUMP.read_text(encoding="utf-8").replace("%", "%%"))
    database.rows(f"DROP TABLE reconcile.{table}")
    for attempt in (handles.open().load, handles.open().create):
        with pytest.raises(StoreError, match="is not whole"):
            await attempt()
