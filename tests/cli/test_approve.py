"""`reconcile approve` and `apply --approval`, as people and CI type them."""

import stat
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.approvals.people import ENV, Person, make, plainly_verified
from tests.cli.harness import Project, Sandbox, volume
from tests.cli.terminal import on_a_terminal
from tests.revisions.repository import ISOLATED, commit, git

DELETED = "lifecycle: {deletion: delete}\n"
SETTINGS = "approvals: {rules: [{when: {action: delete}, valid: 2h}]}\n"


@pytest.fixture
def ana(tmp_path: Path) -> Person:
    return make(tmp_path, "ana@example.com")


@pytest.fixture
def ready(project: Project, sandbox: Sandbox, app: str, ana: Person) -> Project:
    """A saved plan deletes a volume; a rule asks for one approval."""
    root = project.root
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text(".reconcile/\n*.plan*\n*.approval\n")
    (root / "reconcile.yaml").write_text(SETTINGS)
    (root / "allowed_signers").write_text(ana.line())
    project.write(volume(app) + DELETED + volume(app, "other"))
    commit(root)
    project.env.update(ISOLATED)
    project.run("apply", "--auto-approve")
    project.write(volume(app, "other"))
    (root / "reconcile.yaml").unlink()
    commit(root)
    project.run("plan", "--out", "the.plan")
    return project


APPROVE = ("approve", "the.plan", "--reason", "old data", "--yes")


