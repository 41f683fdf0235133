"""The exit codes of DESIGN, section 3. 3, 4, 5, 130 and 143 stand with what brings them about."""

import pytest

from reconciler.cli.apply import exit_code
from reconciler.core.diagnostics import error
from reconciler.core.model import Address
from reconciler.core.steps import OutcomeWord, Plan, Result
from reconciler.project.run import Applied
from tests.cli.harness import Project, Sandbox, volume
from tests.contexts import context


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-verb"],
        ["plan", "--no-such-option"],
        ["plan", "--output", "xml"],
        ["apply"],
        ["resolve", "not-an-address", "--restarted"],
        ["resolve", "Volume/shop/data"],
        ["resolve", "Volume/shop/data", "--restarted", "--not-created"],
        ["sandbox", "--db", "no-such-folder/.reconcile/x.db"],
    ],
)
def test_a_mistake_in_the_command_line_exits_64(project: Project, arguments: list[str]) -> None:
    assert project.run(*arguments, code=64).out == ""


def test_the_sandbox_makes_its_own_folder_and_no_other(project: Project) -> None:
    refused = project.run("sandbox", "--db", "no-such-folder/x.db", code=64)
    assert "`no-such-folder` does not exist" in refused.err
    assert not (project.root / "no-such-folder").exists()
    project.run("sandbox", "--db", ".reconcile/sandbox.db", "--until-stdin-closes")
    assert (project.root / ".reconcile" / "sandbox.db").exists()


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["done"], 0),
        (["done", "pending", "skipped"], 4),
        (["pending", "failed", "skipped"], 1),
        (["skipped", "failed", "unknown", "pending"], 1),
        (["done", "unknown"], 4),
    ],
)
def test_a_skipped_step_counts_as_what_it_waits_for(outcomes: list[OutcomeWord], code: int) -> None:
    results = [Result(Address("Volume", "data", "shop"), f"#{word}", word) for word in outcomes]
    nothing = Plan("plan", context(), (), (), (), (), (), ())
    assert exit_code(Applied(nothing, results)) == code
    asked = (error("unknown-outcome", "was it made?"),)
    assert exit_code(Applied(nothing, results, notices=asked)) == 3


def test_a_mistyped_verb_is_guessed(project: Project) -> None:
    assert "did you mean `apply`?" in project.run("aply", code=64).err
    assert "did you mean `check`?" in project.run("provider", "chek", code=64).err


def test_apply_off_a_terminal_asks_for_auto_approve(project: Project, app: str) -> None:
    project.write(volume(app))
    assert "--auto-approve" in project.run("apply", code=64).err


@pytest.mark.parametrize("arguments", [["--help"], ["state", "--help"]])
def test_asking_for_help_is_a_success(project: Project, arguments: list[str]) -> None:
    assert project.run(*arguments).out


def test_plan_exits_2_only_when_asked_and_only_for_changes(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", code=0)
    project.run("plan", "--detailed-exitcode", code=2)
    project.apply()
    project.run("plan", "--detailed-exitcode", code=0)


def test_an_error_outweighs_changes(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 10") + volume(app, "more"))
    project.run("plan", "--detailed-exitcode", code=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "Volume/shop/none"],
        ["state", "show", "Volume/shop/none"],
        ["state", "forget", "Volume/shop/none"],
        ["resolve", "Volume/shop/none", "--not-created"],
        ["resolve", "Volume/shop/none", "--restarted"],
        ["apply", "--plan", "no-such-file"],
        ["plan", "no-such-path"],
    ],
)
def test_what_does_not_exist_exits_1_with_a_sentence(project: Project, arguments: list[str]) -> None:
    assert project.run(*arguments, code=1).err.startswith("error")


def test_an_unreadable_setting_exits_1_at_its_place(project: Project) -> None:
    project.write("execution: {concurrency: many}\n", "reconcile.yaml")
    assert "reconcile.yaml:1:26" in project.run("plan", code=1).err


def test_a_retained_record_and_an_owed_restart_do_not_count_as_changes(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    sandbox.switch(extend_needs_restart="always")
    project.write(volume(app) + volume(app, "kept"))
    project.apply()
    sandbox.machine(app, *(each["id"] for each in sandbox.volumes(app) if each["name"] == "data"))
    project.write(volume(app, spec="region: ams, size_gb: 11"))
    applied = project.apply()
    sandbox.switch(extend_needs_restart="attached")
    assert applied.json["summary"]["retain"] == 1
    assert len(applied.json["owed"]) == 1
    assert "Owed:" in project.run("plan", "--detailed-exitcode", code=0).out
