"""Who decides about a change: never the change itself. In real repositories, with CI's variables."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.approvals.in_force import authority_of
from reconciler.approvals.rules import Authority, Said
from reconciler.core.errors import ReconcilerError
from reconciler.project.settings import find_settings
from tests.revisions.repository import ISOLATED, commit, git

RULES = "approvals:\n  rules:\n  - {when: {action: delete}, from: 2}\n"
OTHER = "approvals:\n  rules:\n  - {when: {impact: restart}}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with rules and signers, and after that a change that brings its own."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    git(root, "init", "-q", "-b", "main")
    (root / "reconcile.yaml").write_text(RULES)
    (root / "allowed_signers").write_text("ana@example.com ssh-ed25519 AAAA\n")
    commit(root)
    (root / "reconcile.yaml").write_text(OTHER)
    (root / "allowed_signers").write_text("mallory@example.com ssh-ed25519 AAAA\n")
    commit(root)
    return root


def authority(root: Path, base: str = "", **variables: str) -> Authority:
    return authority_of(find_settings(Path.cwd(), {**ISOLATED, "PATH": _path(), **variables}), base)


def _path() -> str:
    import os

    return os.environ["PATH"]


def said(found: Authority) -> tuple[list[str], list[str]]:
    """All rules, and who stands in each file of signers: who is not in all of them may not sign."""
    both = Said.of(found.before, found.now)
    return [str(rule) for rule in both.rules], [each.text.partition("@")[0] for each in both.signers]


BOTH = (["{action: delete}", "{impact: restart}"], ["ana", "mallory"])
OWN = (["{impact: restart}"], ["mallory"])  # where nothing was before


def event(root: Path, name: str, value: Any) -> Mapping[str, str]:
    file = root.parent / "event.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(file)}


def test_rules_are_those_of_both_and_signers_who_are_in_both(root: Path) -> None:
    assert said(authority(root, "HEAD^")) == BOTH


def test_a_change_that_removes_all_settings_takes_no_rule_away(root: Path) -> None:
    git(root, "rm", "-q", "reconcile.yaml", "allowed_signers")
    commit(root)
    assert said(authority(root, "HEAD~2")) == (BOTH[0][:1], ["ana", ""])


@pytest.mark.parametrize("base", ["HEAD", "main", "@"])
def test_what_is_checked_out_does_not_decide_about_itself(root: Path, base: str) -> None:
    with pytest.raises(ReconcilerError, match="is what is checked out"):
        authority(root, base)


def test_a_base_that_a_tag_shares_with_a_branch_is_an_error_that_says_how_to_name_it(root: Path) -> None:
    git(root, "branch", "trunk", "HEAD^")
    git(root, "tag", "trunk")
    with pytest.raises(ReconcilerError, match="`trunk` names several things here") as refused:
        authority(root, "trunk")
    assert "refs/heads/trunk" in refused.value.help
    assert said(authority(root, "refs/heads/trunk")) == BOTH


def test_a_script_may_name_the_commit_that_it_saw_before_it_pulled(root: Path) -> None:
    assert said(authority(root, git(root, "rev-parse", "HEAD")))[0] == OWN[0]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("push", {"before": "BASE"}),
        ("pull_request", {"pull_request": {"base": {"sha": "BASE"}}}),
        ("pull_request_target", {"pull_request": {"base": {"sha": "BASE"}}}),
        ("merge_group", {"merge_group": {"base_sha": "BASE"}}),
    ],
)
def test_github_names_the_base_in_its_event(root: Path, name: str, shape: Any) -> None:
    base = git(root, "rev-parse", "HEAD^")
    variables = event(root, name, json.dumps(shape).replace("BASE", base))
    assert said(authority(root, **variables)) == BOTH


@pytest.mark.parametrize(
    "value", ["", "{", "[]", "{}", '{"before": 7}', '{"before": "main"}', '{"before": ""}']
)
def test_an_event_that_names_none_is_an_error(root: Path, value: str) -> None:
    with pytest.raises(ReconcilerError, match="before this"):
        authority(root, **event(root, "push", value))


def test_an_event_in_the_checkout_is_not_believed(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    (root / "event.json").write_text(json.dumps({"before": base}))
    variables = {**event(root, "push", {}), "GITHUB_EVENT_PATH": str(root / "event.json")}
    with pytest.raises(ReconcilerError, match="a file of the checkout"):
        authority(root, **variables)


def test_where_nothing_is_known_of_before_the_change_has_its_own_and_what_the_state_remembers(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = event(root, "schedule", {})
    first_push = event(root, "push", {"before": "0" * 40})
    git(root, "clone", "-q", "--depth", "1", f"file://{root}", "../shallow")
    for folder in (root, root.parent / "shallow"):
        monkeypatch.chdir(folder)
        for variables in ({}, first_push, schedule, {"GITLAB_CI": "true"}):
            assert said(authority(folder, **variables)) == OWN


def test_gitlab_names_the_base_in_variables(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD^")
    assert said(authority(root, GITLAB_CI="true", CI_COMMIT_BEFORE_SHA=base)) == BOTH
    merge = {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "7"}
    assert said(authority(root, **merge, CI_MERGE_REQUEST_TARGET_BRANCH_SHA=base)) == BOTH
    # Where the branch left its target may be long before there were rules.
    with pytest.raises(ReconcilerError, match="TARGET_BRANCH_SHA is empty"):
        authority(root, **merge, CI_MERGE_REQUEST_DIFF_BASE_SHA=base)


def test_a_clone_without_the_base_is_an_error_that_says_how_to_fetch_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(root, "rev-parse", "HEAD^")
    git(root, "clone", "-q", "--depth", "1", f"file://{root}", "../shallow")
    monkeypatch.chdir(root.parent / "shallow")
    for variables in (
        event(root, "push", {"before": base}),
        {"GITLAB_CI": "true", "CI_COMMIT_BEFORE_SHA": base},
    ):
        with pytest.raises(ReconcilerError, match="cannot be read") as refused:
            authority(root, **variables)
        assert "fetch-depth: 0" in refused.value.help


def test_settings_that_a_change_moves_nearer_or_away_hide_no_rule(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "deploy").mkdir()
    (root / "deploy/reconcile.yaml").write_text("")
    commit(root)
    monkeypatch.chdir(root / "deploy")
    assert "{action: delete}" in said(authority(root, "HEAD~2"))[0]
    (root / "deploy/reconcile.yaml").write_text(RULES)
    commit(root)
    git(root, "rm", "-q", "deploy/reconcile.yaml")
    (root / "deploy").mkdir(exist_ok=True)
    commit(root)
    monkeypatch.chdir(root / "deploy")
    assert "{action: delete}" in said(authority(root, "HEAD^"))[0]


def test_settings_that_cannot_be_read_at_the_base_are_an_error(root: Path) -> None:
    (root / "reconcile.yaml").write_text("approvals: {rules: [{when: {action: unheard-of}}]}\n")
    commit(root)
    (root / "reconcile.yaml").write_text("")
    commit(root)
    with pytest.raises(ReconcilerError, match="does not say which approvals are needed"):
        authority(root, "HEAD^")


def test_other_settings_at_the_base_may_be_of_another_version(root: Path) -> None:
    (root / "reconcile.yaml").write_text(RULES + "unheard_of: 7\n")
    commit(root)
    (root / "reconcile.yaml").write_text(OTHER)
    commit(root)
    assert said(authority(root, "HEAD^"))[0] == BOTH[0]


def test_signers_may_be_kept_outside_of_the_checkout(root: Path) -> None:
    file = root.parent / "signers"
    file.write_text("carol@example.com ssh-ed25519 AAAA\n")
    found = authority(root, "HEAD^", RECONCILE_ALLOWED_SIGNERS=str(file))
    assert found.outside is not None
    assert (said(found)[0], found.outside.text) == (BOTH[0], file.read_text())


def test_signers_in_the_checkout_are_not_outside(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root / "allowed_signers")
    for path in (root / "allowed_signers", link, root / ".." / "project" / "allowed_signers"):
        with pytest.raises(ReconcilerError, match="a file of the checkout"):
            authority(root, "HEAD^", RECONCILE_ALLOWED_SIGNERS=str(path))
    with pytest.raises(ReconcilerError, match="absolute path"):
        authority(root, "HEAD^", RECONCILE_ALLOWED_SIGNERS="allowed_signers")
    with pytest.raises(ReconcilerError, match="cannot read"):
        authority(root, "HEAD^", RECONCILE_ALLOWED_SIGNERS=str(root.parent / "none"))


def test_a_base_without_signers_lets_nobody_sign(root: Path) -> None:
    git(root, "rm", "-q", "allowed_signers")
    commit(root)
    (root / "allowed_signers").write_text("mallory@example.com ssh-ed25519 AAAA\n")
    commit(root)
    found = authority(root, "HEAD^")
    assert [each.where for each in found.before.signers if not each.text] == ["`allowed_signers` at HEAD^"]
