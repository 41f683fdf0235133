"""Volumes that are fuller than allowed: since looks were recorded, drift says when they will be full."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.controller.status import Look, Status
from reconciler.drift.accept import accept
from reconciler.drift.find import Drift, find_drift
from reconciler.notify.events import Run, events_of
from reconciler.planning.declared import Desired
from reconciler.reports.report import DriftReport
from tests.execution.stage import START, Stage, loaded, plan, volume

DAY_S = 86_400
BLOCKS = 2**30 // 4096
ALERT = volume(spec="region: ams, size_gb: 100", rest="lifecycle: {alert_at: 80%}\n")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.close()


def fill(stage: Stage, used_gb: float) -> None:
    (only,) = stage.volumes()
    free = round((only["size_gb"] - used_gb) * BLOCKS)
    stage.call("PATCH", f"/_sandbox/world/volumes/{only['id']}", {"blocks_free": free})


async def drift(stage: Stage, manifests: str = ALERT) -> Drift:
    return await find_drift(stage.project(), Desired(loaded(stage, manifests)))


async def filled(stage: Stage, *used_gb: float) -> None:
    """Fill it so day by day, with an apply that looks at it, which writes no more than what it saw."""
    await stage.apply(ALERT)
    for used in used_gb:
        fill(stage, used)
        await stage.apply(ALERT)
        await stage.time.sleep(DAY_S)


async def test_the_pace_of_the_looks_says_when_it_is_full(stage: Stage) -> None:
    await filled(stage, 76, 78, 80, 82)
    fill(stage, 84)
    (problem,) = (await drift(stage)).plan.diagnostics
    assert problem.code == "volume-filling"
    full = START + timedelta(days=4 + 8)
    told = f"84.0 of 100.0 GB used (84 %); at the pace of its last 4 days, it is full on {full:%Y-%m-%d}"
    assert problem.message.endswith(told)


async def test_a_full_volume_is_drift_for_receivers_and_for_the_controller(stage: Stage) -> None:
    await filled(stage, 82)
    found = await drift(stage)
    (change,) = found.plan.changes
    assert [(field.path, field.before, field.after) for field in change.fields] == [
        ("alert_at", "80%", "82%")
    ]
    report = DriftReport(plan=found.plan, diagnostics=found.plan.diagnostics)
    (event,) = events_of(report, Run("drift", "base", "", 2, "", "", START))
    assert [item.what for item in event.items][-1].startswith("warning[volume-filling]: `Volume/shop/data`")
    desired = Desired(loaded(stage, ALERT))
    state = await stage.store.load()
    scopes = {change.address: "shop"}
    seen = Look(found, await plan(stage, ALERT), state, desired.by_address, scopes, {}).seen({"shop"})["shop"]
    assert (seen.status, seen.reason) == (Status.DRIFTED, "Volume/shop/data (alert_at)")
    assert seen.fills["Volume/shop/data"].percent == 82


async def test_the_limit_itself_is_reached_and_below_it_nothing_is_said(stage: Stage) -> None:
    await stage.apply(ALERT)
    for used_gb, fields in ((79.9, []), (80, ["80%"])):
        fill(stage, used_gb)
        assert [field.after for each in (await drift(stage)).plan.changes for field in each.fields] == fields


async def test_other_drift_is_told_next_to_it(stage: Stage) -> None:
    manifests = volume(
        spec="region: ams, size_gb: 100, snapshot_retention: 5", rest="lifecycle: {alert_at: 80%}\n"
    )
    await stage.apply(manifests)
    fill(stage, 90)
    (only,) = stage.volumes()
    stage.call("PATCH", f"/_sandbox/world/volumes/{only['id']}", {"snapshot_retention": 9})
    (change,) = (await drift(stage, manifests)).plan.changes
    assert [field.path for field in change.fields] == ["snapshot_retention", "alert_at"]
    assert change.reason == "changed on the platform, not by us; the objective `alert_at: 80%` is missed"


async def test_a_full_volume_cannot_be_accepted(stage: Stage) -> None:
    await filled(stage, 90)
    desired = Desired(loaded(stage, ALERT))
    refused = accept(await drift(stage), desired, stage.root, ()).refused
    assert [refusal.why.message for refusal in refused] == [
        "`Volume/shop/data`: `alert_at: 80%` is an objective, which has no value to accept"
    ]