def test_an_approved_plan_runs(ready: Project, sandbox: Sandbox, app: str, ana: Person) -> None:
    refused = ready.run("apply", "--plan", "the.plan", "--base", "HEAD^", code=1)
    assert "approval-needed" in refused.out + refused.err
    told = ready.json(*APPROVE, "--key", str(ana.key)).json
    file = ready.root / "the.plan.ana@example.com.approval"
    assert told["approval"] == file.name
    rehearsed = ready.json("plan", "--rehearse", "--plan", "the.plan").json
    assert told["plan"] == rehearsed["digest"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert plainly_verified(
        file.read_bytes(), ana.name, ana.line().encode(), ready.root / ".reconcile", _now()
    )
    apply = ("apply", "--plan", "the.plan", "--base", "HEAD^", "--approval", file.name)
    assert set(ready.json(*apply).outcomes().values()) == {"done"}
    assert ("DELETE" in {method for method, _ in sandbox.mutations_of(app)}) is True
    assert "it was used already" in ready.run(*apply).err  # the job is run again


def _now() -> datetime:
    return datetime.now(UTC)


def test_who_signs_is_shown_all_of_it_first(ready: Project, app: str, ana: Person) -> None:
    shown = ready.run(*APPROVE, "--key", str(ana.key)).err
    for said in ("Plan: 1 to delete", f"destroys     Volume/{app}/data", "DELETE /v1/apps"):
        assert said in shown


def test_what_is_typed_next_is_for_the_plans_environment_and_names_who_is_missing(
    project: Project, app: str, ana: Person, tmp_path: Path
) -> None:
    bob, root = make(tmp_path, "bob@example.com"), project.root
    git(root, "init", "-q", "-b", "main")
    rules = "approvals: {rules: [{when: {action: create}, from: 2}]}\n"
    project.write(f"{rules}environments: {{prod: {{}}}}\n", "reconcile.yaml")
    project.write(ana.line() + bob.line(), "allowed_signers")
    project.write(".reconcile/\n*.plan*\n", ".gitignore")
    commit(root)
    project.write(volume(app))
    commit(root)
    project.env.update(ISOLATED)
    project.run("state", "init", "--new", "--env", "prod")
    project.run("plan", "--env", "prod", "--out", "the.plan")
    other = project.run(*APPROVE, "--key", str(ana.key), "--env", "base", code=1)
    assert "made for environment `prod`, but `base` is chosen" in other.err
    first = project.run(*APPROVE, "--key", str(ana.key))
    assert "reconcile plan --env prod --rehearse" in first.err
    assert "1 more approval of other people is needed: reconcile approve --env prod the.plan" in first.out
    assert "apply" not in first.out
    second = project.run(*APPROVE, "--key", str(bob.key))
    typed = second.out.splitlines()[-1].removeprefix("Apply it with: reconcile ")
    assert "--env prod" in typed
    applied = project.json(*typed.split(), "--base", "HEAD^")
    assert applied.outcomes() == {f"Volume/{app}/data#create": "done"}


MISSING: Sequence[tuple[tuple[str, ...], int, str]] = (
    (("approve", "the.plan", "--reason", "x"), 64, "pass --yes"),
    (("approve", "the.plan", "--yes"), 64, "--reason"),
    (("approve", "none.plan", "--reason", "x", "--yes", "--key", "KEY"), 1, "cannot read none.plan"),
    ((*APPROVE, "--key", "none"), 1, "there is no key"),
    ((*APPROVE, "--key", "KEY", "--env", "prod"), 1, "made for environment `base`, but `prod` is chosen"),
    ((*APPROVE, "--key", "KEY", "--principal", "*"), 64, "--principal"),
    ((*APPROVE, "--key", "KEY", "--out", "reconcile.yaml"), 64, "--out"),
    (APPROVE, 1, "no ssh agent"),
    (("apply", "--approval", "x", "--auto-approve"), 64, "pass --plan FILE"),
    (("apply", "--plan", "the.plan", "--approval", "the.plan"), 1, "is not an approval"),
)


def test_what_is_missing_is_told_and_nothing_is_written(ready: Project, ana: Person) -> None:
    (ready.root / "reconcile.yaml").write_text("")
    for options, code, said in MISSING:
        ended = ready.run(*(str(ana.key) if each == "KEY" else each for each in options), code=code)
        assert said in ended.err
        assert list(ready.root.glob("*.approval")) == []


def test_a_key_that_nobody_lists_signs_nothing(ready: Project, tmp_path: Path) -> None:
    mallory = make(tmp_path, "mallory@example.com")
    assert "does not list the key" in ready.run(*APPROVE, "--key", str(mallory.key), code=1).err
    ready.run(*APPROVE, "--key", str(mallory.key), "--principal", "ana@example.com")
    file = "the.plan.ana@example.com.approval"
    refused = ready.run("apply", "--plan", "the.plan", "--base", "HEAD^", "--approval", file, code=1)
    assert "does not let `ana@example.com` sign" in refused.out + refused.err


def test_the_key_is_that_of_git_or_the_only_one_of_the_agent(
    ready: Project, ana: Person, tmp_path: Path
) -> None:
    git(ready.root, "config", "gpg.format", "ssh")
    git(ready.root, "config", "user.signingkey", str(ana.key))
    ready.run(*APPROVE)
    git(ready.root, "config", "--unset", "user.signingkey")
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", tmp_path / "agent"], env=ENV, stdout=subprocess.DEVNULL
    )
    try:
        while not (tmp_path / "agent").exists():
            assert agent.poll() is None
        ready.env["SSH_AUTH_SOCK"] = str(tmp_path / "agent")
        known = {**ENV, "SSH_AUTH_SOCK": ready.env["SSH_AUTH_SOCK"]}
        assert "has no key, or is locked" in ready.run(*APPROVE, code=1).err
        subprocess.run(["ssh-add", "-q", ana.key], env=known, check=True)
        ready.run(*APPROVE)
        second = make(tmp_path, "bob@example.com")
        subprocess.run(["ssh-add", "-q", second.key], env=known, check=True)
        assert "has 2 keys" in ready.run(*APPROVE, code=1).err
    finally:
        agent.terminate()
        agent.wait()


def test_on_a_terminal_it_asks(ready: Project, ana: Person) -> None:
    for answer, code, written in ((b"n\n", 1, 0), (b"y\n", 0, 1)):
        ended, shown = on_a_terminal(ready, *APPROVE[:-1], "--key", str(ana.key), typed=answer)
        assert ended == code, shown
        assert "Sign this approval?" in shown
        assert len(list(ready.root.glob("*.approval"))) == written


