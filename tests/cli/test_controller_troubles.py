"""What the controller says and sends while its store is away, the disk is full, or the clock jumps."""

import fcntl
import gc
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from reconciler.cli.controller import _door as made_door
from reconciler.controller.loop import Controller, Loaded
from reconciler.controller.status import Status
from tests.cli.harness import PATIENCE_S, Project, Sandbox, cluster, volume
from tests.cli.test_controller import (
    LARGER,
    Log,
    cloned,  # noqa: F401 - a fixture
    controlling,
    proposals,
    push,
    settings,
)
from tests.providers.postgres import Postgres, free_port
from tests.services.script import SimulatedClock
from tests.state.postgres.conftest import database, postgres  # noqa: F401 - fixtures
from tests.state.postgres.proxy import Fate, Proxy, proxied
from tests.state.postgres.test_access import reader

pytestmark = pytest.mark.slow

# A store that was reached before is called again for so long before it counts as away.
IMPATIENT = "from reconciler.state.places.postgres import connections\nconnections.PATIENCE_S = 0.2"


@pytest.fixture
def line(project: Project, database: Postgres) -> Iterator[Proxy]:  # noqa: F811
    """What leads to the state of `project`, which is in PostgreSQL."""
    shutil.rmtree(project.root / ".reconcile")
    with proxied(database.url) as (proxy, url):
        settings(project, "apply", f"state: '{url}'\n")
        project.run("state", "init")
        yield proxy


def away(sent: bytes) -> Fate:
    return Fate.LOST


def there(sent: bytes) -> Fate:
    return Fate.PASS


def test_while_its_store_is_away_nothing_is_known_or_sent(
    project: Project, sandbox: Sandbox, app: str, line: Proxy
) -> None:
    project.write(volume(app))
    line.fate = away
    with controlling(project, first=IMPATIENT) as log:
        assert "cannot be reached" in log.status(app, "unknown")  # also of what it never saw
        line.fate = there
        log.status(app, "in-sync")
        line.fate = away
        assert "cannot be reached" in log.status(app, "unknown")
        project.write(volume(app, spec=LARGER))
        for _ in range(2):
            log.until("round.failed")
        assert sandbox.mutations_of(app) == [("POST", "volumes")]
        line.fate = there
        log.status(app, "applying")
        log.status(app, "in-sync")
        line.fate = away
        log.status(app, "unknown")
        log.ended()
    assert sandbox.volume(app)["size_gb"] == 20


def test_a_role_that_may_only_read_the_state_is_enough_to_observe(
    project: Project,
    sandbox: Sandbox,
    app: str,
    database: Postgres,  # noqa: F811
) -> None:
    shutil.rmtree(project.root / ".reconcile")
    settings(project, "observe", f"state: '{database.url}'\n")
    project.run("state", "init")
    project.write(volume(app))
    project.apply()
    project.env["RECONCILE_STATE"] = reader(database)
    with controlling(project) as log:
        log.status(app, "in-sync")
        assert "may not do this" in log.until("statuses.unsaved")["reason"]
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
        log.status(app, "drifted")
        log.ended()
    assert "No controller" in project.run("controller", "status").out


