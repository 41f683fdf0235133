"""States that earlier versions left (`versions/`): migrated whole, and copied first.

`versions/version-N.sql` is the dump of a state as the program of that version wrote it, in three scopes: two
volumes, a cluster whose create has no outcome, a plan that ran and (from version 2) an unclaimed object.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address
from reconciler.state.chain import state_head
from reconciler.state.contents import StateDump, verify
from reconciler.state.places.sqlite import backups, database, files, locks
from reconciler.state.places.sqlite.restore import _salvaged
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.altering import execute
from tests.state.conftest import OpenStore
from tests.state.worlds import DATA, NOON, entry, record

VERSIONS = Path(__file__).parent / "versions"
EARLIER = range(1, database.VERSION)
ONE_CHAIN = range(1, 4)  # versions with one chain for all scopes
KEY = bytes([2]) * 32
POSTS = Address("Volume", "posts", "blog")
LOGS = Address("Volume", "logs", "blog")
CREATE = "PostgresCluster/orders#create"


def left_by(version: int | str, path: Path) -> list[str]:
    """Put the state of `version` at `path`; the hashes of its journal come back."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((VERSIONS / f"version-{version}.sql").read_text(encoding="utf-8"))
    path.with_name("state.db.key").write_bytes(KEY)
    seen = VERSIONS / f"version-{version}.seen"
    if seen.exists():
        shutil.copy(seen, path.with_name("state.db.seen"))
    return hashes(path)


def hashes(path: Path) -> list[str]:
    """Of the journal of an older file."""
    with closing(sqlite3.connect(path)) as connection:
        return [hash for (hash,) in connection.execute("SELECT hash FROM journal ORDER BY rowid")]


def version_of(path: Path) -> int | None:
    with closing(sqlite3.connect(path)) as connection:
        return database.version_of(connection)


def test_there_is_a_state_of_each_earlier_version() -> None:
    assert len(list(VERSIONS.glob("version-?.sql"))) == len(EARLIER)


@pytest.mark.parametrize("version", EARLIER)
async def test_a_state_that_an_earlier_version_left_is_whole(
    opened: SqliteStore, another: OpenStore, path: Path, version: int
) -> None:
    chain = left_by(version, path)
    state = await opened.load()
    assert {address: found.id for address, found in state.records.items()} == {DATA: "vol_1", POSTS: "vol_2"}
    assert [opened.step for opened in state.open_intents] == [CREATE]
    assert state.plans_run == {"p1"}
    assert [told.data["unclaimed"] for told in state.unclaimed] == (["vol_9"] if version > 1 else [])
    assert (await opened.fingerprint_key(), state.platform) == (KEY, "")
    await opened.verify()
    assert await opened.export()
    assert (hashes(path), version_of(path)) == (chain, version), "who only reads migrates nothing"
    assert await opened.migrate()
    assert version_of(path) == database.VERSION
    assert len((await opened.export()).rows) == {1: 9, 2: 10}.get(version, 8)
    await opened.verify()
    verify(await opened.export())
    assert not await opened.migrate()
    assert await opened.load() == state
    assert await another().load() == state


@pytest.mark.parametrize("version", EARLIER)
async def test_work_goes_on_where_an_earlier_version_ended(
    opened: SqliteStore, another: OpenStore, path: Path, version: int
) -> None:
    left_by(version, path)
    (intent,) = (await opened.load()).open_intents
    lease = await opened.lease(["org/personal", "shop"], "ben")
    closed = entry(Event.SETTLED, intent.step, run=intent.run, landed=False)
    await opened.commit(lease.of("org/personal"), [closed])
    known = (await opened.load()).records[DATA]
    (stored,) = await opened.commit(lease.of("shop"), [], [record(serial=known.serial)])
    await opened.release(lease)
    state = await another().load()
    assert (state.open_intents, state.records[DATA]) == ((), stored)
    assert stored.serial > max(known.serial, state.records[POSTS].serial)
    await another().verify()
    ends = {row.scope: row.seq for row in (await another().export()).rows}
    assert ends.keys() == ({"", "org/personal"} if version < 3 else {"blog", "org/personal", "shop"})
    assert ends["org/personal"] == (2 if version < 3 else 3), "it goes on from its own rows"
    assert await another().fingerprint_key() == KEY
    path.with_name("state.db.key").write_bytes(b"k" * 32)
    with pytest.raises(StoreError, match="not the key"):
        await another().load()


