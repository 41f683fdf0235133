"""The whole way of a change: planned in a pull request, reviewed, merged, applied as it was reviewed.

The jobs are those of docs/how-to/ci.md, run on fresh clones of a remote on disk, with a shared state.
"""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci import packages, quick
from tests.ci.jobs import Ended, Host
from tests.cli.harness import TOKEN, Project, Sandbox, environment, serving, volume
from tests.docs import pages
from tests.docs.pages import ROOT
from tests.revisions.repository import ISOLATED, commit, git
from tests.state.objects.conftest import S3, make_s3, moto_server  # noqa: F401 - fixtures

PAGE = ROOT / "docs/how-to/ci.md"
_numbers = count(1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600") as sandbox:
        yield sandbox


class Team:
    """A remote with main, which holds two volumes and a state; pull requests to it, and merges of them."""

    def __init__(self, folder: Path, sandbox: Sandbox, env: dict[str, str], state: str) -> None:
        self.sandbox, self.app = sandbox, sandbox.app(f"ci{next(_numbers)}")
        names = {"RECONCILE_TOKEN"}  # it comes from the jobs' secrets
        shown = {key: value for key, value in environment(sandbox.url).items() if key not in names}
        self.host = Host(
            folder, {**shown, **env}, {f"secrets.RECONCILE_{what}_TOKEN": TOKEN for what in ("READ", "WRITE")}
        )
        self.root = folder / "developer"
        git(folder, "clone", "-q", str(self.host.origin), self.root.name)
        git(self.root, "checkout", "-q", "-b", "main")
        self.project = Project(self.root, {**environment(sandbox.url), **env, **ISOLATED})
        self.project.write(f"state: {state}\n", "reconcile.yaml")
        self.project.write(".reconcile/\n", ".gitignore")
        self.grow("data", 10)
        self.grow("logs", 5)
        line = next(line for line in self.project.run("state", "init").out.splitlines() if "lineage:" in line)
        self.project.write(f"{line.strip()}\n", "reconcile.yaml")
        self.project.apply()
        commit(self.root)
        git(self.root, "push", "-q", "origin", "main")

    def grow(self, name: str, size_gb: int) -> None:
        self.project.write(
            volume(self.app, name, f"region: ams, size_gb: {size_gb}"), f"manifests/{name}.yaml"
        )

    def propose(self, branch: str, *sizes: tuple[str, int]) -> str:
        """A branch from main as it is; the ref of what its merge would be, as GitHub has one."""
        git(self.root, "fetch", "-q", "origin")
        git(self.root, "checkout", "-q", "-B", branch, "origin/main")
        for name, size in sizes:
            self.grow(name, size)
        commit(self.root, branch)
        git(self.root, "push", "-q", "origin", branch)
        git(self.root, "checkout", "-q", "--detach", "origin/main")
        git(self.root, "merge", "-q", "--no-ff", "-m", "what would be", branch)
        ref = f"refs/pull/{branch}/merge"
        git(self.root, "push", "-q", "-f", "origin", f"HEAD:{ref}")
        return ref

    def merge(self, branch: str, how: str = "squash") -> None:
        git(self.root, "checkout", "-q", "-B", "main", "origin/main")
        if how == "squash":
            git(self.root, "merge", "-q", "--squash", branch)
            commit(self.root, f"{branch} (#1)")
        elif how == "rebase":
            git(self.root, "cherry-pick", f"{git(self.root, 'merge-base', 'main', branch)}..{branch}")
            git(
                self.root,
                "commit",
                "-q",
                "--amend",
                "-m",
                "by somebody else",
                "--author",
                "M <m@example.com>",
            )
        else:
            git(self.root, "merge", "-q", "--no-ff", "-m", f"Merge {branch}", branch)
        git(self.root, "push", "-q", "origin", "main")

    def sizes(self) -> dict[str, int]:
        return {each["name"]: each["size_gb"] for each in self.sandbox.volumes(self.app)}

    def edited_by_hand(self, name: str, size_gb: int) -> None:
        (found,) = [each for each in self.sandbox.volumes(self.app) if each["name"] == name]
        self.sandbox.edit_volume(found["id"], size_gb=size_gb)


def documented(file: str) -> Any:
    """The last block of the page that is written to `file`."""
    found = [item.text for item in pages.items(PAGE) if isinstance(item, pages.Block) and item.file == file]
    return yaml.safe_load(found[-1]) if file.endswith(("yaml", "yml")) else found[-1]


@pytest.fixture
def team(tmp_path: Path, sandbox: Sandbox, make_s3: Callable[[], S3]) -> Iterator[Team]:  # noqa: F811
    s3 = make_s3()
    team = Team(tmp_path, sandbox, dict(s3.variables), s3.url)
    with quick.installed(team.host.tools):
        yield team


@pytest.fixture
def local(tmp_path: Path, sandbox: Sandbox) -> Iterator[Team]:
    """With a state in a file that all jobs reach, as on one runner."""
    (tmp_path / "state").mkdir()
    team = Team(tmp_path, sandbox, {}, f"sqlite:{tmp_path}/state/state.db")
    with quick.installed(team.host.tools):
        yield team


def passed(ended: Ended, text: str = "") -> Ended:
    assert ended.code == 0, ended.text
    assert text in ended.text
    return ended


def test_github_applies_what_was_reviewed_and_plans_again_what_was_not(team: Team) -> None:
    host, workflow = team.host, documented(".github/workflows/reconcile.yaml")
    host.values |= {"github.base_ref": "main", "github.token": "t"}
    assert workflow["jobs"]["replan"]["if"] == "failure()"

    first, second = team.propose("first", ("data", 20)), team.propose("second", ("logs", 9))
    assert "1 to extend" in passed(host.github_job(workflow, "plan", first)).text
    passed(host.github_job(workflow, "plan", second))
    assert team.sizes() == {"data": 10, "logs": 5}

    team.merge("first")
    passed(host.github_job(workflow, "apply"), "Applied: 1 done.")
    assert team.sizes() == {"data": 20, "logs": 5}

    # main holds both changes now: nobody has reviewed the plan of that
    team.merge("second")
    refused = host.github_job(workflow, "apply")
    assert refused.code == 1
    assert "no artifact matches" in refused.text
    assert team.sizes() == {"data": 20, "logs": 5}
    assert "1 to extend" in passed(host.github_job(workflow, "replan")).text
    passed(host.github_job(workflow, "apply-again"), "Applied: 1 done.")
    assert team.sizes() == {"data": 20, "logs": 9}


def test_github_refuses_a_plan_whose_object_has_changed_since_the_review(local: Team) -> None:
    host, workflow = local.host, documented(".github/workflows/reconcile.yaml")
    host.values |= {"github.base_ref": "main", "github.token": "t"}
    passed(host.github_job(workflow, "plan", local.propose("third", ("data", 30))))
    local.edited_by_hand("data", 25)
    local.merge("third")
    refused = host.github_job(workflow, "apply")
    assert refused.code == 1
    assert f"Volume/{local.app}/data" in refused.text
    assert "plan-moved" in refused.text
    assert local.sizes()["data"] == 25


def test_gitlab_applies_what_was_reviewed_and_plans_again_what_was_not(local: Team) -> None:
    pipeline = documented(".gitlab-ci.yml")
    token = local.host.folder / "aws-token"
    pipeline["variables"]["AWS_WEB_IDENTITY_TOKEN_FILE"] = str(token)
    pipeline["variables"].pop("RECONCILE_BASE_URL")
    with packages.serving("JOB-TOKEN", "job-token", replaces=True) as registry:
        given = {
            "CI_API_V4_URL": f"{registry.url}/api/v4",
            "CI_PROJECT_ID": "7",
            "CI_JOB_TOKEN": "job-token",
            "AWS_TOKEN": "aws",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "RECONCILE_TOKEN": TOKEN,
            "RECONCILE_BASE_URL": local.sandbox.url,
        }

        def job(name: str, ref: str = "main") -> Ended:
            return local.host.gitlab_job(pipeline, name, ref, **given)

        first = local.propose("first", ("data", 20))
        passed(job("plan", first), "1 to extend")
        passed(job("plan", first))  # again: the newest counts
        local.propose("second", ("logs", 9))
        local.merge("first")
        passed(job("apply"), "Applied: 1 done.")
        local.merge("second")
        assert job("apply").code != 0
        assert local.sizes() == {"data": 20, "logs": 5}
        passed(job("replan"), "1 to extend")
        passed(job("apply-again"), "Applied: 1 done.")
    assert local.sizes() == {"data": 20, "logs": 9}
    (path,) = registry.files
    assert path.startswith("/api/v4/projects/7/packages/generic/reconcile-plans/")


def test_the_component_for_gitlab_applies_what_was_reviewed(local: Team) -> None:
    text = (ROOT / "templates/reconcile/template.yml").read_text().partition("\n---\n")[2]
    inputs = {"image": f"reconcile@sha256:{'a' * 64}", "manifests": "manifests", "lock-timeout": "300"}
    for name, value in {**inputs, "environment": "production"}.items():
        text = text.replace(f"$[[ inputs.{name} ]]", value)
    jobs = yaml.safe_load(text)
    with packages.serving("JOB-TOKEN", "job-token", replaces=True) as registry:
        given = {
            "CI_API_V4_URL": f"{registry.url}/api/v4",
            "CI_PROJECT_ID": "7",
            "CI_JOB_TOKEN": "job-token",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "RECONCILE_TOKEN": TOKEN,
        }
        ref = local.propose("first", ("data", 20))
        passed(local.host.gitlab_job(jobs, "reconcile-plan", ref, **given), "1 to extend")
        local.merge("first")
        passed(local.host.gitlab_job(jobs, "reconcile-apply", **given), "Applied: 1 done.")
        again = local.host.gitlab_job(jobs, "reconcile-apply", **given)  # as if the job ran again
        passed(again, "nothing is left to do")
    assert local.sizes() == {"data": 20, "logs": 5}


def test_gitea_applies_what_was_reviewed_and_plans_again_what_was_not(local: Team) -> None:
    host, workflow = local.host, documented(".gitea/workflows/reconcile.yaml")
    credential = "Basic " + base64.b64encode(b"bot:token").decode()
    with packages.serving("Authorization", credential, replaces=False) as registry:
        host.values |= {
            "github.base_ref": "main",
            "github.server_url": registry.url,
            "github.repository_owner": "team",
            "secrets.PLANS_USER": "bot:token",
            **{f"secrets.STATE_{what}_KEY{end}": "" for what in ("READ", "WRITE") for end in ("", "_ID")},
        }
        first = local.propose("first", ("data", 20))
        passed(host.github_job(workflow, "plan", first), "1 to extend")
        passed(host.github_job(workflow, "plan", first))
        local.propose("second", ("logs", 9))
        local.merge("first")
        passed(host.github_job(workflow, "apply"), "Applied: 1 done.")
        local.merge("second")
        assert host.github_job(workflow, "apply").code != 0
        passed(host.github_job(workflow, "replan"))
        passed(host.github_job(workflow, "apply-again"), "Applied: 1 done.")
    assert local.sizes() == {"data": 20, "logs": 9}


def test_cron_applies_what_was_reviewed_once_and_mails_what_was_not(local: Team) -> None:
    host = local.host
    (host.folder / "plans").mkdir()
    review, apply = host.clone(), host.clone()
    review.rename(host.folder / "review")
    apply = apply.rename(host.folder / "apply")
    scripts = {}
    for name in ("plan-branch", "apply-main"):
        (host.folder / name).write_text(documented(name))
        scripts[name] = f"sh {host.folder}/{name}"

    def run(name: str, *arguments: str) -> Ended:
        return host.run(" ".join([scripts[name], *arguments]), host.folder, {"RECONCILE_TOKEN": TOKEN})

    passed(run("apply-main"), "No changes")
    local.propose("first", ("data", 20))
    passed(run("plan-branch", "first"), "1 to extend")
    local.propose("second", ("logs", 9))
    local.merge("first")
    passed(run("apply-main"), "Applied: 1 done.")
    assert passed(run("apply-main")).text == ""
    local.merge("second")
    mailed = run("apply-main")
    assert mailed.code == 1
    assert "reconcile apply --plan replanned.plan" in mailed.text
    assert local.sizes() == {"data": 20, "logs": 5}
    typed = "reconcile apply --plan replanned.plan --auto-approve"
    passed(host.run(typed, apply, {"RECONCILE_TOKEN": TOKEN}), "Applied: 1 done.")
    passed(run("apply-main"), "No changes")
    assert local.sizes() == {"data": 20, "logs": 9}


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_the_plan_runs_however_its_change_was_merged(local: Team, how: str) -> None:
    """The manifests count, not the commit; also where main has got commits about other files since."""
    ref = local.propose("change", ("data", 20))
    planned = local.host.clone(ref)
    plan = local.host.folder / "reviewed.plan"
    Project(planned, local.project.env).run("plan", "--untrusted", "origin/main", "--out", str(plan))
    git(local.root, "checkout", "-q", "-B", "main", "origin/main")
    local.project.write("unrelated", "README")
    commit(local.root, "beside it")
    git(local.root, "push", "-q", "origin", "main")
    local.merge("change", how)
    merged = local.host.clone()
    trees = [git(place, "rev-parse", "HEAD:manifests") for place in (planned, merged)]
    assert trees[0] == trees[1]
    assert git(planned, "rev-parse", "HEAD") != git(merged, "rev-parse", "HEAD")
    runner = Project(merged, local.project.env)
    assert runner.apply("--plan", str(plan)).outcomes() == {f"Volume/{local.app}/data#extend": "done"}


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_a_merge_that_brings_another_change_too_runs_what_was_reviewed(local: Team, how: str) -> None:
    plan = local.host.folder / "reviewed.plan"
    planned = Project(local.host.clone(local.propose("change", ("data", 20))), local.project.env)
    planned.run("plan", "--untrusted", "origin/main", "--out", str(plan))
    local.propose("other", ("logs", 9))
    local.merge("other")
    local.merge("change", how)
    runner = Project(local.host.clone(), local.project.env)
    applied = json.loads(runner.run("apply", "--plan", str(plan), "-o", "json").out)
    left = [(each["code"], each["severity"]) for each in applied["diagnostics"]]
    assert left == [("not-in-plan", "warning")]
    assert f"Volume/{local.app}/logs" in applied["diagnostics"][0]["message"]
    assert local.sizes() == {"data": 20, "logs": 5}
