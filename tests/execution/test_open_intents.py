"""Calls that an earlier run left open: what the next plan says of them, and what the next apply does."""

from collections.abc import Collection, Mapping
from typing import Any

import anyio
import pytest

from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Action, Address
from reconciler.core.steps import Plan
from reconciler.execution.decisions import Actor
from reconciler.execution.open_intents import load_with_holders
from reconciler.project import apply as applying
from reconciler.project.apply import PlanRefused
from reconciler.project.plan import make_plan
from reconciler.project.records import forget
from reconciler.state.spooling import Spooling
from tests.execution.stage import SETTLE_S, Stage, cluster, left_open, of_shop, outcomes, plan, secret, volume

VOLUMES = "/v1/apps/shop/volumes"
GROWN = volume(spec="region: ams, size_gb: 20")
RESIZED = "Volume/shop/data#extend"


async def test_an_absolute_call_is_planned_again_and_its_restart_stays_owed(stage: Stage) -> None:
    await stage.apply(volume())
    stage.hold()
    stage.switch(extend_needs_restart="never")
    await left_open(stage, GROWN, "PUT")
    assert await stage.open_steps() == [RESIZED]
    seen = await plan(stage, GROWN)
    assert [(owed.work, owed.certainty) for owed in seen.owed] == [("restart", "unknown")]
    assert await stage.open_steps() == [RESIZED]
    applied = await stage.apply(GROWN)
    assert await stage.open_steps() == []
    assert [(owed.work, owed.certainty) for owed in applied.owed] == [("restart", "unknown")]
    assert stage.volumes()[0]["size_gb"] == 20


async def test_the_repetition_comes_after_the_lost_call_can_have_arrived(stage: Stage) -> None:
    await stage.apply(volume())
    await left_open(stage, GROWN, "PUT")
    sent_at = stage.time.elapsed_s
    await stage.apply(GROWN)
    assert stage.time.elapsed_s - sent_at >= stage.limits.deadline_s


async def test_a_lost_answer_without_anything_owed_changes_no_record(stage: Stage) -> None:
    await stage.apply(volume())
    changed = volume(spec="region: ams, size_gb: 10, snapshot_retention: 30")
    await left_open(stage, changed, "PUT")
    before = await stage.record()
    assert (await plan(stage, changed)).owed == ()
    await stage.apply(changed)
    assert (await stage.record()).obligations == before.obligations == ()
    assert stage.volumes()[0]["snapshot_retention"] == 30


