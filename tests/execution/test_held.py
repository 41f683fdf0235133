"""A question, or a secret value that cannot be read, holds what it is about; all else goes on."""

import pytest

from reconciler.cli.apply import exit_code
from reconciler.project.apply import PlanRefused
from tests.execution.stage import Stage, outcomes, secret, volume

DELETABLE = "lifecycle: {deletion: delete, snapshot_before: []}\n"


async def test_a_rename_in_question_lets_everything_else_go_on(stage: Stage) -> None:
    await stage.apply(volume("data") + volume("logs"))
    applied = await stage.apply(volume("files") + volume("logs", "region: ams, size_gb: 20"))
    assert outcomes(applied) == {"Volume/shop/logs#extend": "done"}
    assert [each.code for each in applied.plan.diagnostics] == ["renamed"]
    assert exit_code(applied) == 1
    with pytest.raises(PlanRefused):  # there is nothing left but the question
        await stage.apply(volume("files") + volume("logs", "region: ams, size_gb: 20"))
    assert sorted(each["name"] for each in stage.volumes()) == ["data", "logs"]


async def test_an_approved_delete_says_that_what_came_is_another_one(stage: Stage) -> None:
    await stage.apply(volume("data", rest=DELETABLE))
    applied = await stage.apply(volume("files"), approved_deletes=["Volume/shop/data"])
    assert outcomes(applied) == {"Volume/shop/files#create": "done", "Volume/shop/data#delete": "done"}
    assert (applied.plan.diagnostics, exit_code(applied)) == ((), 0)


async def test_a_kept_object_stays_in_question_whatever_delete_is_approved(stage: Stage) -> None:
    await stage.apply(volume("data"))
    with pytest.raises(PlanRefused) as refused:
        await stage.apply(volume("files"), approved_deletes=["Volume/shop/data"])
    assert {each.code for each in refused.value.diagnostics} >= {"renamed"}


async def test_a_long_life_of_volumes_that_replace_each_other_never_comes_to_a_stop(stage: Stage) -> None:
    for number in range(40):
        wanted = volume(f"v{number}", rest=DELETABLE) + volume("logs", f"region: ams, size_gb: {10 + number}")
        approved = [f"Volume/shop/v{number - 1}"] if number else []
        assert exit_code(await stage.apply(wanted, approved_deletes=approved)) == 0
        there = {each["name"] for each in stage.volumes() if each["state"] == "created"}
        assert there == {f"v{number}", "logs"}


async def test_a_secret_without_a_source_here_lets_everything_else_go_on(stage: Stage) -> None:
    wanted = volume() + secret("TOKEN", "{env: MISSING}") + secret()
    applied = await stage.apply(wanted)
    assert outcomes(applied) == {"Volume/shop/data#create": "done", "Secret/shop/PASSWORD#set": "done"}
    refused = [(str(each.address), each.action) for each in applied.plan.changes if each.action == "refused"]
    assert refused == [("Secret/shop/TOKEN", "refused")]
    assert [(each.code, "MISSING" in each.message) for each in applied.plan.diagnostics] == [
        ("secret-source", True)
    ]
    assert exit_code(applied) == 1
    stage.env["MISSING"] = "there"
    assert outcomes(await stage.apply(wanted)) == {"Secret/shop/TOKEN#set": "done"}
