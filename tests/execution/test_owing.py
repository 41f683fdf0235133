"""A restart that an extend leaves owed: recorded with the outcome that caused it, once, and kept."""

from collections.abc import Callable

import pytest

from reconciler.execution.executor import Executor
from reconciler.project.run import Applied, run_plan
from tests.execution.stage import Stage, outcomes, plan, volume

EXTEND = "Volume/shop/data#extend"
GROWN = volume(spec="region: ams, size_gb: 20")
PATH = "/v1/apps/shop/volumes/*/extend"


async def owed(stage: Stage) -> list[tuple[str, str]]:
    return [(each.because, each.certainty) for each in (await stage.record()).obligations]


async def test_a_lost_extend_owes_nothing_once_no_machine_is_seen_to_hold_the_volume(stage: Stage) -> None:
    await stage.apply(volume())
    stage.fault(method="PUT", path=PATH, action="drop_after")
    stage.switch(extend_not_larger=422)
    await stage.apply(GROWN)
    assert await owed(stage) == [("extended from 10 to 20 GB", "unknown")]
    applied = await stage.apply(GROWN)
    assert (applied.owed, await owed(stage)) == ((), [])


async def test_a_machine_that_takes_the_volume_before_a_lost_extend_still_owes(stage: Stage) -> None:
    await stage.apply(volume())
    planned = await plan(stage, GROWN)
    stage.hold()
    stage.fault(method="PUT", path=PATH, action="drop_after")
    stage.switch(extend_not_larger=422)
    await run_plan(stage.project(), planned, approved_deletes=())
    await stage.apply(GROWN)
    assert await owed(stage) == [("extended from 10 to 20 GB", "unknown")]


@pytest.mark.parametrize(("rule", "certainties"), [("always", ["owed"]), ("never", [])])
async def test_the_answer_says_if_a_restart_is_owed(stage: Stage, rule: str, certainties: list[str]) -> None:
    stage.switch(extend_needs_restart=rule)
    await stage.apply(volume())
    await stage.apply(GROWN)
    assert [certainty for _, certainty in await owed(stage)] == certainties


async def test_an_answer_that_does_not_say_leaves_it_unknown(stage: Stage) -> None:
    await stage.apply(volume())
    stage.hold()
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
    stage.hold()
    stage.switch(extend_not_larger=refusal, read_lag_s=8)
    stage.switch(extend_needs_restart="never")
    stage.fault(method="PUT", path=PATH, action=action)
    assert outcomes(await stage.apply(GROWN)) == {EXTEND: "done"}
    assert stage.line.mutations == ["POST", "PUT", "PUT"]
    assert (await stage.record()).applied["size_gb"] == 20
    assert await owed(stage) == [("extended from 10 to 20 GB", "unknown")]


async def test_a_lost_call_is_repeated_only_when_it_can_no_longer_arrive(stage: Stage) -> None:
    """A slow one must not arrive after a later value, and put the old one back in force."""
    await stage.apply(volume())
    stage.fault(method="PUT", path=PATH, action="drop_before")
    started = stage.time.elapsed_s
    await stage.apply(GROWN)
    assert stage.time.elapsed_s - started >= stage.limits.deadline_s


async def test_a_repetition_that_is_refused_for_another_reason_fails(stage: Stage) -> None:
    await stage.apply(volume())
    stage.fault(method="PUT", path=PATH, action="drop_before")
    stage.fault(method="PUT", path=PATH, action="status", status=412)
    assert outcomes(await stage.apply(GROWN)) == {EXTEND: "failed"}
    assert "size_gb" not in (await stage.record()).applied  # the lost call may still have grown it


async def test_a_definite_answer_replaces_the_uncertain_one(stage: Stage) -> None:
    stage.switch(extend_needs_restart="always")
    await stage.apply(volume())
    stage.fault(method="PUT", path=PATH, action="drop_before")
    await stage.apply(GROWN)
    assert await owed(stage) == [("extended from 10 to 20 GB", "owed")]


async def test_two_extends_owe_their_restarts_side_by_side(stage: Stage) -> None:
    stage.switch(extend_needs_restart="always")
    await stage.apply(volume())
    stage.hold()
    await stage.apply(GROWN)
    await stage.apply(volume(spec="region: ams, size_gb: 30"))
    assert await owed(stage) == [
        ("extended from 10 to 20 GB", "owed"),
        ("extended from 20 to 30 GB", "owed"),
    ]