def _ours(root: Path) -> None:
    """The change branched off before there were rules, and merges them away."""
    git(root, "checkout", "-q", "change")
    git(root, "merge", "-q", "-s", "ours", "-m", "merge main", "main")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merge", "change")


def _evil(root: Path) -> None:
    """Only the merge commit itself takes the rules away."""
    git(root, "merge", "-q", "--no-commit", "--no-ff", "change")
    (root / "reconcile.yaml").unlink()
    commit(root, "merge")


def _emptied(root: Path) -> None:
    """What `reconcile.yaml` is, or leads to."""
    (root / "reconcile.yaml").write_text("")
    (root / "manifests/old.yaml").unlink()
    commit(root)


def _converted(root: Path) -> None:
    """By a program of the user's git, which the change chooses."""
    program = root / ".git/program"
    program.write_text(f"#!/bin/sh\n: > {root.parent / 'ran'}\n")
    program.chmod(0o755)
    git(root, "config", "diff.sopsdiffer.textconv", str(program))
    (root / ".gitattributes").write_text("reconcile.yaml diff=sopsdiffer\n")
    _emptied(root)


def _moved_up(root: Path) -> None:
    (root / "reconcile.yaml").write_text("manifests: [m/manifests]\n")
    git(root, "rm", "-q", "m/reconcile.yaml", "m/manifests/old.yaml")
    commit(root)


@pytest.mark.parametrize(
    ("folder", "settings", "change"),
    [
        ("", SETTINGS, _ours),
        ("", SETTINGS, _evil),
        ("", "link", _emptied),
        ("", SETTINGS.replace("approvals", '"approv\\x61ls"'), _emptied),
        ("", SETTINGS, _converted),
        ("m", SETTINGS, _moved_up),
    ],
)
def test_no_history_of_a_change_takes_the_rules_of_the_last_apply_away(
    project: Project,
    sandbox: Sandbox,
    app: str,
    ana: Person,
    folder: str,
    settings: str,
    change: Callable[[Path], None],
) -> None:
    root = project.root
    git(root, "init", "-q", "-b", "main")
    project.write(volume(app), f"{folder}/manifests/main.yaml".lstrip("/"))
    project.write(volume(app, "old", rest=DELETED), f"{folder}/manifests/old.yaml".lstrip("/"))
    (root / ".gitignore").write_text(".reconcile/\n")
    commit(root)
    git(root, "checkout", "-q", "-b", "change")
    if not folder:
        git(root, "rm", "-q", "manifests/old.yaml")
    commit(root)
    git(root, "checkout", "-q", "main")
    if settings == "link":
        project.write(SETTINGS, "c/rc.yaml")
        (root / "reconcile.yaml").unlink()
        (root / "reconcile.yaml").symlink_to("c/rc.yaml")
    else:
        (root / folder / "reconcile.yaml").write_text(settings)
    (root / folder / "allowed_signers").write_text(ana.line())
    if change is _evil:  # the rules came in a merge, too
        side = git(root, "commit-tree", "-p", "HEAD", "-m", "side", "HEAD^{tree}")
        git(root, "merge", "-q", "-s", "ours", "--no-ff", "--no-commit", side)
    commit(root)
    project.env |= {**ISOLATED, "RECONCILE_STATE": f"sqlite:{root / '.reconcile/state.db'}"}
    project.run("state", "init", "--new", cwd=root / folder)
    project.run("apply", "--auto-approve", cwd=root / folder)
    change(root)
    refused = project.run("apply", "--auto-approve", "--approve-delete", f"Volume/{app}/old", code=1)
    assert "approval-needed" in refused.out + refused.err
    assert "DELETE" not in {method for method, _ in sandbox.mutations_of(app)}
    assert not (root.parent / "ran").exists()
