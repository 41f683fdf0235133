"""Runners that are thrown away share one state: each in an empty folder, with nothing but the URL."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.state.places.postgres.store import PostgresStore
from tests.cli.harness import Project, Sandbox, environment, serving, volume
from tests.providers.postgres import Postgres
from tests.reliability.shared import Database

pytestmark = pytest.mark.slow

T = TypeVar("T")

APPS = ("blog", "shop", "wiki")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with serving() as sandbox:
        for app in APPS:
            sandbox.app(app)
        yield sandbox


@pytest.fixture
def runner(database: Postgres, sandbox: Sandbox, tmp_path: Path) -> Callable[..., Project]:
    """Makes an empty folder with the manifests of some apps, as a fresh container has it."""
    made: list[Project] = []

    def make(*apps: str, **fields: object) -> Project:
        project = Project(tmp_path / f"runner-{len(made)}")
        made.append(project)
        project.env |= environment(sandbox.url, XDG_STATE_HOME=str(project.root / "home"))
        project.write(f"manifests: [manifests]\nstate: {database.url}\n", "reconcile.yaml")
        spec = ", ".join(f"{name}: {value}" for name, value in ({"size_gb": 10} | fields).items())
        for app in apps or ("shop",):
            project.write(volume(app, spec=f"region: ams, {spec}"), f"manifests/{app}.yaml")
        return project

    return make


def password(database: Postgres) -> str:
    return database.url.partition("@")[0].rpartition(":")[2]


def test_three_runners_in_empty_folders_work_on_one_volume(
    runner: Callable[..., Project], sandbox: Sandbox, database: Postgres
) -> None:
    first = runner()
    assert "state-missing" in first.json("plan").out
    told = [first.run("state", "init")]
    first.apply()
    second = runner(size_gb=20)
    told += [second.run("plan"), second.apply()]
    third = runner(size_gb=20)
    for verb in (
        ("plan", "--detailed-exitcode"),
        ("drift",),
        ("show", "Volume/shop/data"),
        ("state", "list"),
        ("history",),
        ("state", "unlock", "shop"),
    ):
        told.append(third.run(*verb))
    assert sandbox.volume("shop")["size_gb"] == 20
    assert sandbox.mutations_of("shop")[0] == ("POST", "volumes")
    assert len(sandbox.mutations_of("shop")) == 2
    for ran in told:
        assert password(database) not in ran.out + ran.err
    for project in (first, second, third):
        for file in project.root.rglob("*"):
            if file.is_file() and file.name != "reconcile.yaml":
                assert password(database).encode() not in file.read_bytes(), file


def test_two_applies_of_different_apps_run_at_once(runner: Callable[..., Project], sandbox: Sandbox) -> None:
    """The first of all, too, which record what platform the state is about."""
    runner().run("state", "init")
    shop, blog = runner(*APPS), runner(*APPS)
    for app in ("blog", "shop"):
        sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=1)
    # Each has the whole project, and applies a part of it: the file of one app.
    with (
        shop.started("apply", "manifests/shop.yaml", "--auto-approve") as one,
        blog.started("apply", "manifests/blog.yaml", "--auto-approve") as other,
    ):
        ended = [one.ended(), other.ended()]
    assert [each.code for each in ended] == [0, 0], ended
    assert len(runner().json("state", "list").json["records"]) == 2
    assert [len(sandbox.volumes(app)) for app in APPS] == [1, 1, 0]


def test_runners_that_have_the_manifests_of_one_app_each_leave_each_other_alone(
    runner: Callable[..., Project], sandbox: Sandbox, database: Postgres
) -> None:
    """To each of them, the other's records have left the manifests: that is told, and not its business."""
    runner().run("state", "init")
    lineage = lineage_of(database)

    def of_app(app: str, size_gb: int = 10) -> Project:
        project = runner(app, size_gb=size_gb)
        state = f"{{url: '{database.url}', lineage: {lineage}}}"  # else it may be another project's
        project.write(f"manifests: [manifests]\nstate: {state}\n", "reconcile.yaml")
        return project

    for app in ("blog", "shop"):
        of_app(app).apply()
    sandbox.fault("POST", "/v1/apps/blog/volumes", "delay", delay_s=20)
    blog = of_app("blog")
    blog.write(volume("blog", "logs"), "manifests/logs.yaml")
    with blog.started_apply() as working:
        working.until(sandbox.fault_taken)
        assert locks(database) == ["blog"]
        before = epoch_of(database, "blog")
        shop = of_app("shop", size_gb=20)
        applied = shop.apply()
        assert applied.actions() == {"Volume/blog/data": "retain", "Volume/shop/data": "extend"}
        assert set(applied.outcomes().values()) == {"done"}
        assert shop.json("plan").actions() == {"Volume/blog/data": "retain"}
        shop.apply()  # there is nothing to do
        assert locks(database) == ["blog"]  # it still works
        assert epoch_of(database, "blog") == before
        working.kill()
    assert sandbox.volume("shop")["size_gb"] == 20