AUTO = "lifecycle: {restart: auto}\n"
GROWN_AUTO = volume(spec="region: ams, size_gb: 20", rest=AUTO)
RESTART = "Volume/shop/data#restart"


async def attached(stage: Stage) -> None:
    """The volume, attached to a running machine."""
    await stage.apply(volume(rest=AUTO))
    stage.hold()


async def unused_space(stage: Stage) -> list[str]:
    """Volumes whose added space their machine does not use, also when it is up again."""
    await stage.time.sleep(60)
    return stage.unused_space()


@pytest.mark.parametrize("capabilities", [{"machine.restart"}, {"machine.stop", "machine.get"}])
async def test_an_owed_restart_is_carried_out_in_the_same_run(stage: Stage, capabilities: set[str]) -> None:
    stage.capabilities = frozenset(capabilities)
    await attached(stage)
    applied = await stage.apply(GROWN_AUTO)
    assert set(outcomes(applied).values()) == {"done"}
    assert (await owed(stage), await unused_space(stage), applied.owed) == ([], [], ())
    assert (await stage.apply(GROWN_AUTO)).plan.steps == ()


async def test_no_restart_is_sent_where_the_answer_asks_for_none(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    await attached(stage)
    stage.switch(extend_needs_restart="never")
    applied = await stage.apply(GROWN_AUTO)
    assert outcomes(applied) == {EXTEND: "done", RESTART: "done"}
    assert stage.line.mutations == ["POST", "PUT"]


async def test_a_restart_that_nobody_can_carry_out_stays_owed(stage: Stage) -> None:
    await attached(stage)
    applied = await stage.apply(GROWN_AUTO)
    assert outcomes(applied) == {EXTEND: "done"}
    assert [certainty for _, certainty in await owed(stage)] == ["owed"]


async def test_a_refused_restart_stays_owed_and_is_tried_by_the_next_run(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    await attached(stage)
    stage.fault(method="POST", path="*/restart", action="status", status=412)
    assert outcomes(await stage.apply(GROWN_AUTO)) == {EXTEND: "done", RESTART: "failed"}
    assert [certainty for _, certainty in await owed(stage)] == ["owed"]
    assert outcomes(await stage.apply(GROWN_AUTO)) == {RESTART: "done"}
    assert (await owed(stage), await unused_space(stage)) == ([], [])


async def test_a_restart_refused_after_one_that_was_lost_is_not_taken_for_done(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart", "machine.get"})
    await attached(stage)
    stage.fault(method="POST", path="*/restart", action="drop_before")
    stage.fault(method="POST", path="*/restart", action="status", status=412)
    assert outcomes(await stage.apply(GROWN_AUTO))[RESTART] == "failed"
    assert await owed(stage)
    assert await unused_space(stage)


async def test_one_restart_settles_what_all_volumes_of_the_machine_owe(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    both = [volume(name, rest=AUTO) for name in ("data", "logs")]
    await stage.apply("".join(both))
    volumes = [each["id"] for each in stage.volumes()]
    stage.call("POST", "/_sandbox/machines", {"app": "shop", "volumes": volumes})
    grown = "".join(each.replace("size_gb: 10", "size_gb: 20") for each in both)
    applied = await stage.apply(grown)
    assert applied.owed == ()
    assert await unused_space(stage) == []
    assert [path.rpartition("/")[2] for method, path in stage.line.sent if method == "POST"].count(
        "restart"
    ) == 1


async def grow(stage: Stage, manifests: str, while_it_begins: Callable[[], object]) -> Applied:
    """An apply; something happens after its plan was checked, and before its first call."""
    planned = await plan(stage, manifests)

    def begin(executor: Executor) -> None:
        while_it_begins()

    return await run_plan(stage.project(), planned, approved_deletes=(), on_executor=begin)


def put_on(stage: Stage, machine: str, *names: str) -> None:
    """`machine`, which may be a new one, holds these volumes, and no other one does."""
    chosen = [each["id"] for each in stage.volumes() if each["name"] in names]
    for each in stage.call("GET", "/_sandbox/world", {})["machines"]:
        held = [mount["volume"] for mount in each["config"]["mounts"] if mount["volume"] not in chosen]
        stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": each["id"], "volumes": held})
    stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": machine, "volumes": chosen})


def restarted(stage: Stage) -> list[str]:
    return [path.split("/")[-2] for _, path in stage.line.sent if path.endswith("/restart")]


async def test_the_machine_is_restarted_that_held_the_volume_when_it_grew(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    await stage.apply(volume(rest=AUTO))
    put_on(stage, "m1", "data")
    applied = await grow(stage, GROWN_AUTO, lambda: put_on(stage, "m2", "data"))
    assert outcomes(applied) == {EXTEND: "done", RESTART: "skipped"}
    assert (restarted(stage), len(applied.owed)) == ([], 1)
    assert outcomes(await stage.apply(GROWN_AUTO)) == {RESTART: "done"}
    assert (restarted(stage), await owed(stage)) == (["m2"], [])


async def test_a_restart_settles_also_what_a_volume_owes_that_came_to_the_machine_later(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    both = "".join(volume(name, rest=AUTO) for name in ("data", "logs"))
    await stage.apply(both)
    put_on(stage, "m1", "logs")
    both = both.replace("size_gb: 10", "size_gb: 20")
    applied = await grow(stage, both, lambda: put_on(stage, "m1", "data", "logs"))
    assert (applied.owed, restarted(stage)) == ((), ["m1"])


async def test_a_restart_settles_nothing_of_a_volume_that_left_the_machine(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    both = "".join(volume(name, rest=AUTO) for name in ("data", "logs"))
    await stage.apply(both)
    put_on(stage, "m1", "data", "logs")
    both = both.replace("size_gb: 10", "size_gb: 20")
    applied = await grow(stage, both, lambda: put_on(stage, "m2", "data"))
    assert (restarted(stage), [str(each.address) for each in applied.owed]) == (["m1"], ["Volume/shop/data"])
    await stage.apply(both)
    assert (restarted(stage), await owed(stage)) == (["m1", "m2"], [])


async def test_a_machine_that_has_left_what_owes_is_not_restarted(stage: Stage) -> None:
    """The answer to the extend tied the restart to m1, which holds nothing any more."""
    stage.capabilities = frozenset({"machine.restart"})
    await stage.apply(volume())
    put_on(stage, "m1", "data")
    await stage.apply(GROWN)
    applied = await grow(stage, GROWN_AUTO, lambda: put_on(stage, "m2", "data"))
    assert (outcomes(applied)[RESTART], restarted(stage)) == ("skipped", [])
    await stage.apply(GROWN_AUTO)
    assert (restarted(stage), await owed(stage)) == (["m2"], [])


async def test_what_a_lost_answer_may_owe_is_settled_where_the_volume_is_seen(
    stage: Stage,
) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    await stage.apply(volume(rest=AUTO))
    put_on(stage, "m1", "data")
    stage.fault(method="PUT", path=PATH, action="drop_after")
    stage.switch(extend_not_larger=422)
    applied = await grow(stage, GROWN_AUTO, lambda: put_on(stage, "m2", "data"))
    assert (outcomes(applied)[RESTART], restarted(stage)) == ("skipped", [])
    assert await owed(stage) == [("extended from 10 to 20 GB", "unknown")]
    await stage.apply(GROWN_AUTO)
    assert (restarted(stage), await owed(stage)) == (["m2"], [])


async def test_a_restart_of_one_machine_settles_nothing_of_another_machine(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    both = "".join(volume(name, rest=AUTO) for name in ("data", "logs"))
    await stage.apply(both)
    for each in stage.volumes():
        machine = {"app": "shop", "id": f"m-{each['name']}", "volumes": [each["id"]]}
        stage.call("POST", "/_sandbox/machines", machine)
    stage.fault(method="POST", path="*/m-logs/restart", action="status", status=412)
    applied = await stage.apply(both.replace("size_gb: 10", "size_gb: 20"))
    assert outcomes(applied)[RESTART] == "done"
    assert [str(owed.address) for owed in applied.owed] == ["Volume/shop/logs"]
    assert (await stage.record()).obligations == ()
    assert len((await stage.record("Volume/shop/logs")).obligations) == 1
