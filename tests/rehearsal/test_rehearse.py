"""A rehearsal: what a plan does on a twin of the platform, clean and with each fault in each call."""

import dataclasses
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, Owed
from reconciler.core.steps import Plan
from reconciler.planning.declared import Desired
from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import dump_plan, load_saved
from reconciler.rehearsal.forecast import look_ahead
from reconciler.rehearsal.rehearse import rehearse, rehearse_saved
from reconciler.rehearsal.results import CALL_FAULTS, FAULTS, Assumption, Cell, Rehearsal
from reconciler.secrets.sources import Sources
from tests.execution.stage import Stage, cluster, loaded, plan, volume

SECRET = (
    "---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: TOKEN, app: shop}\n"
    "spec: {value_from: {env: PASSWORD}}\n"
)


async def planned_and_rehearsed(stage: Stage, desired: Desired) -> tuple[Plan, Rehearsal | None]:
    found, rehearsal, _ = await look_ahead(stage.project(), desired, rehearses=True)
    return found, rehearsal


async def rehearsed(stage: Stage, manifests: str) -> Rehearsal:
    found, rehearsal = await planned_and_rehearsed(stage, Desired(loaded(stage, manifests)))
    assert found.diagnostics == ()
    assert rehearsal is not None
    return rehearsal


def ends(cells: Sequence[Cell]) -> dict[str, str]:
    return {cell.fault: cell.end for cell in cells}


async def test_every_call_is_disturbed_by_every_fault_and_the_platform_is_only_read(stage: Stage) -> None:
    rehearsal = await rehearsed(stage, volume() + SECRET)
    assert rehearsal.steps == ("Volume/shop/data#create", "Secret/shop/TOKEN#set")
    assert [(cell.step, cell.fault) for cell in rehearsal.cells] == [
        ("", "none"),
        *((step, fault) for step in rehearsal.steps for fault in CALL_FAULTS),
    ]
    assert rehearsal.differences == ()
    assert {cell.end for cell in rehearsal.cells} == {"converged"}
    assert stage.line.mutations == []
    assert (await stage.store.load()).records == {}


async def test_an_hour_later_plan_and_rehearsal_have_the_same_digests(stage: Stage) -> None:
    manifests = volume() + cluster() + SECRET
    desired = Desired(loaded(stage, manifests))
    first, rehearsed_first = await planned_and_rehearsed(stage, desired)
    await stage.time.sleep(3600)
    second, rehearsed_again = await planned_and_rehearsed(stage, desired)
    assert rehearsed_first is not None
    assert rehearsed_again is not None
    assert first.context.at != second.context.at
    assert plan_digest(first) == plan_digest(second)
    assert rehearsed_first.digest == rehearsed_again.digest


async def test_a_saved_plan_carries_its_rehearsal(stage: Stage) -> None:
    found, rehearsal = await planned_and_rehearsed(stage, Desired(loaded(stage, cluster())))
    assert rehearsal is not None
    text = dump_plan(found, rehearsal)
    saved = load_saved(text)
    assert (saved.plan, saved.rehearsal) == (found, rehearsal)
    assert saved.rehearsal is not None
    assert saved.rehearsal.digest == rehearsal.digest
    changed = text.replace(b'"end": "decision"', b'"end": "converged"', 1)
    assert changed != text
    assert load_saved(changed).rehearsal.digest != rehearsal.digest  # type: ignore[union-attr]


def test_only_durations_and_wording_are_not_in_the_digest_of_a_rehearsal() -> None:
    owed = Owed(Address("Volume", "data", "shop"), "restart", "so", "owed")
    cell = Cell("a#create", "killed", "decision", (owed,), "made?", "lost", 7.5)
    room = Assumption("placement", "there is room")
    of = Rehearsal(("a#create",), 1, (cell,), ("differs",), assumptions=(room,))
    same = replace(cell, duration_s=9.0, question="at another time?", error="otherwise")
    assert replace(of, cells=(same,)).digest == of.digest
    others = [
        replace(of, cells=(replace(cell, step="b"),)),
        replace(of, cells=(replace(cell, fault="slow"),)),
        replace(of, cells=(replace(cell, end="pending"),)),
        replace(of, cells=(replace(cell, owed=()),)),
        replace(of, cells=(cell, cell)),
        replace(of, steps=()),
        replace(of, of=2),
        replace(of, differences=()),
        replace(of, assumptions=()),
        replace(of, assumptions=(room, room)),
        replace(of, assumptions=(replace(room, name="read_lag_s"),)),
        replace(of, assumptions=(replace(room, says="there is none"),)),
    ]
    assert of.digest not in {each.digest for each in others}


async def test_a_lost_cluster_asks_a_person_and_a_refused_one_does_not(stage: Stage) -> None:
    rehearsal = await rehearsed(stage, cluster())
    assert ends(rehearsal.of_step("PostgresCluster/orders#create")) == {
        "lost_before": "decision",
        "lost_after": "decision",
        "error_after": "decision",
        "slow": "decision",
        "refused_412": "converged",
        "limited_429": "converged",
        "killed": "decision",
    }
    asked = next(cell for cell in rehearsal.cells if cell.end == "decision")
    assert "POST /v1/postgres" in asked.question
    assert "--adopt ID; reconcile resolve PostgresCluster/orders --not-created" in asked.question