def locks(database: Postgres) -> list[str]:
    return sorted(looked(database, lambda store: store.holders(APPS)))


def looked(database: Postgres, look: Callable[[PostgresStore], Awaitable[T]]) -> T:
    async def main() -> T:
        store = PostgresStore(database.url, SystemClock())
        try:
            return await look(store)
        finally:
            await store.close()

    return anyio.run(main)


def lineage_of(database: Postgres) -> str:
    return looked(database, PostgresStore.load).lineage


def epoch_of(database: Postgres, scope: str) -> int:
    return looked(database, PostgresStore.export).head(scope).epoch


def test_a_runner_that_was_killed_while_it_created_is_succeeded_without_an_unlock(
    runner: Callable[..., Project], sandbox: Sandbox, database: Postgres
) -> None:
    runner().run("state", "init")
    sandbox.fault("POST", "/v1/apps/shop/volumes", "delay", delay_s=20)
    with runner().started_apply() as dying:
        dying.until(lambda: sandbox.seen("POST", "/v1/apps/shop/volumes"))
        dying.kill()
    sandbox.clear_faults()
    assert "locked" in runner().apply(code=None).err
    Database(database.url).lease_over()
    runner().apply()
    assert len(sandbox.volumes("shop")) == 1


def test_a_first_apply_that_was_killed_while_it_recorded_the_platform_holds_up_others_for_its_lease_only(
    runner: Callable[..., Project], sandbox: Sandbox, database: Postgres
) -> None:
    runner().run("state", "init")
    for statement in STAND_STILL:
        database.rows(statement)
    with runner("shop").started_apply() as dying:
        dying.until(lambda: bool(database.rows(STANDS)))
        dying.kill()
    database.rows(GIVE_UP)  # first: who drops a trigger waits for all who write to the table
    database.rows("DROP TRIGGER still ON reconcile.objects")
    with runner("blog").started("apply", "--auto-approve") as waiting:
        waiting.until_told("waiting for the lock of the whole state: ")
        Database(database.url).lease_over()
        assert waiting.ended().code == 0
    assert [len(sandbox.volumes(app)) for app in APPS] == [1, 0, 0]


# A commit that says which platform the state is about takes long, until the server is told to give it up.
STAND_STILL = (
    "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM pg_sleep(60); RETURN NEW; END $$",
    "CREATE TRIGGER still BEFORE INSERT ON reconcile.objects FOR EACH ROW WHEN"
    " (NEW.part > 0 AND position('platform'::bytea IN NEW.body) > 0) EXECUTE FUNCTION stand_still()",
)
STANDS = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
GIVE_UP = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def test_a_database_that_is_gone_sends_nothing(
    runner: Callable[..., Project], sandbox: Sandbox, database: Postgres
) -> None:
    project = runner()
    project.run("state", "init")
    project.write(f"manifests: [manifests]\nstate: {database.url}x\n", "reconcile.yaml")
    ran = project.apply(code=1)
    assert "does not exist" in ran.out + ran.err
    assert password(database) not in ran.out + ran.err
    assert sandbox.mutations_of("shop") == []