@pytest.mark.parametrize("version", EARLIER)
async def test_a_state_is_copied_as_it_is_before_it_is_migrated(
    opened: SqliteStore, another: OpenStore, path: Path, version: int
) -> None:
    chain = left_by(version, path)
    state = await opened.load()
    await opened.migrate()
    (copy,) = backups.folder(path).glob("*.db")
    assert copy.name == f"version-{version}-{NOON:%Y%m%dT%H%M%SZ}.db"
    assert (version_of(copy), hashes(copy)) == (version, chain)
    assert copy.with_name(copy.name + ".key").read_bytes() == KEY
    assert copy.stat().st_mode & 0o777 == 0o600
    await opened.close()

    path.write_bytes(b"lost")
    await another().restore(copy)
    restored = await another().load()
    assert (restored.records, restored.open_intents) == (state.records, state.open_intents)
    backups.prune(path)
    assert copy.exists()


@pytest.mark.parametrize("version", EARLIER)
async def test_what_came_after_the_migration_is_salvaged_beside_the_copy_that_it_made(
    opened: SqliteStore, another: OpenStore, path: Path, version: int
) -> None:
    left_by(version, path)
    lease = await opened.lease(["blog", "shop"], "anna")
    before = (await opened.load()).records
    for scope, address in (("blog", POSTS), ("shop", DATA), ("blog", LOGS)):
        serial = before[address].serial if address in before else 0
        step = f"after in {scope}"
        await opened.commit(lease.of(scope), [entry(Event.INTENT, step, scope=scope)])
        closes = entry(Event.DONE, step)
        await opened.commit(lease.of(scope), [closes], [record(address, scope=scope, serial=serial)])
    known = await opened.load()
    await opened.close()
    execute(path, "DELETE FROM objects WHERE key = 'state.json'")
    (copy,) = backups.folder(path).glob("version-*.db")
    restored = await another().restore(copy)
    assert (restored.salvaged, restored.lost, restored.reopened) == (6, "", ())
    assert await another().load() == known
    await another().verify()
    serials = (await another().load()).serials
    assert all(serials[scope] >= serial for scope, serial in known.serials.items())


async def test_a_state_that_cannot_be_copied_is_not_migrated(opened: SqliteStore, path: Path) -> None:
    left_by(2, path)
    backups.folder(path).write_text("not a directory")
    for write in (opened.migrate, lambda: opened.lease(["shop"], "ben")):
        with pytest.raises(StoreError, match="cannot be read or written"):
            await write()
    assert version_of(path) == 2


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE records SET body = '{}'",
        "DELETE FROM records WHERE name = 'posts'",
        "UPDATE journal SET data = '{}' WHERE seq = 2",
        "DELETE FROM journal WHERE seq = 2",
        "DELETE FROM journal WHERE seq = 8",
        "UPDATE meta SET value = 1 WHERE key = 'serial'",
        "UPDATE leases SET epoch = 9",
    ],
)
async def test_a_damaged_state_is_not_migrated(opened: SqliteStore, path: Path, damage: str) -> None:
    left_by(2, path)
    execute(path, damage)
    for use in (opened.load, opened.migrate):
        with pytest.raises(StoreError, match="is damaged"):
            await use()
    assert version_of(path) == 2
    assert not list(backups.folder(path).glob("*"))


async def test_a_backup_of_an_earlier_version_brings_a_state_back(
    opened: SqliteStore, another: OpenStore, path: Path
) -> None:
    left_by(2, path)
    backups.folder(path).mkdir()
    good = backups.folder(path) / "20300101T120000Z-00000011.db"
    shutil.copy(path, good)
    shutil.copy(path.with_name("state.db.key"), good.with_name(f"{good.name}.key"))
    path.write_bytes(b"lost")
    with pytest.raises(StoreError, match="is not a database") as lost:
        await opened.load()
    assert "the newest good backup is from 2030-01-01" in lost.value.help
    await another().restore()
    assert set((await another().load()).records) == {DATA, POSTS}


