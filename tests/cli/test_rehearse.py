"""`reconcile plan --rehearse`: exit codes, and what the platform gets."""

import pytest

from reconciler.cli.main import run
from tests.cli.harness import MUTATIONS, Project, Sandbox, volume


def test_a_saved_plan_is_rehearsed_without_a_change_on_the_platform(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "the.plan")
    with sandbox.recording() as requests:
        rehearsed = project.json("plan", "--rehearse", "--plan", "the.plan").json["rehearsal"]
    assert not [each for each in requests if each[0] in MUTATIONS]
    assert rehearsed["differences"] == []
    assert {cell["end"] for cell in rehearsed["cells"]} == {"converged"}


def test_a_plan_that_the_platform_has_left_behind_ends_with_1(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    applied.write(volume(app, spec="region: ams, size_gb: 20"))
    applied.run("plan", "--out", "the.plan")
    held = sandbox.volume(app)
    sandbox.call("PUT", f"/v1/apps/{app}/volumes/{held['id']}/extend", {"size_gb": 15})
    rehearsed = applied.json("plan", "--rehearse", "--plan", "the.plan", code=1).json["rehearsal"]
    assert "changed on the platform since the plan was made" in rehearsed["differences"][0]


def test_a_plan_with_errors_is_not_rehearsed(project: Project, app: str) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 10"))
    refused = project.json("plan", "--rehearse", code=1)
    assert "rehearsal" not in refused.json


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--at", "soon"), "neither a span from now"),
        (("--at", "+9999999d"), "neither a span from now"),
        (("--at", "+999999d"), "not a time in the next ten years"),
        (("--at", "2001-01-01"), "not a time in the next ten years"),
        (("--at", "+0h"), "not a time in the next ten years"),
        (("--after-apply",), "needs --at"),
        (("--plan", "the.plan"), "goes with --rehearse"),
        (("--rehearse", "--plan", "the.plan", "--at", "+1h"), "only PATHs and --ref go with it"),
        (("--rehearse", "--plan", "the.plan", "--out", "new.plan"), "only PATHs and --ref go with it"),
    ],
)
def test_what_cannot_be_looked_at_is_a_mistake(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert run(["plan", *options]) == 64
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [("rehearse", "plan --rehearse [--plan FILE]"), ("state doctor", "doctor --probe-state")],
)
def test_a_word_of_the_last_release_answers_with_the_new_one(
    capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    assert run([*old.split(), "the.plan"]) == 64
    assert capsys.readouterr().err == f"Error: `{old}` is `{new}` now\n"
