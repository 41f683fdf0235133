"""Environments keep their settings, states and worlds apart."""

import json
from pathlib import Path

import pytest

from reconciler.project.settings import ProjectSettings, find_settings
from tests.inprocess import Command, volume


def settings(root: Path, text: str, environment: str = "", **variables: str) -> ProjectSettings:
    (root / "reconcile.yaml").write_text(text)
    return find_settings(root, variables, environment)


def test_an_environment_changes_only_the_settings_that_it_names(tmp_path: Path) -> None:
    text = """
platform: {base_url: https://api.example.com, token_from: {env: TOKEN}, rate_limit: 5}
execution: {concurrency: 4, settle_s: 60}
environments:
  prod:
    platform: {base_url: https://prod.example.com}
    execution: {settle_s: 300}
"""
    base, prod = settings(tmp_path, text).settings, settings(tmp_path, text, "prod").settings
    assert prod.platform.base_url == "https://prod.example.com"
    assert base.platform.base_url == "https://api.example.com"
    assert (prod.platform.token_from.env, prod.platform.rate_limit) == ("TOKEN", 5)
    assert (prod.execution.concurrency, prod.execution.settle_s) == (4, 300)


@pytest.mark.parametrize(
    ("text", "variables", "state"),
    [
        ("{}", {}, "sqlite:.reconcile/prod/state.db"),
        ("state: sqlite:/srv/shop.db", {}, "sqlite:/srv/prod/shop.db"),
        ("state: sqlite:shop.db", {}, "sqlite:prod/shop.db"),
        ("state: sqlite:a.db", {"RECONCILE_STATE": "sqlite:b/c.db"}, "sqlite:b/prod/c.db"),
        ("environments: {prod: {state: 'sqlite:/srv/p.db'}}", {}, "sqlite:/srv/p.db"),
        ("state: postgresql://host/db", {}, "postgresql://host/db"),
    ],
)
def test_each_environment_has_a_state_of_its_own(
    tmp_path: Path, text: str, variables: dict[str, str], state: str
) -> None:
    found = settings(tmp_path, text, "prod", **variables)
    assert found.settings.state_url == state
    assert found.private == tmp_path / ".reconcile/prod"


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        ("state: {url: 's3://b/p', endpoint: 'https://s3.local'}", {}, ("s3://b/p", "https://s3.local")),
        (
            "state: {url: 's3://b/p', endpoint: 'https://s3.local'}",
            {"RECONCILE_STATE": "s3://other/p"},
            ("s3://other/p", "https://s3.local"),
        ),
        (
            "state: {url: 's3://b/p', endpoint: 'https://s3.local'}\n"
            "environments: {prod: {state: 's3://c/p'}}",
            {},
            ("s3://c/p", None),
        ),
    ],
)
def test_an_endpoint_belongs_to_the_url_that_it_stands_beside(
    tmp_path: Path, text: str, variables: dict[str, str], expected: tuple[str, str | None]
) -> None:
    found = settings(tmp_path, text, "prod", **variables).settings
    assert (found.state_url, found.state.endpoint) == expected


@pytest.mark.parametrize(
    "state",
    [
        "{url: 'sqlite:a.db', endpoint: 'https://s3.local'}",
        "{url: 's3://b/p', endpoint: 'https://ann:hunter2@s3.local'}",
        "{url: 's3://b/p', endpont: 'https://s3.local'}",
    ],
)
def test_a_state_that_says_what_means_nothing_is_refused(reconcile: Command, state: str) -> None:
    reconcile.write("reconcile.yaml", f"state: {state}\n")
    told = reconcile("validate", code=1).err
    assert "error[bad-setting]" in told
    assert "hunter2" not in told


def test_a_lease_that_ends_before_its_call_is_refused_where_the_state_is_shared(reconcile: Command) -> None:
    slow = "execution: {deadline_s: 90}\n"
    reconcile.write("reconcile.yaml", slow + "state: postgresql://db.invalid/state\n")
    told = reconcile("state list", code=1).err
    assert "`execution.lease_s` (60 s) must be longer than `execution.deadline_s` (90 s)" in told
    reconcile.write("reconcile.yaml", slow)
    assert "lease_s" not in reconcile("state list", code=1).err


def test_a_bad_section_of_an_environment_is_told_of_at_its_place(reconcile: Command) -> None:
    reconcile.write("reconcile.yaml", "environments:\n  prod: {platfrom: {}}\n  Prod: {}\n")
    told = reconcile("validate", code=1).err
    assert "reconcile.yaml:2:" in told
    assert "reconcile.yaml:3:" in told


def test_the_state_of_one_environment_is_refused_to_another(reconcile: Command) -> None:
    reconcile.write("manifests/a.yaml", volume())
    for name in ("prod", "test"):
        reconcile.write(f"overlays/{name}/a.yaml", "# nothing differs\n")
    reconcile("state init --env prod")
    mine = "--state sqlite:.reconcile/prod/state.db"
    assert (
        "belongs to environment `prod`, and not to `test`"
        in reconcile(f"state list --env test {mine}", code=1).err
    )
    told = reconcile(f"state list --env base {mine}", code=1).err
    assert "belongs to environment `prod`, and not to `base`" in told
    assert "help: pass --env prod" in told
    reconcile(f"state list --env prod {mine}")


def test_the_state_of_the_base_becomes_that_of_an_environment_only_on_demand(reconcile: Command) -> None:
    for name in ("prod", "test"):
        reconcile.write(f"overlays/{name}/a.yaml", "# nothing differs\n")
    reconcile("state init --env base")
    ours = "--state sqlite:.reconcile/state.db"
    told = reconcile(f"state init --env prod {ours}", code=1).err
    assert "belongs to `base`, and not to `prod`" in told
    assert f"state init --env prod {ours} --take-over" in told
    for options in ("", "--env base"):
        reconcile(f"state init --take-over {ours} {options}", code=64)
    told = reconcile(f"state init --take-over --env prod {ours}").out
    assert told.startswith("sqlite:.reconcile/state.db: is from now on the state of environment prod\n")
    told = reconcile(f"state init --take-over --env prod {ours}").out
    assert told.startswith("sqlite:.reconcile/state.db: is already the state of environment prod\n")
    again = json.loads(reconcile(f"state init --take-over --env prod {ours} -o json").out)
    assert (again["created"], again["taken_over"]) == (False, False)
    reconcile(f"state list --env prod {ours}")
    reconcile("state list --env base", code=1)
    told = reconcile(f"state init --take-over --env test {ours}", code=1).err
    assert "belongs to environment `prod`, and not to `test`" in told
    told = reconcile("state init --take-over --env test", code=1).err
    assert "there is no state" in told
    assert not (reconcile.root / ".reconcile/test").exists()


def test_the_name_in_a_state_survives_a_backup(reconcile: Command) -> None:
    reconcile.write("overlays/prod/a.yaml", "# nothing differs\n")
    reconcile("state init --env prod")
    reconcile("state backup copy.db --env prod")
    told = reconcile("state list --env base --state sqlite:copy.db", code=1).err
    assert "belongs to environment `prod`" in told


def test_new_folders_of_a_state_are_private(reconcile: Command) -> None:
    reconcile.write("overlays/prod/a.yaml", "# nothing differs\n")
    reconcile("state init --env prod")
    for folder in (".reconcile", ".reconcile/prod"):
        assert (reconcile.root / folder).stat().st_mode & 0o777 == 0o700
