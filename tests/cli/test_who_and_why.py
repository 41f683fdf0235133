"""What the journal says of who did something and why."""

from typing import Any

import anyio

from reconciler.core.clock import SystemClock
from reconciler.project.attribution import person
from reconciler.state.places.sqlite.store import SqliteStore
from tests.cli.harness import Project, Sandbox, volume

CI = {
    "GITHUB_ACTOR": "ana",
    "GITHUB_SERVER_URL": "https://bot:hunter2@github.example",
    "GITHUB_REPOSITORY": "shop/infra",
    "GITHUB_RUN_ID": "7",
}
URL = "https://github.example/shop/infra/actions/runs/7"


def entries(project: Project, event: str) -> list[dict[str, Any]]:
    """The data of the entries of this event, oldest first."""

    async def read() -> list[dict[str, Any]]:
        store = SqliteStore(project.root / ".reconcile/state.db", SystemClock(), read_only=True)
        journal = await store.journal()
        await store.close()
        return [dict(entry.data) for _, entry in journal if entry.event == event]

    return anyio.run(read)


def test_a_run_says_who_began_it_where_and_why(project: Project, app: str) -> None:
    project.write(volume(app))
    project.apply("--reason", "more room\nfor the shop", env=CI)
    (run,) = entries(project, "run.started")
    assert run["actor"] == "ana"
    assert run["url"] == URL
    assert run["reason"] == "more room for the shop"
    assert run["environment"] == "base"
    assert "revision" not in run  # git knows nothing of this folder
    assert len(run["plan"]) == 32
    assert run["resources"]


def test_a_saved_plan_says_who_runs_it(project: Project, app: str) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan", env={"GITHUB_ACTOR": "ben"})
    project.run("apply", "--plan", "saved.plan", "--reason", "reviewed", env=CI)
    (run,) = entries(project, "run.started")
    assert (run["actor"], run["reason"]) == ("ana", "reviewed")


def test_each_decision_of_a_person_says_who_and_why(applied: Project, sandbox: Sandbox, app: str) -> None:
    address, other = f"Volume/{app}/data", f"Volume/{app}/other"
    twin = sandbox.make_volume(app, "data", region="ams", size_gb=10)
    because = ("--reason", "as agreed")
    applied.run("resolve", address, "--dismiss", twin, *because, env=CI)
    applied.run("state", "mv", address, other, *because, env=CI)
    applied.run("state", "forget", other, *because, env=CI)
    applied.run("state", "set-platform", "https://moved.example", *because, env=CI)
    applied.run("state", "unlock", app, *because, env=CI)
    *decided, unlocked = entries(applied, "decided")[-5:]
    assert [set(each) - {"by", "url", "reason"} for each in decided] == [
        {"dismissed"},
        {"from", "to", "id"},
        {"forget"},
        {"platform"},
    ]
    assert [(each["by"], each["url"], each["reason"]) for each in decided] == [("ana", URL, "as agreed")] * 4
    assert unlocked["by"] == f"ana ({URL}): as agreed"


def test_without_a_reason_only_who_is_said(applied: Project, app: str) -> None:
    applied.run("state", "forget", f"Volume/{app}/data")
    assert entries(applied, "decided")[-1]["by"] == person()
    applied.run("apply", "--auto-approve", "--reason", "", code=64)
