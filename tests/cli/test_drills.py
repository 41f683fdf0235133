"""`reconcile drill` as people and cron jobs run it: what it sends, what it says, and how it ends."""

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import project_at
from tests.cli.harness import Project, Sandbox, cluster, moved, only, serving, volume

WEEKLY = "RestoreDrill/weekly"
DELETED = "lifecycle: {deletion: delete, snapshot_before: []}\n"


@pytest.fixture
def here(extended_project: Project) -> Project:
    """On a platform that deletes and lists clusters."""
    return extended_project


def drill(of: str, spec: str = "", name: str = "weekly") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: RestoreDrill\nmetadata: {{name: {name}}}\n"
        f"spec: {{of: {of}{spec and f', {spec}'}}}\n"
    )


def ready_cluster(project: Project, name: str) -> str:
    """The address of a cluster that has a backup, with a drill."""
    address = f"PostgresCluster/{name}"
    project.write(cluster(name, rest="lifecycle: {deletion: delete}\n"))
    project.approve(address)
    project.apply()
    project.write(drill(address), "manifests/drill.yaml")
    return address


def ready_volume(project: Project, sandbox: Sandbox, app: str) -> str:
    """The address of a volume that has a snapshot, with a drill."""
    project.write(volume(sandbox.app(app), rest=DELETED))
    project.apply()
    sandbox.call("POST", f"/v1/apps/{app}/volumes/{sandbox.volume(app)['id']}/snapshots")
    sandbox.advance(3600)
    project.write(drill(f"Volume/{app}/data"), "manifests/drill.yaml")
    return f"Volume/{app}/data"


def test_a_cluster_is_drilled_and_its_log_shows_reads_and_one_restore(
    here: Project, extended: Sandbox
) -> None:
    address = ready_cluster(here, "orders")
    source = only(extended.clusters("orders"))["id"]
    with extended.recording() as requests:
        ran = here.run("drill", WEEKLY)
    assert f"{address} (weekly): passed; restored " in ran.out
    assert "not configured: contents: not verified" in ran.out
    assert [each for each in requests if source in each[1] and each[0] != "GET"] == [
        ("POST", f"/v1/postgres/{source}/restore")
    ]
    assert [method for method, _ in requests if method != "GET"] == ["POST", "DELETE"]
    assert "No changes" in here.run("plan").out
    here.run("drift", "--report", "openmetrics=m.prom")
    metrics = (here.root / "m.prom").read_text()
    for name in ("last_success_timestamp_seconds", "recovery_seconds", "lost_seconds"):
        assert f'reconciler_drill_{name}{{address="{address}"' in metrics
    assert "drills:\n  weekly: last proven restore" in here.run("show", address).out
    (shown,) = here.json("show", address).json["drills"]
    assert [result["passed"] for result in shown["results"]] == [True]
    assert f"ok       drills: {address}: last proven restore" in here.run("doctor").out
    assert "the state remembers what the drill `weekly` found" in here.run("history").out


def test_its_json_says_what_it_found(here: Project, extended: Sandbox) -> None:
    address = ready_volume(here, extended, "files")
    before = extended.volume("files")
    ran = here.json("drill", WEEKLY)
    (found,) = ran.json["drills"]
    assert (found["drill"], found["of"], found["ran"], found["passed"], found["left"]) == (
        WEEKLY,
        address,
        True,
        True,
        None,
    )
    assert {check["name"]: check["verdict"] for check in found["checks"]} == {
        "ready": "passed",
        "size": "passed",
        "contents": "not configured",
    }
    assert "facts" not in found
    assert next(each for each in extended.volumes("files") if each["id"] == before["id"]) == before


def test_nothing_runs_before_it_is_due(here: Project, extended: Sandbox) -> None:
    address = ready_volume(here, extended, "quiet")
    here.write(drill(address, "schedule: '0 0 29 2 *'"), "manifests/drill.yaml")
    with extended.recording() as requests:
        assert here.run("drill").out.splitlines()[-1] == "No drill is due."
    assert requests == []


def test_an_address_that_is_not_declared_is_a_mistake(here: Project, extended: Sandbox) -> None:
    ready_volume(here, extended, "wrong")
    assert "no manifest declares RestoreDrill/none" in here.run("drill", "RestoreDrill/none", code=64).err
    assert here.run("drill", "Volume/wrong/data", code=64).err


