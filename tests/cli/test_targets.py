"""`--target`: a plan, an apply and a drift of some resources, with what they need."""

import json

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.state import open_store
from tests.cli.harness import Project, Sandbox, cluster, lines_with, moved, secret, volume


@pytest.fixture
def several(project: Project, app: str) -> Project:
    """Nothing is made yet: three volumes, one of them twice, and a secret that needs a cluster."""
    project.write(
        volume(app, "data")
        + volume(app, "logs")
        + volume(app, "cache", "region: ams, size_gb: 3, count: 2")
        + cluster(f"db-{app}")
        + secret(app, "HOST", f"template: '${{PostgresCluster/db-{app}:id}}'")
    )
    project.approve(f"PostgresCluster/db-{app}")
    return project


def addresses(project: Project, *arguments: str, code: int = 0) -> set[str]:
    return {
        step["address"]
        for step in project.json("plan", *arguments, code=code).json["steps"]
        if step["method"]
    }


def test_a_target_is_planned_and_nothing_else(several: Project, app: str) -> None:
    assert addresses(several, "--target", f"Volume/{app}/data") == {f"Volume/{app}/data"}
    both = ("--target", f"Volume/{app}/data", "--target", f"Volume/{app}/logs")
    assert addresses(several, *both) == {f"Volume/{app}/data", f"Volume/{app}/logs"}
    shown = several.run("plan", *both)
    assert lines_with(shown.out, "4 not looked at")
    assert "cache" not in shown.out
    assert several.json("plan", *both).json["outside"] == 4


def test_what_a_target_needs_comes_with_it(several: Project, app: str) -> None:
    needed = {f"Secret/{app}/HOST", f"PostgresCluster/db-{app}"}
    assert addresses(several, "--target", f"Secret/{app}/HOST") == needed
    ran = several.apply("--target", f"Secret/{app}/HOST")
    assert set(ran.outcomes().values()) == {"done"}
    assert several.json("plan", "--target", f"Secret/{app}/HOST").json["steps"] == []


def test_deletes_outside_of_the_targets_are_not_planned(several: Project, sandbox: Sandbox, app: str) -> None:
    goes = volume(app, "old", rest="lifecycle: {deletion: delete}\n")
    several.write(goes, "manifests/old.yaml")
    several.apply()
    several.remove("manifests/old.yaml")
    (deleted_id,) = [each["id"] for each in sandbox.volumes(app) if each["name"] == "old"]
    assert several.json("plan", "--target", f"Volume/{app}/data").json["changes"] == []
    deleted = several.json("plan", "--target", f"Volume/{app}/old").actions()
    assert deleted == {f"Volume/{app}/old": "delete"}
    several.apply("--target", f"Volume/{app}/old", "--approve-delete", f"Volume/{app}/old")
    assert ("DELETE", f"volumes/{deleted_id}") in sandbox.mutations_of(app)
    assert len([each for each in sandbox.mutations_of(app) if each[0] == "DELETE"]) == 1


def test_a_move_to_something_else_is_left_for_later(project: Project, app: str) -> None:
    project.write(volume(app, "data") + volume(app, "logs"))
    project.apply()
    bigger = volume(app, "data", "region: ams, size_gb: 20")
    project.write(bigger + volume(app, "trail") + moved(f"Volume/{app}/logs", f"Volume/{app}/trail"))
    assert "moves" not in project.json("plan", "--target", f"Volume/{app}/data").json
    told = project.run("plan", "--target", f"Volume/{app}/logs", code=64).err
    assert f"`Moved/m` says that it is now `Volume/{app}/trail`" in told
    project.apply("--target", f"Volume/{app}/data")
    found = project.json("apply", "--auto-approve", "--target", f"Volume/{app}/trail").json
    assert [(each["from"], each["to"]) for each in found["moves"]] == [
        (f"Volume/{app}/logs", f"Volume/{app}/trail")
    ]
    assert project.json("plan").json["changes"] == []


