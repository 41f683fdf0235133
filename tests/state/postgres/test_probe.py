"""The proof of a database, before a state is trusted to it; and poolers and standbys, by what they do."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.pipeline.actor import Actor
from reconciler.pipeline.identity import create_state
from reconciler.state.postgres import probing
from reconciler.state.postgres.line import (
    BEGIN,
    BEGIN_READING,
    COMMIT,
    LIMITS,
    Connection,
    Line,
    Row,
    Statement,
)
from reconciler.state.postgres.place import Place
from tests.cli.harness import Project
from tests.providers.postgres import Postgres, running_standby
from tests.state.postgres.conftest import Handles, new_database
from tests.state.postgres.pooler import pooled
from tests.state.postgres.test_access import reader, role
from tests.state.worlds import SimulatedClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def left_behind(database: Postgres) -> list[object]:
    """The schemas that are no longer needed, and rows of no state."""
    found: list[object] = list(
        database.rows("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'reconcile_%'")
    )
    if database.rows("SELECT to_regclass('reconcile.leases') IS NOT NULL") == [(True,)]:
        found += database.rows("SELECT scope FROM reconcile.leases WHERE state = 0")
    return found


async def prove(*lines: Line, with_schema: bool = True) -> None:
    try:
        await probing.probe(lines, lambda: os.urandom(8).hex(), with_schema=with_schema)
    finally:
        for line in lines:
            await line.close()


def lines(database: Postgres, kind: type[Line] = Line, times: int = probing.WRITERS) -> list[Line]:
    return [kind(Place.of(database.url), SimulatedClock()) for _ in range(times)]


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
    line, inside = Line(Place.of(url), handles.clock), ("SELECT current_setting('synchronous_commit')", ())
    *_, told, _ = await line.run(lambda: line.ask(BEGIN, LIMITS, inside, COMMIT))
    await line.close()
    assert told == [("on",)]


async def test_a_role_that_may_only_read_is_told(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    with pytest.raises(StoreError, match="the role may not do this"):
        await handles.open(url=reader(database)).probe()
    assert left_behind(database) == []


LIAR = """CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$;
    CREATE TRIGGER lie BEFORE UPDATE ON reconcile.leases FOR EACH ROW EXECUTE FUNCTION lie()"""


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("IF NEW.epoch = 5 THEN RETURN OLD; END IF; RETURN NEW;", "it lost 76 of 80 changes that were made"),
        ("RETURN NULL;", "it refused a change 80 times, although others got theirs"),
    ],
)
async def test_a_database_that_loses_changes_is_refused_by_what_it_did(
    handles: Handles, database: Postgres, lie: str, told: str
) -> None:
    await handles.open().create()
    database.rows(LIAR.format(lie))
    with pytest.raises(StoreError, match=told) as refused:
        await handles.open().probe()
    assert refused.value.message.startswith("a state cannot be kept in postgresql://127.0.0.1:")
    assert left_behind(database) == []


class Lagging(Line):
    """Reads are answered with what the one before should have shown, as by a replica."""

    earlier: list[list[Row]] | None = None

    async def ask(self, *statements: Statement) -> list[list[Row]]:
        found = await super().ask(*statements)
        if statements[0] != BEGIN_READING:
            return found
        shown, self.earlier = self.earlier or found, found
        return shown


class Splitting(Line):
    """Each message gets another connection of the server, as from a pooler that knows no transactions."""

    other: Connection | None = None

    async def ask(self, *statements: Statement) -> list[list[Row]]:
        self._connection, self.other = self.other, self._connection
        await self._connect()
        return await super().ask(*statements)

    async def close(self) -> None:
        await super().close()
        if self.other is not None:
            await self.other.close()


async def test_reads_that_lag_behind_are_told(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    with pytest.raises(StoreError, match="its reads do not show what was stored before"):
        await prove(*lines(database, Lagging))
    assert left_behind(database) == []


async def test_a_transaction_that_is_taken_apart_is_told(handles: Handles, database: Postgres) -> None:
    await handles.open().create()
    with pytest.raises(StoreError, match="it takes a transaction apart"):
        await prove(*lines(database, Splitting))


async def test_two_databases_behind_one_name_are_told(
    handles: Handles, postgres: Postgres, database: Postgres
) -> None:
    other = new_database(postgres)
    for each in (database, other):
        await handles.open(url=each.url).create()
    with pytest.raises(StoreError, match="does not show on one connection what was stored on another"):
        await prove(*lines(database, times=2), *lines(other, times=2))
    assert left_behind(database) == left_behind(other) == []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_pooler_that_keeps_transactions_whole_is_proven(database: Postgres, project: Project) -> None:
    with pooled(database, "transaction") as url:
        project.run("state", "init", "--state", url)
        examined = project.run("doctor", "--probe-state", "--state", url, code=1).out  # there is no platform
        assert "ok       store: kept its word" in examined
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
    for verb in (("init",), ("doctor",)):
        ran = project.run("state", *verb, "--state", refusing, code=1)
        assert told in ran.err
        assert refusing.partition("@")[0].rpartition(":")[2] not in ran.out + ran.err
    assert database.rows("SELECT to_regnamespace('reconcile') IS NULL") == [(True,)]
    assert left_behind(database) == []


async def test_a_state_is_not_made_where_changes_get_lost(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(lines: Sequence[Line], nonce: object, *, with_schema: bool) -> None:
        raise StoreError("a state cannot be kept in there")

    monkeypatch.setattr(probing, "probe", lost)
    with pytest.raises(StoreError, match="cannot be kept"):
        await create_state(handles.open(), Actor(handles.clock, "me"))
    assert (await handles.open().load()).lineage == ""
