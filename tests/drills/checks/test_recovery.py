"""The recovery point, as real servers say it."""

from datetime import UTC, datetime, timedelta

from tests.drills.checks.restored import PASSWORD, ROLE, Restored, names
from tests.providers.postgres import running_postgres, running_standby

_ROLE = f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data"
_LONG = timedelta(hours=73)


async def test_a_server_says_what_its_recovery_ended_with() -> None:
    with running_postgres() as source:
        source.rows(_ROLE)
        source.rows("CREATE TABLE orders ()")
        with running_standby(source) as copy:
            source.rows("CREATE TABLE parcels ()")
            ((newest,),) = source.rows("SELECT clock_timestamp()")
            ((position,),) = source.rows("SELECT pg_current_wal_lsn()")
            while copy.rows("SELECT pg_last_wal_replay_lsn() < %s::pg_lsn", position) == [(True,)]:
                pass
            restored = Restored(copy)
            place = restored.place(database="postgres")
            half = await restored.look(place)
            assert names(half, "failed") == {"recovered"}
            copy.rows("SELECT pg_promote()")
            copy.rows("CREATE TABLE later ()")
            looked = await restored.look(place, point=newest)
            assert not names(looked, "failed") | names(looked, "could not verify")
            assert looked.facts.recovery_point
            assert newest - _LONG < looked.facts.recovery_point <= newest
            older = await restored.look(place, point=newest + _LONG)
            assert names(older, "could not verify") == {"recovery point"}
            older = await restored.look(place, point=newest - _LONG, exact=True)
            assert names(older, "failed") == {"recovery point"}


async def test_the_newest_commit_before_the_start_counts_where_commits_have_times() -> None:
    settings = ("fsync=off", "track_commit_timestamp=on")
    with running_postgres(
        settings, before=[_ROLE, "ALTER ROLE drill SET timezone = 'Asia/Tokyo'"]
    ) as postgres:
        ((start,),) = postgres.rows("SELECT pg_postmaster_start_time()")
        postgres.rows("CREATE TABLE later ()")
        restored = Restored(postgres)
        place = restored.place(database="postgres")
        looked = await restored.look(place)
        assert "recovery point" in names(looked, "passed")
        assert looked.facts.recovery_point
        assert start - _LONG < looked.facts.recovery_point < start
        assert looked.facts.recovery_point.tzinfo is UTC
        before_all = datetime(2000, 1, 1, tzinfo=UTC)
        assert (await restored.look(place, point=before_all)).facts.recovery_point is None