async def test_what_is_taken_for_granted_is_named_unless_it_is_known(stage: Stage) -> None:
    project, desired = stage.project(), Desired(loaded(stage, volume()))
    found = await plan(stage, volume())
    rehearsal = await rehearse(project, desired, found, {})
    named = {each.name: each.says for each in rehearsal.assumptions}
    assert named["placement"] == "there is room for new volumes where they are to be"
    assert "cluster_outcome" not in named
    known = await rehearse(project, desired, found, {}, switches={"placement": "ok"})
    assert {each.name for each in known.assumptions} == set(named) - {"placement"}


async def test_a_restart_that_will_be_owed_is_told(stage: Stage) -> None:
    await stage.apply(volume())
    stage.hold()
    rehearsal = await rehearsed(stage, volume(spec="region: ams, size_gb: 20"))
    (clean, *struck) = rehearsal.cells
    assert [(owed.work, owed.certainty) for owed in clean.owed] == [("restart", "owed")]
    killed = next(cell for cell in struck if cell.fault == "killed")
    assert [owed.certainty for owed in killed.owed] == ["unknown"]


async def test_a_platform_that_does_not_do_as_the_plan_says_is_told_as_a_difference(stage: Stage) -> None:
    project, desired = stage.project(), Desired(loaded(stage, volume()))
    found = await plan(stage, volume())
    switches = {"placement": "insufficient_capacity"}
    rehearsal = await rehearse(project, desired, found, {}, switches=switches)
    assert rehearsal.clean.end == "failed"
    assert rehearsal.differences[0].startswith("Volume/shop/data#create is failed on the twin: ")


async def test_what_is_unchanged_stays_so_also_a_secret_whose_source_is_not_read(stage: Stage) -> None:
    await stage.apply(volume() + SECRET)
    manifests = volume(spec="region: ams, size_gb: 20") + SECRET
    saved, desired = await plan(stage, manifests), Desired(loaded(stage, manifests))
    project = dataclasses.replace(stage.project(), sources=_Unread(stage.root, {}))
    rehearsal = await rehearse_saved(project, desired, saved)
    assert rehearsal.steps == ("Volume/shop/data#extend",)
    assert rehearsal.differences == ()
    assert {cell.end for cell in rehearsal.cells} == {"converged"}


async def test_a_world_that_moved_since_the_plan_was_saved_is_a_difference(stage: Stage) -> None:
    await stage.apply(volume())
    manifests = volume(spec="region: ams, size_gb: 20")
    saved, desired = await plan(stage, manifests), Desired(loaded(stage, manifests))
    (held,) = stage.volumes()
    stage.call("PUT", f"/v1/apps/shop/volumes/{held['id']}/extend", {"size_gb": 15})
    rehearsal = await rehearse_saved(stage.project(), desired, saved)
    assert rehearsal.differences == (
        "the plan was refused on the twin: `Volume/shop/data` changed on the platform since the plan was "
        "made",
    )


async def test_what_is_no_target_is_left_alone_by_the_applies_that_follow_too(stage: Stage) -> None:
    target = Address.parse("Volume/shop/data")
    desired = Desired(loaded(stage, volume() + volume("other")), targets=(target,))
    _, rehearsal = await planned_and_rehearsed(stage, desired)
    assert rehearsal is not None
    assert rehearsal.steps == ("Volume/shop/data#create",)
    assert rehearsal.differences == ()


async def test_a_plan_without_calls_has_a_clean_run_alone(stage: Stage) -> None:
    await stage.apply(volume())
    rehearsal = await rehearsed(stage, volume())
    assert (rehearsal.steps, rehearsal.of, ends(rehearsal.cells)) == ((), 0, {"none": "converged"})


async def test_of_a_large_plan_a_sample_of_all_sorts_of_calls_is_disturbed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.rehearsal.rehearse.MOST_STEPS", 5)  # large enough
    manifests = "".join(volume(f"v{number}") for number in range(10)) + SECRET
    rehearsal = await rehearsed(stage, manifests)
    assert (len(rehearsal.steps), rehearsal.of) == (5, 11)
    assert "Secret/shop/TOKEN#set" in rehearsal.steps
    assert len(rehearsal.cells) == 1 + 5 * (len(FAULTS) - 1)


async def test_a_world_that_the_twin_cannot_hold_is_refused_by_its_name(stage: Stage) -> None:
    await stage.apply(volume())
    stage.fault(method="GET", path="/v1/apps/shop/volumes", action="unknown_enum", times=None)
    with pytest.raises(ReconcilerError, match=r"cannot be rehearsed.*volumes\[0\]\.state"):
        await rehearsed(stage, volume() + volume("other"))


class _Unread(Sources):
    def value(self, *asked: object) -> object:  # type: ignore[override]
        raise AssertionError("a source of secrets was read")