async def test_a_plan_waits_for_nothing_and_says_that_it_is_too_early_to_know(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    sent_at = stage.time.elapsed_s
    seen = await plan(stage, volume())
    assert stage.time.elapsed_s == sent_at
    assert [change.action for change in seen.changes] == [Action.REFUSED]
    assert "the next apply waits for it" in seen.diagnostics[0].message


async def test_a_plan_after_the_window_knows_what_landed(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    await stage.time.sleep(SETTLE_S)
    seen = await plan(stage, volume())
    assert (seen.changes, seen.steps) == ((), ())


async def test_a_plan_after_the_window_knows_what_did_not_land(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    await left_open(stage, volume(), "POST")
    await stage.time.sleep(SETTLE_S)
    seen = await plan(stage, volume())
    assert [change.action for change in seen.changes] == [Action.CREATE]
    await stage.apply(volume())
    assert len(stage.volumes()) == 1


async def test_an_unreadable_list_leaves_the_question_open(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    await stage.time.sleep(SETTLE_S)
    stage.fault(method="GET", path=VOLUMES, action="status", status=403, times=None)
    (question,) = (await plan(stage, volume())).diagnostics
    assert "could not be read" in question.message
    with pytest.raises(PlanRefused) as refused:
        await stage.apply(volume())
    assert "could not be read" in refused.value.diagnostics[0].message
    assert await stage.open_steps() == ["Volume/shop/data#create"]


async def test_a_cluster_create_that_nothing_can_settle_is_asked_about(stage: Stage) -> None:
    await left_open(stage, cluster(), "POST")
    (question,) = (await plan(stage, cluster())).diagnostics
    assert question.code == "unknown-outcome"
    with pytest.raises(PlanRefused) as refused:
        await stage.apply(cluster())
    (question,) = refused.value.diagnostics
    assert question.code == "unknown-outcome"
    assert "`orders` in ams, sent at 2026-01-01 00:00:00 UTC" in question.message
    assert stage.line.mutations == ["POST"]


async def test_calls_of_other_apps_are_left_alone(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/apps", {"name": "other"})
    other = volume().replace("app: shop", "app: other")
    await left_open(stage, other, "POST")
    sent_at = stage.time.elapsed_s
    applied = await stage.apply(volume(), selected=of_shop)
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}
    assert stage.time.elapsed_s - sent_at < SETTLE_S
    assert await stage.open_steps() == ["Volume/other/data#create"]


async def test_only_the_calls_of_this_run_s_apps_are_settled(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/apps", {"name": "other"})
    await left_open(stage, volume().replace("app: shop", "app: other"), "POST")
    await left_open(stage, volume(), "POST")
    await stage.apply(volume(), selected=of_shop)
    assert await stage.open_steps() == ["Volume/other/data#create"]


async def test_nothing_is_settled_while_somebody_else_holds_the_scope(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    lease = await stage.store.lease(["shop"], "a rival")
    with pytest.raises(Locked, match="a rival"):
        await stage.apply(volume())
    await stage.store.release(lease)
    assert await stage.open_steps() == ["Volume/shop/data#create"]


SECRET = secret()


@pytest.mark.parametrize("dies", [True, False], ids=["killed", "told"])
async def test_a_lost_secret_leaves_no_claim_about_the_value_that_it_replaced(
    stage: Stage, dies: bool
) -> None:
    """The person puts the old value back: nothing on the platform shows that the other one is in force."""
    await stage.apply(SECRET)
    stage.env["PASSWORD"] = "another"
    if dies:
        await left_open(stage, SECRET, "POST")
    else:
        stage.fault(method="POST", path="*", action="drop_after", times=2)
        await stage.apply(SECRET)
    stage.env["PASSWORD"] = "value"
    assert [change.action for change in (await plan(stage, SECRET)).changes] == [Action.SET]
    assert outcomes(await stage.apply(SECRET)) == {"Secret/shop/PASSWORD#set": "done"}
    assert (await stage.apply(SECRET)).plan.steps == ()


async def test_nothing_is_made_from_what_could_not_be_settled(stage: Stage) -> None:
    """The list was not readable when it was settled; a fork of an object that no record holds must wait."""
    forked = volume() + volume("copy", spec="region: ams, size_gb: 10, from: {volume: data}")
    await left_open(stage, forked, "POST")
    await stage.time.sleep(SETTLE_S)
    stage.fault(method="GET", path=VOLUMES, action="status", status=403)
    with pytest.raises(PlanRefused):
        await stage.apply(forked)
    assert stage.line.mutations == ["POST"]
    await stage.apply(forked)
    assert sorted(each["name"] for each in stage.volumes()) == ["copy", "data"]


async def test_a_secret_that_may_be_set_for_the_first_time_is_planned_again(stage: Stage) -> None:
    await left_open(stage, SECRET, "POST")
    assert [change.action for change in (await plan(stage, SECRET)).changes] == [Action.SET]
    assert outcomes(await stage.apply(SECRET)) == {"Secret/shop/PASSWORD#set": "done"}
    assert await stage.open_steps() == []


SNAPSHOT_FIRST = "lifecycle: {snapshot_before: [extend]}\n"
GROWN_AFTER_SNAPSHOT = volume(spec="region: ams, size_gb: 20", rest=SNAPSHOT_FIRST)


async def test_a_snapshot_whose_answer_was_lost_serves_the_call_that_waits_for_it(stage: Stage) -> None:
    await stage.apply(volume(rest=SNAPSHOT_FIRST))
    await left_open(stage, GROWN_AFTER_SNAPSHOT, "POST")
    await stage.time.sleep(SETTLE_S)
    steps = [step.id for step in (await plan(stage, GROWN_AFTER_SNAPSHOT)).steps]
    assert steps == ["Volume/shop/data#wait-snapshot", RESIZED]
    await stage.apply(GROWN_AFTER_SNAPSHOT)
    assert stage.line.mutations == ["POST", "POST", "PUT"]


async def test_a_snapshot_of_a_volume_that_was_forgotten_meanwhile_is_nobody_s(stage: Stage) -> None:
    await stage.apply(volume(rest=SNAPSHOT_FIRST))
    await left_open(stage, GROWN_AFTER_SNAPSHOT, "POST")
    await stage.time.sleep(SETTLE_S)
    await forget(stage.store, Address.parse("Volume/shop/data"), Actor(stage.time, "a person", run="run"))
    assert [change.action for change in (await plan(stage, GROWN_AFTER_SNAPSHOT)).changes] == [Action.ADOPT]
    await stage.apply(GROWN_AFTER_SNAPSHOT)
    assert await stage.open_steps() == []
    assert stage.volumes()[0]["size_gb"] == 20


async def test_a_restart_that_is_owed_already_is_not_owed_twice(stage: Stage) -> None:
    await stage.apply(volume())
    stage.hold()
    stage.switch(extend_needs_restart="never")
    stage.fault(method="PUT", path="*", action="drop_before")
    stage.fault(method="PUT", path="*", action="status", status=412)
    await stage.apply(GROWN)
    await left_open(stage, GROWN, "PUT")
    assert len((await plan(stage, GROWN)).owed) == 1
    assert len((await stage.apply(GROWN)).owed) == 1


async def test_a_lease_that_cannot_be_given_back_does_not_undo_what_was_done(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(lease: object) -> None:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(stage.store, "release", gone)
    assert outcomes(await stage.apply(volume())) == {"Volume/shop/data#create": "done"}


async def test_a_clock_that_went_back_lengthens_no_window(stage: Stage) -> None:
    await stage.time.sleep(3600)
    await left_open(stage, volume(), "POST")
    stage.time.elapsed_s = 0
    await stage.apply(volume())
    assert stage.time.elapsed_s <= SETTLE_S + 20
    assert stage.line.mutations == ["POST"]


async def test_a_call_that_is_left_open_while_holders_are_asked_for_is_asked_about_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scope was not asked about; that nobody held it can only be said after the call was seen."""
    stage.call("POST", "/_sandbox/apps", {"name": "other"})
    await left_open(stage, volume().replace("app: shop", "app: other"), "POST")
    store, asked = stage.store, list[Collection[str]]()
    holders = store.holders

    async def meanwhile(scopes: Collection[str]) -> Mapping[str, Locked]:
        asked.append(set(scopes))
        if len(asked) == 1:
            await left_open(stage, volume(), "POST")
        return await holders(scopes)

    monkeypatch.setattr(store, "holders", meanwhile)
    state, held = await load_with_holders(store)
    assert asked == [{"other"}, {"shop", "other"}]
    assert (len(state.open_intents), held) == (2, {})


async def test_a_plan_beside_a_living_apply_asks_nobody(stage: Stage) -> None:
    stage.line.hangs.add("POST")
    async with anyio.create_task_group() as group:
        group.start_soon(stage.apply, volume())
        await stage.line.reached.wait()
        beside = await plan(stage, volume() + volume("logs"))
        group.cancel_scope.cancel()
    assert [(item.code, "the test" in item.message) for item in beside.diagnostics] == [("in-flight", True)]
    assert [step.address.name for step in beside.steps] == ["logs"]
    assert [item.code for item in (await plan(stage, volume())).diagnostics] == ["unknown-outcome"]


async def test_a_run_that_died_while_an_apply_was_planning_is_settled_and_nobody_is_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = list[str]()

    async def after_another(store: Spooling) -> Any:
        planned.append("")
        if len(planned) == 1:
            await left_open(stage, volume(), "POST")
        return await load_with_holders(store)

    monkeypatch.setattr(applying, "load_with_holders", after_another)
    await stage.apply(volume())
    assert [(await stage.record()).id] == [each["id"] for each in stage.volumes()]
    assert stage.line.mutations == ["POST"]


async def test_an_apply_that_another_one_overtook_while_it_planned_says_who_works_there(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = list[str]()
    async with anyio.create_task_group() as group:

        async def beside_another(store: Spooling) -> Any:
            if not other:
                other.append("")
                stage.line.hangs.add("POST")
                group.start_soon(stage.apply, volume())
                await stage.line.reached.wait()
            return await load_with_holders(store)

        monkeypatch.setattr(applying, "load_with_holders", beside_another)
        with pytest.raises(Locked):
            await stage.apply(volume())
        group.cancel_scope.cancel()


@pytest.mark.parametrize("waits", [False, True])
async def test_the_loser_of_two_first_applies_is_told_of_the_other_run_or_plans_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    other = list[str]()

    async def before_another(*arguments: Any, **more: Any) -> Plan:
        made = await make_plan(*arguments, **more)
        if not other:
            other.append("")
            await stage.apply(volume())
        return made

    monkeypatch.setattr(applying, "make_plan", before_another)
    stage.lock_timeout_s = 10.0 if waits else 0.0
    if waits:
        assert (await stage.apply(volume())).results == ()
    else:
        with pytest.raises(Locked, match="another run has changed `shop` since this one planned"):
            await stage.apply(volume())
    assert stage.line.mutations == ["POST"]


async def test_a_lock_of_who_did_not_send_an_open_call_does_not_hide_the_question(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    await stage.store.lease(["shop"], "ana@host, rekeying")
    beside = await plan(stage, volume())
    assert [item.code for item in beside.diagnostics] == ["unknown-outcome"]
