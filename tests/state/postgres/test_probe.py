"""The proof of a database, before a state is trusted to it; and poolers and standbys, by what they do."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import psycopg
import pytest

from reconciler.core.errors import StoreError
from reconciler.state.places.postgres import connections
from reconciler.state.places.postgres.bucket import TableBucket
from reconciler.state.places.postgres.connections import Connections
from reconciler.state.places.postgres.url import DatabaseUrl
from tests.cli.harness import Project
from tests.providers.postgres import Postgres, running_standby
from tests.state.postgres.conftest import Handles
from tests.state.postgres.pooler import pooled
from tests.state.postgres.test_access import reader, role

pytestmark = pytest.mark.slow


def left_behind(database: Postgres) -> list[object]:
    """The schemas that are no longer needed, and objects of no state."""
    found: list[object] = list(
        database.rows("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'reconcile_%'")
    )
    if database.rows("SELECT to_regclass('reconcile.objects') IS NOT NULL") == [(True,)]:
        found += database.rows("SELECT key FROM reconcile.objects WHERE key LIKE '%/probe/%'")
    return found


async def test_a_database_is_proven_before_and_after_it_has_a_state(
    handles: Handles, database: Postgres
) -> None:
    await handles.open().probe()
    assert database.rows("SELECT to_regnamespace('reconcile') IS NULL") == [(True,)]
    await handles.open().create()
    await handles.open().probe()
    assert left_behind(database) == []


async def test_settings_of_a_role_do_not_weaken_a_change(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    url = role(database, "odd", "USAGE ON SCHEMA reconcile", "ALL ON ALL TABLES IN SCHEMA reconcile")
    name = url.partition("//")[2].partition(":")[0]
    for setting in ("default_transaction_read_only = on", "synchronous_commit = off"):
        database.rows(f"ALTER ROLE {name} SET {setting}")
    await handles.open(url=url).probe()
    asked = Connections(DatabaseUrl.of(url), handles.clock)
    inside = "SELECT current_setting('synchronous_commit')", ()
    assert asked.write(inside) == [[("on",)]]
    asked.close()


async def test_a_role_that_may_only_read_is_told(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    with pytest.raises(StoreError, match="the role may not do this"):
        await handles.open(url=reader(database)).probe()
    assert left_behind(database) == []


LIAR = """CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$;
    CREATE TRIGGER lie BEFORE UPDATE ON reconcile.objects FOR EACH ROW EXECUTE FUNCTION lie()"""


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("NEW.body = OLD.body; RETURN NEW;", "it lost 80 of 80 changes that were made at the same time"),
        ("RETURN NULL;", "did not take a change: it said that the object has changed, which has not"),
    ],
)
async def test_a_database_that_loses_changes_is_refused_by_what_it_did(
    handles: Handles, database: Postgres, lie: str, told: str
) -> None:
    await handles.open().create()
    database.rows(LIAR.format(lie))
    with pytest.raises(StoreError, match=told) as refused:
        await handles.open().probe()
    assert "postgresql://127.0.0.1:" in refused.value.message
    assert left_behind(database) == []


async def test_reads_that_lag_behind_are_told(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are answered with what the one before should have shown, as by a replica."""
    await handles.open().create()
    earlier: dict[object, object] = {}
    get = TableBucket.get

    def lag(table: TableBucket, key: str) -> object:
        found = get(table, key)
        shown, earlier[key] = earlier.get(key, found), found
        return shown

    monkeypatch.setattr(TableBucket, "get", lag)
    with pytest.raises(StoreError, match=r"a state cannot be kept in|did not take a change"):
        await handles.open().probe()
    monkeypatch.undo()
    assert left_behind(database) == []


class NoneKept(list[psycopg.Connection]):
    """So that each message goes over a new connection."""

    def append(self, connection: psycopg.Connection) -> None:
        connection.close()


async def test_two_databases_behind_one_name_are_told(
    handles: Handles, postgres: Postgres, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = postgres.new()
    for each in (database, other):
        await handles.open(url=each.url).create()
    servers = cycle([database, other])
    connect = connections._Connection.connect

    def balanced(conninfo: str, **options: object) -> object:
        return connect(next(servers).url, **options)  # type: ignore[arg-type]

    store = handles.open()
    monkeypatch.setattr(connections._Connection, "connect", balanced)
    monkeypatch.setattr(store.connections, "_idle", NoneKept())
    with pytest.raises(StoreError):
        await store.probe()
    monkeypatch.undo()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_pooler_that_keeps_transactions_whole_is_proven(database: Postgres, project: Project) -> None:
    with pooled(database, "transaction") as url:
        project.run("state", "init", "--state", url)
        examined = project.run("doctor", "--probe-state", "--state", url, code=1).out  # there is no platform
        assert "ok       store: passed the concurrency test" in examined
        assert "ok       state: " in examined
    assert left_behind(database) == []


@pytest.fixture
def refusing(request: pytest.FixtureRequest, database: Postgres) -> Iterator[str]:
    """The URL of a pooler that takes no transactions, or of a standby."""
    if request.param == "pooler":
        with pooled(database, "statement") as url:
            yield url
    else:
        with running_standby(database) as standby:
            yield standby.url


@pytest.mark.parametrize(
    ("refusing", "told"),
    [
        (
            "pooler",
            "takes no changes: transaction blocks not allowed in statement pooling mode\n"
            "  = help: set the pooler's pool_mode to transaction, or name the server itself",
        ),
        (
            "standby",
            "takes no changes: cannot set transaction read-write mode during recovery\n"
            "  = help: name the primary server, not a standby",
        ),
    ],
    indirect=["refusing"],
)
def test_who_takes_no_changes_is_named_at_init_and_by_the_doctor(
    refusing: str, told: str, database: Postgres, project: Project
) -> None:
    for verb in (("state", "init"), ("doctor", "--probe-state")):
        ran = project.run(*verb, "--state", refusing, code=1)
        assert " ".join(told.split()) in " ".join((ran.err + ran.out).split())
        assert refusing.partition("@")[0].rpartition(":")[2] not in ran.out + ran.err
    assert database.rows("SELECT to_regnamespace('reconcile') IS NULL") == [(True,)]
    assert left_behind(database) == []