@pytest.mark.parametrize("version", [2, 3])
def test_rows_of_an_earlier_version_are_salvaged_where_it_cannot_be_migrated(
    path: Path, version: int
) -> None:
    chain = left_by(version, path)
    with closing(sqlite3.connect(path)) as connection:
        (lineage,) = connection.execute("SELECT value FROM meta WHERE key = 'lineage'").fetchone()
    found = _salvaged(path, StateDump(lineage, b"", ""), 0)
    assert len(found.rows) == len(chain)
    assert {scope for scope, _ in found.rows} == ({""} if version < 3 else {"blog", "org/personal", "shop"})
    assert set(found.records) == {DATA, POSTS}


@pytest.mark.parametrize("version", [2])
async def test_a_lost_key_is_replaced_beside_a_state_of_an_earlier_version(
    opened: SqliteStore, path: Path, version: int
) -> None:
    left_by(version, path)
    path.with_name("state.db.key").unlink()
    restored = await opened.restore()
    assert restored.key == "new"
    assert (await opened.load()).records


@pytest.mark.parametrize("version", ONE_CHAIN)
async def test_the_journal_of_an_earlier_version_is_read_and_has_a_head(
    version: int, path: Path, another: OpenStore
) -> None:
    written = len(left_by(version, path)) + (2 if version < 3 else 0)  # an open call, in its scope
    store = another()
    assert len(await store.journal()) == written
    state = await store.load()
    newest = {row.scope: row.hash for row in (await store.export()).rows}
    assert state.heads == newest
    assert newest.keys() == ({"", "org/personal"} if version < 3 else {"blog", "org/personal", "shop"})
    lease = await store.lease(["shop"], "ben")
    await store.commit(lease, [entry(Event.DONE, run="r9")])
    after = await store.load()
    assert state_head(after.lineage, after.heads) != state_head(state.lineage, state.heads)
    assert len(await store.journal()) == written + 1


async def test_a_state_that_version_5_made_of_an_older_one_gets_a_chain_for_each_scope(
    opened: SqliteStore, another: OpenStore, path: Path
) -> None:
    """There, the rows of a scope went on from the end of one chain for all."""
    left_by("5-of-3", path)
    before = await opened.load()
    assert before.lengths == {"blog": 2, "new": 1, "org/personal": 2, "shop": 6}
    assert await opened.migrate()
    contents = await another().export()
    verify(contents)
    assert [row.seq for row in contents.rows if row.scope == "shop"] == [1, 2, 3, 4, 5, 6]
    assert all(head.serial >= 3 for head in contents.heads.values())
    await another().verify()
    assert await another().load() == before


async def test_a_record_whose_address_has_no_app_is_read(
    opened: SqliteStore, another: OpenStore, path: Path
) -> None:
    """A cluster's. Older programs wrote its digest as of an app called None."""
    left_by("5-cluster", path)
    before = await opened.load()
    (found,) = before.records.values()
    assert (found.address, found.id, found.serial) == (Address("PostgresCluster", "orders"), "pg_1", 2)
    assert await opened.migrate()
    assert await another().load() == before
    await another().verify()


async def test_a_state_is_not_migrated_while_an_older_program_holds_a_scope(
    opened: SqliteStore, path: Path
) -> None:
    left_by(3, path)
    assert locks.try_lock(files.lock_path(path), 2)
    for write in (opened.migrate, lambda: opened.lease(["shop"], "ben")):
        with pytest.raises(Locked, match="another process"):
            await write()
    assert version_of(path) == 3
    locks.unlock(files.lock_path(path), 2)
    assert await opened.migrate()


async def test_rows_that_version_6_has_packed_are_read(
    opened: SqliteStore, another: OpenStore, path: Path
) -> None:
    left_by("6-packed", path)
    before = await opened.load()
    assert before.plans_run == {"p1", *(f"q{number}" for number in range(12))}
    assert len(await opened.journal()) == len((await opened.export()).rows) == 44
    assert await opened.migrate()
    assert await another().load() == before
    verify(await another().export())


async def test_packed_rows_that_are_not_what_was_packed_are_damage(opened: SqliteStore, path: Path) -> None:
    left_by("6-packed", path)
    execute(path, "UPDATE archive SET body = x'00'")
    with pytest.raises(StoreError, match="damaged"):
        await opened.load()
