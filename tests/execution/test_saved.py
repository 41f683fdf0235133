"""Plans from a file: compared with the plan that apply makes, never obeyed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.errors import Refused
from reconciler.core.model import Action, Address
from reconciler.core.steps import Call, Plan, SecretRef, Step
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.planning.digest import plan_digest
from reconciler.project.apply import run_saved
from reconciler.project.plan import make_plan
from reconciler.project.run import Applied
from tests.execution.stage import Stage, loaded, outcomes, secret, volume

DELETED = "lifecycle: {deletion: delete}\n"
BEFORE = volume() + volume("old", rest=DELETED)
GROWN = volume(spec="region: ams, size_gb: 20, snapshot_retention: 9") + volume(
    "new", "region: fra, size_gb: 10"
)
OLD = "Volume/shop/old"
SECRET = secret("KEY")


async def saved(stage: Stage, manifests: str) -> Plan:
    plan = await make_plan(stage.project(), Desired(loaded(stage, manifests)))
    stage.line.sent.clear()
    return plan


async def run(stage: Stage, plan: Plan, manifests: str, deletes: Sequence[str] = ()) -> Applied:
    return await run_saved(stage.project(), Desired(loaded(stage, manifests)), plan, deletes)


async def moved(stage: Stage, plan: Plan, manifests: str) -> list[str]:
    """What is said of the addresses that have become others; nothing of the plan is sent."""
    with pytest.raises(Refused) as refused:
        await run(stage, plan, manifests, [OLD])
    assert stage.line.mutations == []
    errors = [each for each in refused.value.diagnostics if each.severity == "error"]
    assert {each.code for each in errors} == {"plan-moved"}
    assert all("reconcile plan --out FILE" in each.help for each in errors)
    return [each.message for each in errors]


def said(applied: Applied) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in applied.plan.diagnostics]


def body(step: Step, **fields: Any) -> Step:
    return replace(step, call=dataclasses.replace(step.call, body={**(step.call.body or {}), **fields}))


def every(method: str, forge: Callable[[Step], Step]) -> Callable[[Plan], Plan]:
    """A plan whose steps of one method were forged."""

    def forged(plan: Plan) -> Plan:
        steps = [forge(each) if each.call.method == method else each for each in plan.steps]
        return replace(plan, steps=tuple(steps))

    return forged


def dropped(name: str) -> Callable[[Plan], Plan]:
    def forged(plan: Plan) -> Plan:
        return replace(plan, steps=tuple(each for each in plan.steps if not each.id.endswith(f"#{name}")))

    return forged


def elsewhere(step: Step) -> Step:
    path = str(step.call.path).replace("/shop/", "/prod/")
    return replace(step, call=dataclasses.replace(step.call, path=path))


FORGERIES: dict[str, Callable[[Plan], Plan]] = {
    "extended to 500": every("PUT", lambda step: body(step, size_gb=500)),
    "a retention of one day": every("PUT", lambda step: body(step, snapshot_retention=1)),
    "a variable of the apply job": every("PUT", lambda step: body(step, name=SecretRef("env", "PASSWORD"))),
    "a field more": every("PUT", lambda step: body(step, evil="x")),
    "no changes": lambda plan: replace(plan, changes=()),
    "no fields": lambda plan: replace(plan, changes=tuple(replace(each, fields=()) for each in plan.changes)),
    "another action": lambda plan: replace(
        plan, changes=tuple(replace(each, action=Action.UPDATE) for each in plan.changes)
    ),
    "another id": lambda plan: replace(
        plan, changes=tuple(replace(each, id="vol_other") for each in plan.changes)
    ),
    "no snapshot before the delete": dropped("snapshot"),
    "no update, which the extend waits for": dropped("update"),
    "one of the calls in another app": every("DELETE", elsewhere),
    "another order": lambda plan: replace(plan, steps=plan.steps[::-1]),
    "a call more": lambda plan: replace(
        plan,
        steps=(*plan.steps, replace(plan.steps[0], id="x", call=Call("DELETE", "/v1/apps/shop/volumes/v"))),
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_plan_sends_nothing(stage: Stage, forgery: str) -> None:
    await stage.apply(BEFORE)
    plan = await saved(stage, GROWN)
    forged = FORGERIES[forgery](plan)
    assert forged != plan
    said = await moved(stage, forged, GROWN)
    assert all("the file plans" in each and "this run plans" in each for each in said)
    assert "PASSWORD" not in str(said)


async def test_an_honest_plan_runs_and_what_is_sent_is_the_plan_of_this_run(stage: Stage) -> None:
    await stage.apply(BEFORE)
    plan = await saved(stage, GROWN)
    applied = await run(stage, plan, GROWN, [OLD])
    assert set(outcomes(applied).values()) == {"done"}
    assert [each.id for each in applied.plan.steps] == [each.id for each in plan.steps]
    assert applied.plan.id != plan.id
    assert said(applied) == []


async def test_what_the_file_does_not_name_is_left_and_listed(stage: Stage) -> None:
    await stage.apply(BEFORE)
    plan = await saved(stage, GROWN)
    applied = await run(stage, plan, GROWN + volume("later", "region: fra, size_gb: 10"), [OLD])
    assert said(applied) == [
        (
            "not-in-plan",
            "`Volume/shop/later` is not in the file and was left as it is: create, "
            'POST /v1/apps/shop/volumes {"name": "later", "region": "fra", "size_gb": 10}',
        )
    ]
    assert {each["name"] for each in stage.volumes()} == {"data", "old", "new"}


async def test_what_is_refused_now_and_the_file_does_not_name_is_listed_too(stage: Stage) -> None:
    stage.env = {}
    plan = await saved(stage, volume())
    applied = await run(stage, plan, volume() + SECRET)
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}
    (line,) = [message for code, message in said(applied) if code == "not-in-plan"]
    assert line.startswith("`Secret/shop/KEY` is not in the file and was left as it is: refused: ")


async def test_what_a_named_address_needs_belongs_to_the_file(stage: Stage) -> None:
    forked = volume("copy", "region: ams, size_gb: 10, from: {volume: data}")
    plan = await saved(stage, volume() + forked)
    only = replace(
        plan,
        changes=tuple(each for each in plan.changes if each.address.name == "copy"),
        steps=tuple(each for each in plan.steps if each.address.name == "copy"),
    )
    (said,) = await moved(stage, only, volume() + forked)
    assert said == "`Volume/shop/copy` needs `Volume/shop/data`, which the file does not name"


async def test_the_targets_of_a_file_hide_nothing_that_it_names(stage: Stage) -> None:
    await stage.apply(BEFORE)
    plan = await saved(stage, GROWN)
    forged = replace(plan, manifests=replace(plan.manifests, targets=("Volume/shop/new",)))
    assert plan_digest(forged) != plan_digest(plan)
    (said,) = await moved(stage, forged, GROWN)
    assert said.startswith(f"`{OLD}`: the file plans delete")
    assert said.endswith("but this run plans nothing")


async def test_a_field_that_is_ignored_now_is_not_taken_for_done(stage: Stage) -> None:
    await stage.apply(volume())
    grown = volume(spec="region: ams, size_gb: 20")
    plan = await saved(stage, grown)
    ignored = "lifecycle: {ignore: [{field: size_gb, reason: by hand}]}\n"
    (said,) = await moved(stage, plan, volume(spec="region: ams, size_gb: 20", rest=ignored))
    assert said.endswith("but this run plans nothing")


async def test_a_snapshot_before_an_extend_is_kept_beside_an_age_objective(stage: Stage) -> None:
    def of(size_gb: int, before: str) -> str:
        return volume(spec=f"region: ams, size_gb: {size_gb}", rest=f"lifecycle: {{{before}}}\n") + POLICY

    await stage.apply(of(10, "snapshot_before: [extend]"))
    plan = await saved(stage, of(20, "snapshot_before: [extend]"))
    (said,) = await moved(stage, plan, of(20, "snapshot_before: []"))
    assert "POST /v1/apps/shop/volumes/" in said


async def test_what_is_done_is_skipped_and_two_files_run_one_after_another(stage: Stage) -> None:
    first = await saved(stage, volume())
    both = await saved(stage, volume() + volume("logs"))
    await run(stage, first, volume())
    applied = await run(stage, both, volume() + volume("logs"))
    assert outcomes(applied) == {"Volume/shop/logs#create": "done"}
    ((code, message),) = said(applied)
    assert code == "allowed-difference"
    assert message.startswith("`Volume/shop/data`: nothing is left to do, the file plans create, POST")
    again = await run(stage, both, volume() + volume("logs"))
    assert again.results == ()
    assert len(stage.volumes()) == 2


async def test_calls_without_an_action_are_not_taken_for_done(stage: Stage) -> None:
    grown = volume(spec="region: ams, size_gb: 20")
    await stage.apply(volume())
    plan = await saved(stage, grown)
    await stage.apply(grown)
    stage.line.sent.clear()
    (said,) = await moved(
        stage, replace(every("PUT", lambda step: body(step, size_gb=500))(plan), changes=()), grown
    )
    assert said.endswith("but this run plans nothing")


async def test_a_plan_of_what_was_not_merged_is_not_taken_for_done(stage: Stage) -> None:
    await stage.apply(volume())
    for changed in ("size_gb: 20", "size_gb: 10, snapshot_retention: 9"):
        plan = await saved(stage, volume(spec=f"region: ams, {changed}"))
        (said,) = await moved(stage, plan, volume())
        assert said.endswith("but this run plans nothing")


async def test_a_secret_whose_source_only_apply_can_read_is_set(stage: Stage) -> None:
    await stage.apply(SECRET)
    stage.env = {}
    plan = await saved(stage, SECRET + volume())
    assert [str(each) for each in plan.unread] == ["Secret/shop/KEY"]
    stage.env = {"PASSWORD": "rotated"}
    applied = await run(stage, plan, SECRET + volume())
    assert outcomes(applied) == {"Secret/shop/KEY#set": "done", "Volume/shop/data#create": "done"}
    assert said(applied) == [
        (
            "allowed-difference",
            "`Secret/shop/KEY` is set: its source could not be read when the file was made",
        )
    ]


async def test_a_secret_whose_source_is_gone_is_refused_alone(stage: Stage) -> None:
    plan = await saved(stage, SECRET + volume())
    stage.env = {}
    applied = await run(stage, plan, SECRET + volume())
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}
    assert [code for code, _ in said(applied)] == ["secret-source"]


async def test_a_secret_that_the_file_had_read_is_left(stage: Stage) -> None:
    await stage.apply(SECRET)
    plan = await saved(stage, SECRET + volume())
    stage.env = {"PASSWORD": "rotated"}
    applied = await run(stage, plan, SECRET + volume())
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}
    assert [code for code, _ in said(applied)] == ["not-in-plan"]


POLICY = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
    "spec: {selector: {}, snapshot_max_age_h: 24}\n"
)


@pytest.mark.parametrize("due", ["when it runs", "when it is planned"])
async def test_a_snapshot_by_age_is_no_difference(stage: Stage, due: str) -> None:
    def of(size_gb: int) -> str:
        return volume(spec=f"region: ams, size_gb: {size_gb}, auto_backup_enabled: false") + POLICY

    await stage.apply(of(10))
    if due == "when it is planned":
        stage.time.elapsed_s += 25 * 3600
    plan = await saved(stage, of(20))
    if due == "when it is planned":
        (data,) = stage.volumes()
        stage.call("POST", f"/v1/apps/shop/volumes/{data['id']}/snapshots", {})
        stage.time.elapsed_s += 600
    else:
        stage.time.elapsed_s += 25 * 3600
    applied = await run(stage, plan, of(20))
    sent = ["snapshot", "extend"] if due == "when it runs" else ["extend"]
    assert list(outcomes(applied)) == [f"Volume/shop/data#{each}" for each in sent]
    ((code, message),) = said(applied)
    assert code == "allowed-difference"
    assert "only an age objective decides about this snapshot" in message


def of_a_move(stage: Stage, size_gb: int) -> Desired:
    moved_to = (
        volume("store", f"region: ams, size_gb: {size_gb}, name: data")
        + "---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {name: m}\n"
        "spec: {from: Volume/shop/data, to: Volume/shop/store}\n"
    )
    found = load(["-"], root=stage.root, stdin=moved_to.encode)
    assert found.diagnostics == ()
    return Desired(found.resources, policies=found.policies)


async def test_a_move_that_was_taken_back_is_not_done(stage: Stage) -> None:
    await stage.apply(volume())
    plan = await make_plan(stage.project(), of_a_move(stage, 10))
    with pytest.raises(Refused) as refused:
        await run(stage, plan, volume())
    problems = refused.value.diagnostics
    assert [each.code for each in problems] == ["plan-moved"] * 2
    assert all(each.message.endswith("but this run plans no such move") for each in problems)
    assert Address.parse("Volume/shop/data") in (await stage.store.load()).records
    for _ in range(2):  # the second time, it is done
        await run_saved(stage.project(), of_a_move(stage, 10), plan, ())
    assert Address.parse("Volume/shop/store") in (await stage.store.load()).records


async def test_a_moved_record_runs_with_its_plan(stage: Stage) -> None:
    await stage.apply(volume())
    desired = of_a_move(stage, 20)
    plan = await make_plan(stage.project(), desired)
    assert plan.moves
    with pytest.raises(Refused):
        await run_saved(stage.project(), desired, replace(plan, moves=()), ())
    applied = await run_saved(stage.project(), desired, plan, ())
    assert outcomes(applied) == {"Volume/shop/store#extend": "done"}


async def test_an_older_plan_of_what_others_changed_since_names_both_sides(stage: Stage) -> None:
    await stage.apply(volume())
    plan = await saved(stage, volume(spec="region: ams, size_gb: 20"))
    (data,) = stage.volumes()
    stage.call("PATCH", f"/_sandbox/world/volumes/{data['id']}", {"size_gb": 15})
    (said,) = await moved(stage, plan, volume(spec="region: ams, size_gb: 20"))
    assert "size_gb 10 -> 20" in said
    assert "size_gb 15 -> 20" in said
