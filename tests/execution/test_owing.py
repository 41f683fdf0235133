"""A restart that an extend leaves owed: recorded with the outcome that caused it, once, and kept."""

import pytest

from tests.execution.stage import Stage, outcomes, volume

pytestmark = pytest.mark.anyio

EXTEND = "Volume/shop/data#extend"
GROWN = volume(spec="region: ams, size_gb: 20")
PATH = "/v1/apps/shop/volumes/*/extend"


async def owed(stage: Stage) -> list[tuple[str, str]]:
    return [(each.because, each.certainty) for each in (await stage.record()).obligations]


@pytest.mark.parametrize(("rule", "certainties"), [("always", ["owed"]), ("never", [])])
async def test_the_answer_says_whether_a_restart_is_owed(
    stage: Stage, rule: str, certainties: list[str]
) -> None:
    stage.call("POST", "/_sandbox/switches", {"extend_needs_restart": rule})
    await stage.apply(volume())
    await stage.apply(GROWN)
    assert [certainty for _, certainty in await owed(stage)] == certainties


async def test_an_answer_that_does_not_say_leaves_it_unknown(stage: Stage) -> None:
    await stage.apply(volume())
    silent = {"action": "status", "status": 200, "after": True, "body": {"volume": stage.volumes()[0]}}
    stage.fault(method="PUT", path=PATH, **silent)
    assert outcomes(await stage.apply(GROWN)) == {EXTEND: "done"}
    assert await owed(stage) == [("extended from 10 to 20 GB", "unknown")]


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
@pytest.mark.parametrize("refusal", [422, 400, 200])
async def test_a_lost_extend_is_repeated_and_a_refusal_of_the_same_size_is_success(
    stage: Stage, action: str, refusal: int
) -> None:
    await stage.apply(volume())
    stage.call("POST", "/_sandbox/switches", {"extend_not_larger": refusal, "read_lag_s": 8})
    stage.fault(method="PUT", path=PATH, action=action)
    assert outcomes(await stage.apply(GROWN)) == {EXTEND: "done"}
    assert stage.line.mutations == ["POST", "PUT", "PUT"]
    assert (await stage.record()).applied["size_gb"] == 20
    assert await owed(stage) == [("extended from 10 to 20 GB", "unknown")]


async def test_a_repetition_that_is_refused_for_another_reason_fails(stage: Stage) -> None:
    await stage.apply(volume())
    stage.fault(method="PUT", path=PATH, action="drop_before")
    stage.fault(method="PUT", path=PATH, action="status", status=412)
    assert outcomes(await stage.apply(GROWN)) == {EXTEND: "failed"}
    assert (await stage.record()).applied["size_gb"] == 10


async def test_a_definite_answer_replaces_the_uncertain_one(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/switches", {"extend_needs_restart": "always"})
    await stage.apply(volume())
    stage.fault(method="PUT", path=PATH, action="drop_before")
    await stage.apply(GROWN)
    assert await owed(stage) == [("extended from 10 to 20 GB", "owed")]


async def test_two_extends_owe_their_restarts_side_by_side(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/switches", {"extend_needs_restart": "always"})
    await stage.apply(volume())
    await stage.apply(GROWN)
    await stage.apply(volume(spec="region: ams, size_gb: 30"))
    assert await owed(stage) == [
        ("extended from 10 to 20 GB", "owed"),
        ("extended from 20 to 30 GB", "owed"),
    ]