def test_an_unknown_target_names_a_near_one(several: Project, sandbox: Sandbox, app: str) -> None:
    with sandbox.recording() as requests:
        for verb in (["plan"], ["apply", "--auto-approve"], ["drift"]):
            ran = several.json(*verb, "--target", f"Volume/{app}/dat", code=64)
            (problem,) = ran.json["diagnostics"]
            assert (problem["code"], problem["help"]) == (
                "unknown-target",
                f"did you mean `Volume/{app}/data`?",
            )
    assert requests == []
    assert "not an address" in several.run("plan", "--target", "data", code=64).err
    several.run("plan", "--target", "", code=64)


def test_a_saved_plan_has_its_targets(several: Project, sandbox: Sandbox, app: str) -> None:
    del several.env["RECONCILE_APPROVE_CREATE"]
    several.run("plan", "--target", f"Volume/{app}/data", "--out", "saved.plan")
    assert several.run("apply", "--plan", "saved.plan", "--target", f"Volume/{app}/data", code=64)
    saved = json.loads((several.root / "saved.plan").read_text())["plan"]
    assert saved["manifests"]["targets"] == [f"Volume/{app}/data"]
    ran = several.run("apply", "--plan", "saved.plan", "--auto-approve", "--show-all")
    assert lines_with(ran.out, "unchanged") == []  # nothing of the rest is made yet
    assert lines_with(ran.out, "5 not looked at")
    assert "logs" not in ran.out
    assert [each["name"] for each in sandbox.volumes(app)] == ["data"]


def test_what_a_saved_plan_does_not_name_is_not_shown_as_unchanged(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    applied.write(volume(app) + volume(app, "logs"))
    applied.run("plan", "--out", "saved.plan")
    applied.write(volume(app) + volume(app, "logs") + volume(app, "more"))
    ran = applied.run("apply", "--plan", "saved.plan", "--show-all")
    shown = lines_with(ran.out, ": unchanged")
    assert [line.strip() for line in shown] == [f"Volume/{app}/data: unchanged"]
    assert f"warning[not-in-plan]: `Volume/{app}/more`" in ran.err
    assert sorted(each["name"] for each in sandbox.volumes(app)) == ["data", "logs"]


def test_drift_of_a_target_is_told_alone(several: Project, sandbox: Sandbox, app: str) -> None:
    several.apply()
    for each in sandbox.volumes(app):
        sandbox.edit_volume(each["id"], size_gb=50)
    found = several.json("drift", "--target", f"Volume/{app}/data", code=2)
    assert list(found.actions()) == [f"Volume/{app}/data"]
    assert found.json["outside"] == 5
    told = several.run("drift", "--target", f"Secret/{app}/HOST")
    assert "5 not looked at" not in told.out  # of the cluster that the secret needs, too
    assert "4 not looked at" in told.out


def test_what_paths_leave_out_is_one_line(several: Project, app: str) -> None:
    several.write(volume(app, "more"), "manifests/more.yaml")
    several.apply()
    shown = several.run("plan", "manifests/more.yaml").out
    assert "6 not looked at" in shown
    assert "logs" not in shown
    found = several.json("plan", "manifests/more.yaml").json
    assert (found["changes"], found["outside"], found["summary"]["retain"]) == ([], 6, 0)
    assert several.json("drift", "manifests/more.yaml").json["outside"] == 6
    told = several.run("plan", "manifests/more.yaml", "--target", f"Volume/{app}/data", code=64).err
    assert "unknown-target" in told


def test_the_lock_of_another_app_does_not_matter(several: Project, sandbox: Sandbox, app: str) -> None:
    other = sandbox.app(f"{app}-other")
    several.write(volume(other), "manifests/other.yaml")

    async def while_it_is_held() -> None:
        store = open_store("sqlite:.reconcile/state.db", root=several.root, clock=SystemClock())
        lease = await store.lease([other], "somebody else")
        several.apply(code=5)
        del several.env["RECONCILE_APPROVE_CREATE"]
        several.apply("--target", f"Volume/{app}/data")
        await store.release(lease)
        await store.close()

    anyio.run(while_it_is_held)
    assert sandbox.volumes(other) == []
