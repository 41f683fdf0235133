"""Processes that die or stand still while they hold a scope: nothing is unlocked by hand."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.core.errors import Locked
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import Event
from tests.providers.postgres import Postgres
from tests.state.worlds import entry, renew

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent.parent
LEASE_S = 600.0  # longer than a busy machine lets any of these processes wait: `leave` shortens it


class Child:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def goes_on(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()
        return self.says()


def leave(database: Postgres, seconds: float) -> None:
    """Let time pass for all leases: so many of their seconds are left."""
    written = "clock_timestamp() - %s * interval '1 second'"
    database.rows(
        f"UPDATE reconcile.objects SET written_at = {written} WHERE key LIKE '%%/leases/%%'",
        LEASE_S - seconds,
    )


def left_s(database: Postgres) -> float:
    age_of = "extract(epoch FROM clock_timestamp() - max(written_at))"
    ((age,),) = database.rows(f"SELECT {age_of} FROM reconcile.objects WHERE key LIKE '%/leases/%'")
    return LEASE_S - float(age)


@contextmanager
def child(url: str, lease_s: float = LEASE_S) -> Iterator[Child]:
    command = [sys.executable, "-m", "tests.state.postgres.child", url, "shop", str(lease_s)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        made = Child(process)
        assert made.says() == "taken"
        try:
            yield made
        finally:
            process.kill()


@pytest.fixture
async def store(database: Postgres) -> PostgresStore:
    """With the server's own time."""
    store = PostgresStore(database.url, SystemClock(), lease_s=LEASE_S)
    await store.create()
    return store


async def test_the_scope_of_a_killed_process_is_free_when_its_lease_has_ended(
    store: PostgresStore, database: Postgres
) -> None:
    with child(database.url) as runner:
        assert runner.goes_on() == "checked; committed"
        runner.process.send_signal(signal.SIGKILL)
        runner.process.wait()
        with pytest.raises(Locked):
            await store.lease(["shop"], "the heir")
        leave(database, 0)
        lease = await store.lease(["shop"], "the heir")
    assert lease.epochs == {"shop": 2}
    (intent,) = (await store.load()).open_intents
    await store.commit(lease, [entry(Event.SETTLED, intent.step)])
    assert (await store.load()).open_intents == ()
    await store.close()


async def test_a_process_that_stood_still_beyond_its_lease_neither_checks_nor_commits(
    store: PostgresStore, database: Postgres
) -> None:
    with child(database.url) as runner:
        runner.process.send_signal(signal.SIGSTOP)
        leave(database, 0)
        lease = await store.lease(["shop"], "the heir")
        runner.process.send_signal(signal.SIGCONT)
        lost = "the lease of `shop` is no longer ours"
        assert runner.goes_on() == f"{lost}; {lost}"
    await renew(store, lease)
    await store.commit(lease, [entry(Event.INTENT)])
    assert [each.step for _, each in await store.journal()] == ["s1"]
    await store.close()


async def test_a_lease_that_ended_is_not_ours_even_if_nobody_took_it(
    store: PostgresStore, database: Postgres
) -> None:
    with child(database.url, lease_s=0.5) as runner:
        runner.process.send_signal(signal.SIGSTOP)
        while await store.holders(["shop"]):
            await anyio.sleep(0.1)
        runner.process.send_signal(signal.SIGCONT)
        assert "no longer ours" in runner.goes_on()
    assert await store.journal() == []
    await store.close()


async def test_a_lease_that_is_renewed_outlives_its_time(store: PostgresStore, database: Postgres) -> None:
    with child(database.url) as runner:
        for _ in range(3):
            leave(database, LEASE_S / 4)
            assert runner.goes_on() == "checked; committed"
            assert left_s(database) > LEASE_S / 2
        with pytest.raises(Locked) as locked:
            await store.lease(["shop"], "ben")
        assert locked.value.holder == "the child"
    await store.close()
