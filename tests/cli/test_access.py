"""What a verb needs before it can read the platform, and what it says when that is missing."""

import shutil

import pytest

from tests.cli.harness import Project, Sandbox, environment, only, volume


def test_without_a_platform_both_ways_out_are_named(project: Project, app: str) -> None:
    project.write(volume(app))
    lost = Project(project.root, environment(None))
    failed = lost.run("plan", code=1)
    assert "no platform is configured" in failed.err
    assert "base_url" in failed.err
    assert "--sandbox" in failed.err


def test_a_folder_that_the_sandbox_cannot_have_is_named(project: Project, app: str) -> None:
    project.write(volume(app))
    shutil.rmtree(project.root / ".reconcile")
    (project.root / ".reconcile").write_text("not a folder", encoding="utf-8")
    failed = project.run("plan", "--sandbox", code=1)
    assert ".reconcile is not a folder, or cannot be used" in failed.err
    assert "Traceback" not in failed.err


def test_without_a_token_the_variable_is_named(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    del project.env["RECONCILE_TOKEN"]
    with sandbox.recording() as requests:
        failed = project.run("apply", "--auto-approve", code=1)
    assert "`RECONCILE_TOKEN` is not set" in failed.err
    assert requests == []


@pytest.mark.parametrize("verb", ["plan", "apply", "drift"])
def test_a_wrong_token_is_told_and_never_shown(
    project: Project, sandbox: Sandbox, app: str, verb: str
) -> None:
    project.write(volume(app))
    if verb == "drift":
        project.apply()
    arguments = ["-vv", verb, *(["--auto-approve"] if verb == "apply" else [])]
    failed = project.run(*arguments, code=1, env={"RECONCILE_TOKEN": "canary-token"})
    assert "401" in failed.err
    assert "renew the token (the environment variable `RECONCILE_TOKEN`)" in failed.err
    assert "canary-token" not in failed.out + failed.err


def test_an_unknown_app_is_an_error_and_creates_nothing(project: Project, sandbox: Sandbox) -> None:
    project.write(volume("never-made"))
    with sandbox.recording() as requests:
        failed = project.apply(code=1)
    assert {method for method, _ in requests} == {"GET"}
    problem = only(failed.json["diagnostics"])
    assert "Could not find App" in problem["message"]
    assert (problem["file"], problem["line"]) == ("manifests/main.yaml", 4)


def test_manifests_come_from_stdin_too(project: Project, sandbox: Sandbox, app: str) -> None:
    project.run("apply", "-", "--auto-approve", stdin=volume(app))
    assert sandbox.volume(app)["size_gb"] == 10
    refused = project.run("plan", "-", stdin=volume(app, spec="size_gb: no"), code=1)
    assert "<stdin>:5:17" in refused.err
    assert "spec: {size_gb: no}" in refused.err


def test_a_verb_works_from_a_folder_below_the_project(project: Project, app: str) -> None:
    project.write(volume(app))
    below = project.root / "some" / "where"
    below.mkdir(parents=True)
    project.run("apply", "--auto-approve", cwd=below)
    assert f"Volume/{app}/data" in project.run("state", "list").out
    assert not (below / ".reconcile").exists()
