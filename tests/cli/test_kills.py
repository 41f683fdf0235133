"""`kill -9` in the middle of an apply: the next run finds out what happened, and goes on.

Each case holds one request of the apply (after its effect, or before it) and kills the process
while it waits for the answer. A request that is held for ever before its effect is one that
never arrived.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.cli.harness import Project, Sandbox, cluster, only, volume

FOREVER_S = 600
LONG_ENOUGH_S = 30


class Hold(NamedTuple):
    """The request to hold: `skip` such requests pass first. `landed`: whether it has its effect."""

    method: str
    path: str
    landed: bool = True
    skip: int = 0


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
