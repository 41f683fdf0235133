"""Volumes that grow before they are full: how much of it a day, and never twice for one reason."""

from datetime import timedelta

import pytest

from reconciler.core.model import Action, Address
from reconciler.core.steps import Plan
from reconciler.project.records import move
from tests.execution.stage import Stage, left_open, plan, volume

DAY_S = 86_400
GIB_BLOCKS = 2**30 // 4096


def growing(most: int = 100, most_gb_per_day: int = 100, by: str = "20%", rest: str = "") -> str:
    grow = f"grow: {{at: 85%, by: {by}, most_gb_per_day: {most_gb_per_day}}}{rest}"
    return volume(spec=f"region: ams, size_gb: {{min: 10, max: {most}}}", rest=f"lifecycle: {{{grow}}}\n")


def fill(stage: Stage, percent: int = 90) -> None:
    """Let the only volume be so full."""
    (only,) = stage.volumes()
    free = only["blocks"] * (100 - percent) // 100
    stage.call("PATCH", f"/_sandbox/world/volumes/{only['id']}", {"blocks_free": free})


def size_gb(stage: Stage) -> int:
    (only,) = stage.volumes()
    return int(only["size_gb"])


async def grown(stage: Stage, manifests: str) -> int:
    """Its size after an apply."""
    await stage.apply(manifests)
    return size_gb(stage)


def extends(found: Plan) -> list[tuple[int, int]]:
    return [
        (field.before, field.after)
        for change in found.changes
        if Action.EXTEND in change.actions
        for field in change.fields
    ]


async def test_a_volume_is_extended_once_until_it_fills_again(stage: Stage) -> None:
    assert await grown(stage, growing()) == 10
    fill(stage)
    assert [await grown(stage, growing()) for _ in range(3)] == [12, 12, 12]
    fill(stage)
    assert await grown(stage, growing()) == 15


async def test_it_grows_no_more_than_a_day_allows(stage: Stage) -> None:
    manifests = growing(most_gb_per_day=5)
    await stage.apply(manifests)
    sizes = []
    for _ in range(8):
        fill(stage)
        sizes.append(await grown(stage, manifests))
        await stage.time.sleep(DAY_S / 8)
    assert sizes == [12, 15, 15, 15, 15, 15, 15, 15]
    fill(stage)
    await stage.time.sleep(10)
    assert await grown(stage, manifests) == 17  # what was added first counts no more
    fill(stage)
    assert extends(await plan(stage, manifests)) == []
    await stage.time.sleep(DAY_S)
    assert extends(await plan(stage, manifests)) == [(17, 21)]


async def test_what_a_person_extends_counts_for_the_day_and_what_is_created_does_not(stage: Stage) -> None:
    await stage.apply(growing(most_gb_per_day=5))
    fill(stage)
    assert extends(await plan(stage, growing(most_gb_per_day=5))) == [(10, 12)]
    await stage.apply(growing(most_gb_per_day=5).replace("min: 10", "min: 14"))
    fill(stage)
    assert extends(await plan(stage, growing(most_gb_per_day=5))) == [(14, 15)]


async def test_another_name_does_not_begin_the_day_anew(stage: Stage) -> None:
    manifests = growing(most_gb_per_day=3)
    await stage.apply(manifests)
    fill(stage)
    assert await grown(stage, manifests) == 12
    logs = Address.parse("Volume/shop/logs")
    await move(stage.store, Address.parse("Volume/shop/data"), logs, stage.project().actor())
    fill(stage)
    renamed = manifests.replace("name: data", "name: logs").replace("{region", "{name: data, region")
    assert await grown(stage, renamed) == 13


async def test_it_does_not_grow_again_before_the_owed_restart(stage: Stage) -> None:
    await stage.apply(growing())
    stage.hold()
    fill(stage)
    assert [await grown(stage, growing()) for _ in range(3)] == [12, 12, 12]
    fill(stage, 99)
    await stage.time.sleep(2 * DAY_S)
    assert await grown(stage, growing()) == 12
    (held,) = stage.volumes()
    stage.call("POST", f"/_sandbox/machines/{held['attached_machine_id']}/crash", {})
    stage.call("POST", f"/v1/apps/shop/machines/{held['attached_machine_id']}/start", {})
    assert await grown(stage, growing()) == 12  # nobody has said that the restart is done


async def test_it_does_not_grow_again_while_its_file_system_lags_behind(stage: Stage) -> None:
    """Nothing is owed: it is attached to no machine, and its blocks stay as they were."""
    await stage.apply(growing(by="5%"))
    (only,) = stage.volumes()
    path = f"/_sandbox/world/volumes/{only['id']}"
    stage.call("PATCH", path, {"blocks": 10 * GIB_BLOCKS, "blocks_free": 0})
    sizes = []
    for _ in range(5):
        sizes.append(await grown(stage, growing(by="5%")))
        stage.call("PATCH", path, {"blocks": 10 * GIB_BLOCKS, "blocks_free": 0})
        await stage.time.sleep(2 * DAY_S)
    assert sizes == [11] * 5
    stage.call("PATCH", path, {"blocks": 11 * GIB_BLOCKS, "blocks_free": 0})
    assert await grown(stage, growing(by="5%")) == 12


@pytest.mark.parametrize("lands", [True, False])
async def test_an_extend_without_an_answer_counts_for_the_day(stage: Stage, lands: bool) -> None:
    manifests = growing(most_gb_per_day=3)
    await stage.apply(manifests)
    fill(stage)
    if not lands:
        stage.fault(method="PUT", action="status", status=503, times=1)
    await left_open(stage, manifests, "PUT")
    fill(stage)
    await stage.time.sleep(3600)
    assert await grown(stage, manifests) <= 13
    fill(stage)
    assert await grown(stage, manifests) <= 13
    await stage.time.sleep(DAY_S + 3600)
    fill(stage)
    assert await grown(stage, manifests) > 13


async def test_the_end_of_the_range_is_the_end(stage: Stage) -> None:
    manifests = growing(most=16)
    await stage.apply(manifests)
    sizes = []
    for _ in range(6):
        fill(stage, 99)
        sizes.append(await grown(stage, manifests))
    assert sizes == [12, 15, 16, 16, 16, 16]


async def test_the_restart_is_sent_where_the_manifest_says_so(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart", "machine.get"})
    manifests = growing(rest=", restart: auto")
    await stage.apply(manifests)
    stage.hold()
    fill(stage)
    done = await stage.apply(manifests)
    assert [result.step.partition("#")[2] for result in done.results] == ["extend", "restart"]
    (held,) = stage.volumes()
    assert held["blocks"] == 12 * GIB_BLOCKS
    assert extends(await plan(stage, manifests)) == []


async def test_a_plan_that_was_reviewed_is_the_one_that_is_made_later(stage: Stage) -> None:
    """How full it is exactly, and the time, are no part of what people approve."""
    from reconciler.planning.digest import plan_digest

    await stage.apply(growing())
    fill(stage, 90)
    reviewed = plan_digest(await plan(stage, growing()))
    fill(stage, 95)
    await stage.time.sleep(timedelta(days=3).total_seconds())
    assert plan_digest(await plan(stage, growing())) == reviewed