def test_a_store_that_is_away_for_an_hour_costs_nothing_and_no_time_when_it_is_back(
    project: Project,
    sandbox: Sandbox,
    app: str,
    database: Postgres,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.rmtree(project.root / ".reconcile")
    project.write(f"state: '{database.url}'\ncontroller: {{every: 2m, mode: apply}}\n", "reconcile.yaml")
    project.run("state", "init")
    project.write(volume(app))
    project.apply()
    project.enter(monkeypatch)
    gc.freeze()  # each round collects, and need not look at all that the other tests have made
    try:
        anyio.run(_hour, database.url, app)
    finally:
        gc.unfreeze()
    assert sandbox.mutations_of(app) == [("POST", "volumes")]


async def _hour(url: str, app: str) -> None:
    clock, nobody = SimulatedClock(), f"postgresql://admin@127.0.0.1:{free_port()}/postgres"
    with ExitStack() as running:
        made = made_door("", url, None, running, sandbox=False)
        is_away = False

        async def load() -> Loaded:
            return (await made.load())._replace(state_url=nobody if is_away else url)

        door = replace(made, load=load, clock=clock, tell=lambda *_, **__: None)
        controller = Controller(door, anyio.Event())

        async def rounds(number: int) -> set[Status]:
            """The statuses that were seen."""
            seen = set()
            for _ in range(number):
                async with anyio.create_task_group() as tasks:
                    await controller._tick(tasks, once=False)
                seen.add(controller.statuses.by_scope[app].status)
                await clock.sleep(132)  # a round, and its spread
            return seen

        await rounds(3)
        assert controller.statuses.by_scope[app].status is Status.IN_SYNC
        is_away = True
        assert await rounds(5) == {Status.UNKNOWN}
        before = _held()
        assert await rounds(15) == {Status.UNKNOWN}
        middle = _held()
        assert await rounds(15) == {Status.UNKNOWN}
        after = _held()
        assert after[0] <= before[0], "descriptors"
        # Less than one a round; once, something else in this process may be made for the first time.
        assert min(after[1] - middle[1], middle[1] - before[1]) < 15, "objects"
        since = controller.statuses.by_scope[app].since
        assert (clock.now() - since).total_seconds() >= 3600
        is_away = False
        assert await rounds(1) == {Status.IN_SYNC}
        await controller._state.close()


def _held() -> tuple[int, int]:
    """How many descriptors are open, and how many objects are there."""
    gc.collect()
    return len([*Path("/proc/self/fd").iterdir()]), len(gc.get_objects())


# Ends as a store's thread would that is not cancelled: a call of PostgreSQL that is not answered.
HANGING = """
import time
from anyio import to_thread
from reconciler.cli import event_loop
event_loop.END_S = 0.1
async def main(stopped):
    print("runs", flush=True)
    await to_thread.run_sync(time.sleep, 600)
event_loop.serve(main)
"""


def test_a_signal_ends_it_although_its_store_does_not_answer() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def fill(log: Log) -> None:
    """As on a full disk: no file takes a byte more."""
    resource.prlimit(log.running.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def free(log: Log) -> None:
    resource.prlimit(
        log.running.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )


def test_on_a_full_disk_it_sends_nothing_and_goes_on_once_there_is_room(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    settings(project, "apply")
    project.write(volume(app))
    with controlling(project) as log:
        log.status(app, "in-sync")
        fill(log)
        project.write(volume(app, spec=LARGER))
        assert "cannot be read or written" in log.until("apply.refused", scope=app)["reason"]
        assert "cannot be read or written" in log.until("statuses.unsaved")["reason"]
        assert sandbox.mutations_of(app) == [("POST", "volumes")]
        free(log)
        log.status(app, "applying")
        log.status(app, "in-sync")
        log.ended()
    assert sandbox.volume(app)["size_gb"] == 20


def test_a_disk_that_is_full_once_a_call_was_sent_makes_no_second_object(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    settings(project, "apply")
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=1)
    with controlling(project) as log:
        log.running.until(sandbox.fault_taken)
        fill(log)
        log.until("statuses.unsaved")
        free(log)
        log.status(app, "in-sync")
        log.ended()
    assert sandbox.mutations_of(app) == [("POST", "volumes")]
    assert "No changes" in project.run("plan").out


def test_a_full_disk_holds_up_proposals_and_the_source_alone(
    cloned: Project,  # noqa: F811
    sandbox: Sandbox,
    app: str,
) -> None:
    name = f"db-{app}"
    with controlling(cloned) as log:
        log.status(app, "in-sync")
        fill(log)
        cloned.write(volume(app) + cluster(name))
        push(cloned)
        assert "git" in log.until("source.unread")["reason"]
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
        log.status(app, "drifted")
        free(log)
        log.until("plan.proposed", scope="org/personal")
        log.ended()


def test_proposals_that_cannot_be_kept_end_nothing(project: Project, app: str) -> None:
    settings(project, "propose")
    project.write(volume(app))
    folder = project.root / ".reconcile/controller/proposals"
    folder.parent.mkdir(mode=0o700)
    folder.write_text("a file in the place of the folder")
    with controlling(project) as log:
        assert "cannot make" in log.until("apply.refused", scope=app)["reason"]
        folder.unlink()
        log.status(app, "proposed")
        assert len(proposals(project)) == 1
        log.ended()


def test_two_controllers_do_not_change_one_clone_at_the_same_time(
    cloned: Project,  # noqa: F811
    app: str,
) -> None:
    folder = cloned.root / ".reconcile/controller/source"
    folder.mkdir(parents=True, mode=0o700)
    with (folder / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with controlling(cloned) as log:
            assert "another controller" in log.until("source.unread")["reason"]
            fcntl.flock(other, fcntl.LOCK_UN)
            log.status(app, "in-sync")
            log.ended()


# The wall clock of the process is wrong by the days that a file says.
JUMPING = """
from datetime import timedelta
from pathlib import Path
from reconciler.core.clock import SystemClock
right = SystemClock.now
SystemClock.now = lambda self: right(self) + timedelta(days=int(Path("days").read_text() or 0))
"""


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_jumps_by_a_day_changes_no_status_and_stops_nothing(
    applied: Project, sandbox: Sandbox, app: str, days: int
) -> None:
    settings(applied, "apply")
    applied.write("0", "days")
    with controlling(applied, first=JUMPING) as log:
        log.status(app, "in-sync")
        applied.write(str(days), "days")
        applied.write(volume(app, spec=LARGER))
        with sandbox.recording() as requests:
            log.until("apply.ended", scope=app, done=1)
            log.status(app, "in-sync")
        assert len(requests) < 50, "it looks again and again"
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=25)
        log.status(app, "drifted")
        applied.write("0", "days")
        applied.write(volume(app, spec="region: ams, size_gb: 25"))
        log.status(app, "in-sync")
        for _ in range(20):  # what is told is kept a moment later
            (found,) = applied.json("controller", "status").json["scopes"]
            dates = [datetime.fromisoformat(found[name]) for name in ("since", "last_success")]
            if max(dates) <= datetime.now(UTC):
                break
        assert max(dates) <= datetime.now(UTC)
        log.ended()
    assert sandbox.volume(app)["size_gb"] == 25


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("0.0.0.0:0", "everybody who reaches 0.0.0.0:0 could read"),
        ("0.0.0.0:0 --token-from EMPTY", "the environment variable `EMPTY` is not set"),
    ],
)
def test_where_it_must_not_listen_it_does_not_start(project: Project, options: str, why: str) -> None:
    project.env["EMPTY"] = ""
    assert why in project.run("controller", "--once", "--listen", *options.split(), code=1).err


@pytest.mark.parametrize(
    "listen", ["8300", "127.0.0.1:70000", "127.0.0.1:²", "127.0.0.1:" + "9" * 5000, "[::1:80"], ids=repr
)
def test_what_is_not_an_address_to_listen_on_is_a_slip(project: Project, listen: str) -> None:
    assert "expected HOST:PORT" in project.run("controller", "--once", "--listen", listen, code=64).err
