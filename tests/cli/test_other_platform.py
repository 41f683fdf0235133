"""A state is about one platform: ids of one mean nothing on another."""

from collections.abc import Iterator

import pytest

from tests.cli.harness import Project, Sandbox, serving, volume


@pytest.fixture
def other(app: str) -> Iterator[Sandbox]:
    """Another platform, with an app of the same name."""
    with serving("--clock", "x600") as sandbox:
        sandbox.app(app)
        yield sandbox


def test_the_first_run_that_writes_records_the_platform(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.run("plan")
    assert project.json("state", "list").json["platform"] is None
    project.apply()
    listed = project.json("state", "list", env={"RECONCILE_BASE_URL": ""})
    assert listed.json["platform"] == listed.json["context"]["platform"] == sandbox.url
    assert sandbox.url in project.run("state", "list", env={"RECONCILE_BASE_URL": ""}).out


def test_an_apply_that_is_refused_records_no_platform(project: Project, sandbox: Sandbox, app: str) -> None:
    for _ in range(2):
        sandbox.make_volume(app, "data")
    project.write(volume(app))
    assert "ambiguous-match" in project.run("apply", "--auto-approve", code=1).err
    assert project.json("state", "list").json["platform"] is None


def test_every_verb_that_asks_a_platform_refuses_another_one(
    applied: Project, sandbox: Sandbox, other: Sandbox, app: str
) -> None:
    data, there = f"Volume/{app}/data", {"RECONCILE_BASE_URL": other.url}
    with other.recording() as requests:
        for verb in (
            ["plan"],
            ["apply", "--auto-approve"],
            ["drift"],
            ["import", app],
            ["show", data],
            ["resolve", data, "--not-created"],
        ):
            refused = applied.run(*verb, code=1, env=there)
            assert (
                f"belongs to the platform at {sandbox.url}, not to the one at {other.url}" in refused.err
            ), verb
            assert f"reconcile state set-platform {other.url}" in refused.err
    assert requests == []
    applied.run("state", "list", env=there)
    (problem,) = applied.json("plan", code=1, env=there).json["diagnostics"]
    assert problem["code"] == "other-platform"
    assert applied.json("plan", env={"RECONCILE_BASE_URL": sandbox.url + "/"}).json["changes"] == []


def test_a_platform_that_moved_is_told(applied: Project, sandbox: Sandbox, app: str) -> None:
    moved = sandbox.url.replace("127.0.0.1", "localhost")
    applied.run("plan", code=1, env={"RECONCILE_BASE_URL": moved})
    told = applied.run("state", "set-platform", moved).out
    assert told == f"sqlite:.reconcile/state.db: about the platform at {moved} (was {sandbox.url})\n"
    assert applied.json("plan", env={"RECONCILE_BASE_URL": moved}).json["changes"] == []
    applied.run("plan", code=1)
    again = applied.json("state", "set-platform", moved).json
    assert (again["platform"], again["before"]) == (moved, moved)


def test_what_is_not_an_address_is_not_recorded(applied: Project) -> None:
    refused = applied.run("state", "set-platform", "https://user:pw@api.example.com", code=1)
    assert "without a user or password" in refused.err
    assert "pw" not in refused.err
    applied.run("state", "set-platform", "https://api.example.com", "--sandbox", code=64)
    applied.run("plan")


def test_the_sandbox_may_have_another_address_each_time(project: Project, app: str) -> None:
    project.write(volume(app))
    project.apply("--sandbox")
    project.apply("--sandbox")
    listed = project.json("state", "list", "--sandbox").json
    assert (listed["platform"], listed["context"]["platform"]) == (None, "sandbox")


def test_a_plan_of_a_new_state_is_not_applied_to_another_platform(
    project: Project, sandbox: Sandbox, other: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    apply = ["apply", "--plan", "saved.plan"]
    with other.recording() as requests:
        refused = project.run(*apply, code=1, env={"RECONCILE_BASE_URL": other.url})
    assert requests == []
    assert "error[plan-moved]" in refused.err
    assert f"made for the platform {sandbox.url}, not {other.url}" in refused.err
    project.run(*apply)
    assert len(sandbox.volumes(app)) == 1
