"""`kill -9` in the middle of an apply: the next run finds out what happened, and goes on.

Each case holds one request of the apply (after its effect, or before it) and kills the process
while it waits for the answer. A request that is held for ever before its effect is one that
never arrived.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.cli.harness import Project, Sandbox, cluster, only, secret, volume

FOREVER_S = 600
LONG_ENOUGH_S = 30


class Hold(NamedTuple):
    """The request to hold: `skip` such requests pass first. `landed`: whether it has its effect."""

    method: str
    path: str
    landed: bool = True
    skip: int = 0


DATA = "region: ams, size_gb: 10"
GROWN = "region: ams, size_gb: 20"
DELETABLE = "lifecycle: {deletion: delete, snapshot_before: []}\n"
SNAPSHOT_FIRST = "lifecycle: {snapshot_before: [extend]}\n"


def held(sandbox: Sandbox, app: str, hold: Hold) -> None:
    path = hold.path.replace("APP", f"/v1/apps/{app}")
    for _ in range(hold.skip):
        sandbox.fault(hold.method, path, "delay", delay_s=0)
    delay_s = LONG_ENOUGH_S if hold.landed else FOREVER_S
    sandbox.fault(hold.method, path, "delay", delay_s=delay_s, before=not hold.landed)


def killed_in(project: Project, sandbox: Sandbox, app: str, hold: Hold, *arguments: str) -> None:
    """Apply, hold the request, kill."""
    held(sandbox, app, hold)
    with project.started("apply", "--auto-approve", *arguments) as running:
        running.until(sandbox.fault_taken)
        running.kill()


def assert_converged(project: Project) -> None:
    """Nothing to do, nothing unknown, and no lock to remove by hand."""
    again = project.apply()
    assert again.json["steps"] == []
    assert [item["code"] for item in again.json["diagnostics"] if item["code"] != "inferred-id"] == []


def volume_names(sandbox: Sandbox, app: str) -> list[str]:
    return sorted(item["name"] for item in sandbox.volumes(app) if item["state"] != "pending_destroy")


@pytest.mark.parametrize(
    "hold",
    [
        Hold("GET", "APP/volumes"),
        Hold("GET", "APP/volumes", skip=1),
        Hold("POST", "APP/volumes"),
        Hold("POST", "APP/volumes", landed=False),
        Hold("POST", "APP/volumes", skip=1),
        Hold("POST", "APP/volumes", landed=False, skip=1),
    ],
    ids=["planning", "under-the-lease", "landed", "not-landed", "second-landed", "second-not-landed"],
)
def test_while_volumes_are_created(project: Project, sandbox: Sandbox, app: str, hold: Hold) -> None:
    project.write(volume(app, spec=f"{DATA}, count: 2"))
    killed_in(project, sandbox, app, hold)
    project.apply()
    assert volume_names(sandbox, app) == ["data", "data"]
    assert_converged(project)


@pytest.mark.parametrize(
    "hold",
    [
        Hold("POST", "APP/volumes", skip=1),
        Hold("POST", "APP/volumes", landed=False, skip=1),
        Hold("GET", "APP/volumes/*"),
    ],
    ids=["landed", "not-landed", "waiting"],
)
def test_while_a_volume_is_forked(project: Project, sandbox: Sandbox, app: str, hold: Hold) -> None:
    project.write(volume(app) + volume(app, "copy", spec=f"{DATA}, from: {{volume: data}}"))
    killed_in(project, sandbox, app, hold)
    project.apply()
    assert volume_names(sandbox, app) == ["copy", "data"]
    assert_converged(project)


@pytest.mark.parametrize(
    ("landed", "answer"),
    [
        (True, lambda sandbox, name: ["--adopt", only(sandbox.clusters(name))["id"]]),
        (False, lambda sandbox, name: ["--not-created", "--force"]),
    ],
    ids=["landed", "not-landed"],
)
def test_while_a_cluster_is_created(
    project: Project,
    sandbox: Sandbox,
    app: str,
    landed: bool,
    answer: Callable[[Sandbox, str], list[str]],
) -> None:
    name = f"db-{app}"
    project.write(cluster(name))
    project.approve(f"PostgresCluster/{name}")
    killed_in(project, sandbox, app, Hold("POST", "/v1/postgres", landed))
    asked = project.run("apply", "--auto-approve", code=3)
    assert f"reconcile resolve PostgresCluster/{name} --adopt ID" in asked.err
    project.run("resolve", f"PostgresCluster/{name}", *answer(sandbox, name))
    project.apply()
    assert len(sandbox.clusters(name)) == 1
    assert_converged(project)


def test_while_a_cluster_is_waited_for(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(cluster(f"db-{app}"))
    project.approve(f"PostgresCluster/db-{app}")
    killed_in(project, sandbox, app, Hold("GET", "/v1/postgres/*"))
    project.apply()
    assert len(sandbox.clusters(f"db-{app}")) == 1
    assert_converged(project)


@pytest.mark.parametrize(
    "hold",
    [
        Hold("PUT", "APP/volumes/*/extend"),
        Hold("PUT", "APP/volumes/*/extend", landed=False),
        Hold("GET", "APP/volumes/*"),
    ],
    ids=["landed", "not-landed", "waiting"],
)
def test_while_a_volume_is_extended(project: Project, sandbox: Sandbox, app: str, hold: Hold) -> None:
    project.write(volume(app))
    project.apply()
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write(volume(app, spec=GROWN))
    killed_in(project, sandbox, app, hold)
    applied = project.apply()
    assert sandbox.volume(app)["size_gb"] == 20
    assert only(applied.json["owed"])["work"] == "restart"
    assert_converged(project)


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_while_a_snapshot_is_taken_before_an_extend(
    project: Project, sandbox: Sandbox, app: str, landed: bool
) -> None:
    project.write(volume(app, rest=SNAPSHOT_FIRST))
    project.apply()
    project.write(volume(app, spec=GROWN, rest=SNAPSHOT_FIRST))
    killed_in(project, sandbox, app, Hold("POST", "APP/volumes/*/snapshots", landed))
    assert sandbox.volume(app)["size_gb"] == 10
    project.apply()
    assert sandbox.volume(app)["size_gb"] == 20
    assert sandbox.snapshots(app)
    assert_converged(project)


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_while_a_volume_is_updated(project: Project, sandbox: Sandbox, app: str, landed: bool) -> None:
    project.write(volume(app))
    project.apply()
    project.write(volume(app, spec=f"{DATA}, snapshot_retention: 30"))
    killed_in(project, sandbox, app, Hold("PUT", "APP/volumes/*", landed))
    project.apply()
    assert sandbox.volume(app)["snapshot_retention"] == 30
    assert_converged(project)


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_while_a_secret_is_set(project: Project, sandbox: Sandbox, app: str, landed: bool) -> None:
    project.env["SHOP_PASSWORD"] = "value"
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    killed_in(project, sandbox, app, Hold("POST", "APP/secrets/*", landed))
    project.apply()
    assert len(sandbox.secrets(app)) == 1
    assert_converged(project)


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_while_a_volume_is_deleted(project: Project, sandbox: Sandbox, app: str, landed: bool) -> None:
    project.write(volume(app, rest=DELETABLE))
    project.apply()
    project.remove()
    approved = ("--approve-delete", f"Volume/{app}/data")
    killed_in(project, sandbox, app, Hold("DELETE", "APP/volumes/*", landed), *approved)
    project.apply(*approved)
    assert volume_names(sandbox, app) == []
    assert project.json("state", "list").json["records"] == []


def test_a_create_that_lands_after_the_kill_is_found(project: Project, sandbox: Sandbox, app: str) -> None:
    """The request outlives the process that sent it, and lands within the settle window."""
    project.env["RECONCILE_SETTLE_S"] = "3"
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=1, before=True)
    with project.started("apply", "--auto-approve") as running:
        running.until(sandbox.fault_taken)
        running.kill()
    assert sandbox.volumes(app) == []
    project.apply()
    assert volume_names(sandbox, app) == ["data"]
    assert sandbox.mutations_of(app) == [("POST", "volumes")]


def test_plan_after_a_kill_asks_and_sends_nothing(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(cluster(f"db-{app}") + volume(app))
    project.approve(f"PostgresCluster/db-{app}")
    killed_in(project, sandbox, app, Hold("POST", "/v1/postgres"))
    with sandbox.recording() as requests:
        plan = project.json("plan", code=3)
    assert {method for method, _ in requests} == {"GET"}
    assert plan.actions()[f"PostgresCluster/db-{app}"] == "refused"
    question = next(item for item in plan.json["diagnostics"] if item["code"] == "unknown-outcome")
    assert "--adopt ID" in question["help"]
    assert "--not-created" in question["help"]
