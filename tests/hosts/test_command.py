"""`reconcile comment` as people run it: what it prints, how it ends, and that bad input sends nothing."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from reconciler.reports.formats import json as as_json
from tests.cli.harness import Project
from tests.hosts.doubles import HEAD, NUMBER, REPOSITORY, TOKEN, World, serving
from tests.hosts.test_publish import plan


@pytest.fixture
def world() -> Iterator[World]:
    with serving("github", me="") as world:
        yield world


@pytest.fixture
def job(world: World, tmp_path: Path) -> Project:
    """A folder without a project: a job that comments needs none, and no state."""
    (tmp_path / "event.json").write_text(
        json.dumps({"pull_request": {"number": NUMBER, "head": {"sha": HEAD}}})
    )
    (tmp_path / "plan.json").write_text(as_json.render(plan(changes=1)))
    variables = {
        "PATH": "/usr/bin:/bin",
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": world.api,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_TOKEN": TOKEN,
        "RECONCILE_UNTRUSTED": "origin/main",  # of the job: this verb reads no file of the project
    }
    return Project(tmp_path, variables)


def test_it_says_what_it_did(world: World, job: Project) -> None:
    first = job.run("comment", "plan.json")
    url = f"{world.url}/{REPOSITORY}/pull/{NUMBER}#issuecomment-1"
    assert first.out == f"reconcile/prod: made the comment {url}\nStatus: success\n"
    again = job.run("comment", "plan.json", "-o", "json", "--no-status")
    assert again.json == {
        "format_version": "1",
        "environment": "prod",
        "host": "github",
        "url": url,
        "action": "unchanged",
        "status": None,
    }
    world.head = "f" * 40
    assert job.run("comment", "plan.json").out.startswith("reconcile/prod: not the newest commit")


def test_a_report_without_an_environment_goes_with_that_of_the_option(world: World, job: Project) -> None:
    world.date = format_datetime(datetime.now(UTC), usegmt=True)
    job.write(json.dumps({"format_version": "1", "diagnostics": []}), "valid.json")
    assert job.run("comment", "valid.json", "-o", "json", "--env", "dev").json["environment"] == "dev"
    assert job.run("comment", "valid.json", "-o", "json").json["environment"] == "base"
    both = job.run("comment", "valid.json", "plan.json", "-o", "json", env={"RECONCILE_ENV": "prod"})
    assert both.json["environment"] == "prod"
    assert "**Valid.**" in world.comments[2].body
    assert "to delete" in world.comments[2].body


def test_bad_files_send_nothing(world: World, job: Project) -> None:
    job.write('{"format_version": "1", "changes": [', "bad.json")
    refused = job.run("comment", "plan.json", "bad.json", code=1)
    assert refused.err.startswith("error: bad.json is not JSON, or not all of it")
    assert "= help: " in refused.err
    assert world.log == []


def test_what_is_missing_is_told_and_nothing_sent(world: World, job: Project) -> None:
    untold = job.run("comment", "plan.json", code=1, env={"GITHUB_TOKEN": ""})
    assert "GITHUB_TOKEN or GH_TOKEN is not set" in untold.err
    assert "cannot read none.json" in job.run("comment", "none.json", code=1).err
    assert "is not a git host" in job.run("comment", "plan.json", "--host", "svn", code=1).err
    job.run("comment", code=64)
    job.run("comment", "plan.json", "--pull-request", "0", code=64)
    assert world.log == []


def test_options_say_all_of_it_outside_of_ci(world: World, job: Project) -> None:
    bare = dict.fromkeys(("GITHUB_ACTIONS", "GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_TOKEN"), "")
    words = ["--host", "github", "--api", world.api, "--repository", REPOSITORY]
    words += ["--pull-request", str(NUMBER), "--commit", HEAD, "--token-env", "MY_TOKEN"]
    env = {**bare, "GITHUB_EVENT_PATH": "", "MY_TOKEN": TOKEN}
    done = job.run("comment", "plan.json", *words, "--details-url", "https://ci.example/x.html", env=env)
    assert "made the comment" in done.out
    assert world.statuses[0]["target_url"] == "https://ci.example/x.html"
    assert '<a href="https://ci.example/x.html">The full report</a>' in world.comments[0].body
    assert world.strangers == []


def test_a_refusal_is_one_document_with_json(world: World, job: Project) -> None:
    world.reads_only = True
    refused = job.run("comment", "plan.json", "-o", "json", code=1)
    (problem,) = refused.json["diagnostics"]
    assert "workflow_run" in problem["help"]
    assert TOKEN not in refused.out + refused.err
