"""A controller and restore drills: it runs what is due in mode `apply` only, and ends in the middle."""

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.core.model import Address
from reconciler.drills.results import Result, remember_result
from reconciler.execution.decisions import Actor
from reconciler.manifests.load import load
from reconciler.state.places.sqlite.store import SqliteStore
from tests.cli.conftest import project_at
from tests.cli.harness import Project, Sandbox, serving, volume
from tests.cli.test_controller import controlling, settings
from tests.cli.test_controller_rounds import Rounds, here, mode

__all__ = ["here"]

pytestmark = pytest.mark.slow


def drill(app: str) -> str:
    return (
        "---\napiVersion: reconciler/v1\nkind: RestoreDrill\nmetadata: {name: hourly}\n"
        f"spec: {{of: Volume/{app}/data, schedule: '0 * * * *'}}\n"
    )


def due(project: Project, sandbox: Sandbox, app: str) -> None:
    """A volume with a snapshot, whose last drill was two hours ago."""
    project.write(volume(app))
    project.apply()
    sandbox.call("POST", f"/v1/apps/{app}/volumes/{sandbox.volume(app)['id']}/snapshots")
    sandbox.advance(3600)
    path = project.write(volume(app) + drill(app))

    async def remember() -> None:
        store = SqliteStore(project.root / ".reconcile/state.db", SystemClock(), backups=False)
        (policy,) = load([str(path)], root=project.root).policies
        address = Address("Volume", "data", app)
        known = (await store.load()).records[address]
        result = Result(datetime.now(UTC) - timedelta(hours=2), True, id=known.id)
        await remember_result(store, Actor(SystemClock(), "test"), policy, address, result)
        await store.close()

    anyio.run(remember)


def names(sandbox: Sandbox, app: str) -> list[str]:
    """The names of all volumes that ever were, without the number of a drill."""
    return sorted(each["name"].rpartition("-")[0] or each["name"] for each in sandbox.volumes(app))


@pytest.mark.parametrize(("name", "runs"), [("apply", True), ("observe", False), ("propose", False)])
async def test_what_is_due_runs_in_mode_apply_only(
    here: Project, sandbox: Sandbox, app: str, name: str, runs: bool
) -> None:
    mode(here, name)
    await anyio.to_thread.run_sync(due, here, sandbox, app)
    rounds = Rounds()
    await rounds.play(4)  # a look beside the drill may find its calls under way
    await rounds.end()
    told = [fields for event, fields in rounds.told if event == "drill.ended"]
    ended = [(each["of"], each["passed"], each["why"]) for each in told]
    assert ended == ([(f"Volume/{app}/data", True, "")] if runs else [])
    assert names(sandbox, app) == (["data", "drill-hourly"] if runs else ["data"])
    assert {each["state"] for each in sandbox.volumes(app) if each["name"] != "data"} <= {"pending_destroy"}
    assert rounds.statuses() == {app: "in-sync"}


async def test_what_an_earlier_drill_left_is_deleted_before_the_next_one_is_due(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    mode(here, "apply")
    await anyio.to_thread.run_sync(due, here, sandbox, app)
    sandbox.fault("DELETE", f"/v1/apps/{app}/volumes/*", "status", status=409)
    for there in (2, 1):
        rounds = Rounds()
        await rounds.play(4)
        await rounds.end()
        assert len([each for each in sandbox.volumes(app) if each["state"] == "created"]) == there


def test_a_signal_in_a_drill_ends_it_and_the_next_drill_cleans_up(tmp_path: Path) -> None:
    with serving("--clock", "manual", "--profile", "extended") as still:
        project = project_at(tmp_path, still.url)
        settings(project, "apply")  # each second: a drill that finds its scope locked waits for a round
        app = still.app("shop")
        due(project, still, app)
        with controlling(project) as log:
            log.running.until(lambda: len(still.volumes(app)) == 2)
            log.ended(signal.SIGTERM)
        assert [each["action"] for each in project.json("plan").json["changes"]] == ["retain"]
        still.advance(3600)
        project.remove()
        project.write(volume(app))
        assert "No drill is due" in project.run("drill").out
        assert json.dumps(still.volumes(app)).count('"created"') == 1