def test_a_failed_drill_is_drift_and_gates_the_delete(here: Project, extended: Sandbox) -> None:
    address = ready_cluster(here, "failing")
    extended.switch(cluster_outcome="failed")
    ran = here.run("drill", WEEKLY, code=1)
    assert f"error[drill-failed]: `{address}`: failed: the restore is failed: " in ran.err
    assert here.json("drill", WEEKLY, code=1).json["drills"][0]["passed"] is False
    extended.switch(cluster_outcome="ready")
    assert f"warning[drill-failed]: `{address}`" in here.run("drift", code=2).err
    assert f"warning  drills: {address}: its last drill failed" in here.run("doctor", code=None).out
    shown = here.run("show", address).out
    assert "  weekly: no restore of it was ever proven; the last one failed: the restore is failed" in shown
    here.write(volume(extended.app("rest")))
    here.remove("manifests/drill.yaml")
    assert "warning[not-recoverable]" in here.run("plan").err
    refused = here.run("apply", "--auto-approve", "--approve-delete", address, code=1)
    assert "error[not-recoverable]" in refused.err
    assert only(extended.clusters("failing"))["status"] == "ready"


def test_a_restore_that_is_refused_or_lost(here: Project, extended: Sandbox) -> None:
    ready_cluster(here, "refusing")
    source = only(extended.clusters("refusing"))["id"]
    extended.fault("POST", f"/v1/postgres/{source}/restore", "status", status=422)
    ran = here.run("drill", WEEKLY, code=1)
    assert "422" in ran.err
    assert ran.out.splitlines()[-1].endswith("; nothing was restored")
    extended.fault("POST", f"/v1/postgres/{source}/restore", "drop_after")
    with extended.recording() as requests:
        here.run("drill", WEEKLY, code=None)
    assert [method for method, _ in requests if method != "GET"] == ["POST", "DELETE"]
    here.run("drill", WEEKLY)


def test_what_a_good_drill_could_not_delete_is_pending(here: Project, extended: Sandbox) -> None:
    ready_volume(here, extended, "stuck")
    extended.fault("DELETE", "/v1/apps/stuck/volumes/*", "status", status=409)
    ran = here.run("drill", WEEKLY, code=4)
    assert "(weekly): passed; " in ran.out
    assert "is still there: the next drill deletes it" in ran.out
    here.run("drill")


def test_an_interrupted_drill_holds_others_off_and_is_cleaned_by_the_next(tmp_path: Path) -> None:
    with serving("--clock", "manual", "--profile", "extended") as still:
        project = project_at(tmp_path, still.url)
        project.env["RECONCILE_CAPABILITIES"] = "extended"
        app = still.app("shop")
        project.write(volume(app))
        project.apply()
        id = still.volume(app)["id"]
        still.call("POST", f"/v1/apps/{app}/volumes/{id}/snapshots")
        still.advance(3600)
        project.write(drill(f"Volume/{app}/data"), "manifests/drill.yaml")
        with project.started("drill", WEEKLY) as running:
            running.until(lambda: len(still.volumes(app)) == 2 and still.seen("GET", f"/{app}/volumes/vol_"))
            assert "locked" in project.run("drill", WEEKLY, code=5).err
            running.signal(signal.SIGINT)
            ended = running.ended()
        assert ended.code == 130, ended.err
        made = next(each for each in still.volumes(app) if each["id"] != id)
        assert made["name"].startswith("drill-weekly-")
        address = f"Volume/{app}/{made['name']}"
        plan = project.json("plan").json
        assert [(each["address"], each["action"]) for each in plan["changes"]] == [(address, "retain")]
        for verb in (("plan",), ("show", address)):
            assert made["name"] in project.run(*verb, code=None).out
        still.advance(3600)
        assert made["name"] in project.run("apply", "--auto-approve").out
        assert project.json("plan", "--target", f"Volume/{app}/data").json["steps"] == []
        assert len([each for each in still.volumes(app) if each["state"] == "created"]) == 2
        project.write(volume(app) + moved(address, f"Volume/{app}/data"), "manifests/moved.yaml")
        assert project.run("plan", code=1).err
        project.remove("manifests/moved.yaml")
        refused = project.run("state", "mv", address, f"Volume/{app}/kept", code=1)
        assert "is what a drill has made" in refused.err
        assert "No drill is due" in project.run("drill").out
        assert [each["id"] for each in still.volumes(app) if each["state"] == "created"] == [id]
