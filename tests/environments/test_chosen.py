"""Where there are environments, whoever touches a platform or a state says which one is meant."""

import json
from pathlib import Path

import anyio
import pytest

from reconciler.api import Misused, open_project
from tests.cli.test_authoring import completed
from tests.inprocess import Command, volume

TOUCHING = (
    "plan",
    "plan --out saved.plan",
    "plan --sandbox",
    "apply --auto-approve",
    "drift",
    "show Volume/shop/data",
    "import shop",
    "resolve Volume/shop/data --not-created",
    "state init",
    "state list",
    "state show Volume/shop/data",
    "state mv Volume/shop/data Volume/shop/new",
    "state forget Volume/shop/data",
    "state unlock shop",
    "state backup",
    "state restore --auto-approve",
    "secret fingerprint",
    "extension sso Extension/shop/db",
)
APART = ("build", "graph", "explain Volume", "validate")


@pytest.fixture
def staged(reconcile: Command) -> Command:
    """A project with the environments `prod`, which has an app of its own, and `test`."""
    reconcile.write("manifests/a.yaml", volume())
    reconcile.write("overlays/prod/a.yaml", '"*/shop/*": {metadata: {app: shop-prod}}\n')
    reconcile.write("reconcile.yaml", "environments: {test: {}}\n")
    return reconcile


@pytest.mark.parametrize("line", TOUCHING)
def test_a_forgotten_environment_is_refused_with_the_names(staged: Command, line: str) -> None:
    ended = staged(line, code=64)
    assert "which environment is meant? There are prod, test and `base` without an overlay" in ended.err
    assert "pass --env NAME, or set `default_environment: NAME` in reconcile.yaml" in ended.err
    assert ended.out == ""
    assert not (staged.root / ".reconcile").exists()


def test_in_json_too(staged: Command) -> None:
    (problem,) = json.loads(staged("plan -o json", code=64).out)["diagnostics"]
    assert problem["code"] == "environment-not-chosen"


@pytest.mark.parametrize("line", APART)
def test_what_touches_nothing_needs_no_environment(staged: Command, line: str) -> None:
    staged(line)


def test_without_environments_nothing_is_asked(reconcile: Command) -> None:
    reconcile.write("manifests/a.yaml", volume())
    reconcile.write("reconcile.yaml", "{}\n")
    reconcile("state init")
    assert (reconcile.root / ".reconcile/state.db").exists()
    reconcile("state list --env base")
    assert reconcile("validate").out == "Valid: 1 resource in 1 file.\n"


def test_base_has_the_state_of_before_there_were_environments(staged: Command) -> None:
    staged("state init --env base")
    assert (staged.root / ".reconcile/state.db").exists()
    assert json.loads(staged("state list --env base -o json").out)["context"]["environment"] == "base"
    staged.variables["RECONCILE_ENV"] = "base"
    assert "exists already" in staged("state init").out


def test_the_settings_may_name_the_one_that_is_meant(staged: Command) -> None:
    staged.write("reconcile.yaml", "default_environment: prod\nenvironments: {test: {}}\n")
    staged("state init")
    assert (staged.root / ".reconcile/prod/state.db").exists()
    assert "app: shop-prod" in staged("build").out
    assert "app: shop-prod" not in staged("build --env base").out
    assert completed("state", "show", "--env", "prod", "Vol") == ["Volume/shop/data"]
    staged.write("reconcile.yaml", "default_environment: base\nenvironments: {test: {}}\n")
    staged("state init")
    assert (staged.root / ".reconcile/state.db").exists()
    staged.write("reconcile.yaml", "default_environment: prd\nenvironments: {test: {}}\n")
    assert "there is no environment `prd`" in staged("state list", code=1).err
    assert "there is no environment `prd`" in staged("validate", code=1).err
    staged.write("reconcile.yaml", "default_environment: Prod\n")
    assert "reconcile.yaml:1:22" in staged("validate", code=1).err


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("overlays/base/a.yaml", "# nothing\n", "--> overlays/base:1:1"),
        ("reconcile.yaml", "environments: {base: {}}\n", "--> reconcile.yaml:1:16"),
    ],
)
def test_no_environment_can_be_called_base(reconcile: Command, file: str, text: str, place: str) -> None:
    reconcile.write("manifests/a.yaml", volume())
    reconcile.write(file, text)
    for line in ("validate", "plan --env base", "build --env prod"):
        told = reconcile(line, code=1).err
        assert "error[reserved-environment]: an environment cannot be called `base`" in told
        assert place in told


def test_validate_checks_the_base_and_every_environment(staged: Command) -> None:
    told = staged("validate")
    assert told.out == "Valid: 2 resources in 2 files, in base, prod, test.\n"
    assert json.loads(staged("validate -o json").out)["environments"] == ["base", "prod", "test"]
    assert staged("validate --env prod").out == "Valid: 1 resource in 2 files.\n"
    staged.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 0}}\n")
    told = staged("validate", code=1)
    assert told.err.count("error[") == 1
    assert "(environment prod)" in told.err
    assert "--> overlays/prod/a.yaml:1:" in told.err
    staged("validate --env test")
    staged("validate --env base")


def test_what_is_wrong_everywhere_is_told_once_and_of_no_environment(staged: Command) -> None:
    staged.write("manifests/b.yaml", volume("logs", size_gb=0))
    told = staged("validate", code=1).err
    assert told.count("error[") == 1
    assert "(environment" not in told
    staged.write("overlays/prod/a.yaml", "Volume/shop/logs: {spec: {size_gb: 5}}\n")
    told = staged("validate", code=1).err
    assert told.count("error[") == 1
    assert "(environments base, test)" in told


@pytest.mark.slow
def test_a_program_says_which_one_is_meant(staged: Command) -> None:
    async def opened(environment: str) -> str:
        async with open_project(staged.root, env=environment, sandbox=True) as project:
            return str(project.desired.resources[0].address)

    with pytest.raises(Misused, match="no environment is chosen") as refused:
        anyio.run(opened, "")
    assert "prod, test and" in refused.value.diagnostics[0].message
    assert anyio.run(opened, "base") == "Volume/shop/data"
    assert anyio.run(opened, "prod") == "Volume/shop-prod/data"


def test_completion_offers_base(staged: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(staged.root)
    assert completed("plan", "--env", "") == ["base", "prod", "test"]


def test_a_revision_has_environments_of_its_own(staged: Command, tmp_path: Path) -> None:
    from tests.revisions.repository import commit, git

    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    (tmp_path / "overlays/prod/a.yaml").unlink()
    (tmp_path / "overlays/prod").rmdir()
    assert staged("validate").out.endswith("in base, test.\n")
    assert staged("validate --ref main").out.endswith("in base, prod, test.\n")
    assert "There are prod, test and `base` without an overlay" in staged("plan --ref main", code=64).err
    assert "There are test and `base` without an overlay" in staged("plan", code=64).err


def test_an_environment_that_only_the_working_tree_has_is_not_asked_for_at_a_revision(
    reconcile: Command, tmp_path: Path
) -> None:
    from tests.revisions.repository import commit, git

    reconcile.write("manifests/a.yaml", volume())
    reconcile.write("reconcile.yaml", "{}\n")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    reconcile.write("overlays/prod/a.yaml", '"*/shop/*": {metadata: {app: shop-prod}}\n')
    assert "There are prod and `base` without an overlay" in reconcile("plan", code=64).err
    reconcile("state init --sandbox --env base")
    planned = reconcile("plan --ref main --sandbox")
    assert "Volume/shop/data" in planned.out
