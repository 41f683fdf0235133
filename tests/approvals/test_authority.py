"""Who decides about a change: never the change itself. In real repositories, with CI's variables."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.pipeline.authority import Authority, authority_of
from reconciler.pipeline.settings import find_settings
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


def said(found: Authority) -> tuple[list[str], str]:
    return [str(rule) for rule in found.rules], found.signers.data.decode() if found.signers else ""


BOTH = (["{action: delete}", "{impact: restart}"], "ana@example.com ssh-ed25519 AAAA\n")


def event(root: Path, name: str, value: Any) -> Mapping[str, str]:
    file = root.parent / "event.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(file)}


def test_rules_are_those_of_both_and_signers_those_of_before(root: Path) -> None:
    assert said(authority(root, "HEAD^")) == BOTH


def test_a_change_that_removes_all_settings_takes_no_rule_away(root: Path) -> None:
    git(root, "rm", "-q", "reconcile.yaml", "allowed_signers")
    commit(root)
    assert said(authority(root, "HEAD~2")) == (BOTH[0][:1], BOTH[1])


def test_without_a_base_the_change_names_nobody_who_may_sign(root: Path) -> None:
    found = authority(root)
    assert said(found) == (BOTH[0][::-1], "")
    assert "not known" in found.unknown


def test_without_a_base_no_rule_of_any_version_is_gone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "reconcile.yaml").write_text("manifests: [nowhere]\n")
    (root / "deep").mkdir()
    (root / "deep/reconcile.yaml").write_text("manifests: [nowhere]\n")
    commit(root)
    (root / "reconcile.yaml").write_text("}")
    commit(root)
    git(root, "rm", "-q", "reconcile.yaml")
    commit(root)
    assert sorted(said(authority(root))[0]) == BOTH[0]
    monkeypatch.chdir(root / "deep")
    assert sorted(said(authority(root))[0]) == BOTH[0]


def test_without_a_base_a_project_that_never_had_rules_has_none(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert authority(tmp_path) == Authority((), None, "which revision was before this change is not known")
    git(tmp_path, "init", "-q", "-b", "main")
    assert authority(tmp_path).rules == ()
    (tmp_path / "reconcile.yaml").write_text("manifests: [nowhere]\n")
    commit(tmp_path)
    assert authority(tmp_path).rules == ()


@pytest.mark.parametrize("base", ["HEAD", "main", "@"])
def test_what_is_checked_out_does_not_decide_about_itself(root: Path, base: str) -> None:
    with pytest.raises(ReconcilerError, match="is what is checked out"):
        authority(root, base)


def test_a_script_may_name_the_commit_that_it_saw_before_it_pulled(root: Path) -> None:
    assert said(authority(root, git(root, "rev-parse", "HEAD")))[0] == BOTH[0][1:]


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


def test_before_the_first_push_there_is_no_signer(root: Path) -> None:
    found = authority(root, **event(root, "push", {"before": "0" * 40}))
    assert said(found) == (BOTH[0][::-1], "")
    assert said(authority(root, **event(root, "schedule", {}))) == (BOTH[0][::-1], "")


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


def shallow(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with the newest commit only, which becomes the working directory."""
    git(root, "clone", "-q", "--depth", "1", f"file://{root}", "../shallow")
    monkeypatch.chdir(root.parent / "shallow")
    return root.parent / "shallow"


def test_a_shallow_clone_of_a_project_with_rules_is_an_error_where_no_base_is_known(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule, say: the versions of the settings in the clone would be the change's choice."""
    git(root, "rm", "-q", "reconcile.yaml")
    commit(root, "only the file of the signers is left")
    clone = shallow(root, monkeypatch)
    for variables in ({}, event(root, "schedule", {}), {"GITLAB_CI": "true"}):
        with pytest.raises(ReconcilerError, match="only a part of the history") as refused:
            authority(clone, **variables)
        assert "fetch-depth: 0" in refused.value.help
        assert "--base REF" in refused.value.help
    git(clone, "fetch", "-q", "--unshallow")
    assert sorted(said(authority(clone))[0]) == BOTH[0]


@pytest.mark.parametrize("filter", ["blob:none", "tree:0"])
def test_a_clone_without_the_files_of_earlier_versions_is_cut_off(
    root: Path, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    """Nothing is fetched: whether there were rules is not known."""
    git(root, "config", "uploadpack.allowFilter", "true")
    git(root, "clone", "-q", f"--filter={filter}", f"file://{root}", "../partial")
    monkeypatch.chdir(root.parent / "partial")
    with pytest.raises(ReconcilerError, match="only a part of the history") as refused:
        authority(root)
    assert "without `filter`" in refused.value.help
    git(root, "rm", "-q", "reconcile.yaml", "allowed_signers")
    commit(root)
    git(root, "clone", "-q", f"--filter={filter}", f"file://{root}", "../without")
    monkeypatch.chdir(root.parent / "without")
    assert authority(root).is_cut_off


def test_a_shallow_clone_of_a_project_that_shows_no_rules_is_cut_off(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "rm", "-q", "reconcile.yaml", "allowed_signers")
    commit(root)
    found = authority(shallow(root, monkeypatch))
    assert (found.rules, found.is_cut_off) == ((), True)


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
    assert said(found) == (BOTH[0], file.read_text())
    with pytest.raises(ReconcilerError, match="but not which revision was before"):
        authority(root, RECONCILE_ALLOWED_SIGNERS=str(file))


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
    assert found.signers is None
    assert "no `allowed_signers` at HEAD^" in found.unknown
