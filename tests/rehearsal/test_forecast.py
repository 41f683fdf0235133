"""A forecast: what will have come to pass by itself, and nothing of it done to the platform."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from reconciler.approvals.rules import Authority, Rule, Said
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Observation
from reconciler.core.steps import Read
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.rehearsal.forecast import forecast, look_ahead
from reconciler.rehearsal.results import Forecast, Item
from tests.execution.stage import START, Stage, loaded, plan, volume

DAILY = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: daily}\n"
    "spec: {selector: {}, snapshot_max_age_h: 24}\n"
)
ALONE = "region: ams, size_gb: 10, auto_backup_enabled: false"


async def ahead(stage: Stage, manifests: str, days: float, *, after_apply: bool = False) -> Forecast:
    at = stage.time.now() + timedelta(days=days)
    desired = Desired(loaded(stage, manifests))
    _, rehearsal, found = await look_ahead(stage.project(), desired, at=at, after_apply=after_apply)
    assert rehearsal is None
    assert found is not None
    assert (found.at, found.after_apply) == (at, after_apply)
    return found


def told(found: Forecast) -> list[tuple[str, str, datetime | None]]:
    return [(str(each.address), each.what, each.when) for each in found.items]


def snapshot(stage: Stage) -> str:
    """A finished one of the only volume."""
    (only,) = stage.volumes()
    path = f"/v1/apps/shop/volumes/{only['id']}/snapshots"
    id = stage.call("POST", path, {})["Msg"]["backup"]["graph_id"]
    stage.call("POST", "/_sandbox/clock", {"advance_s": 60})
    return str(id)


async def test_an_objective_that_will_be_missed_is_told_with_its_moment(stage: Stage) -> None:
    manifests = volume(spec=ALONE) + DAILY
    await stage.apply(manifests)
    stage.line.sent.clear()
    assert told(await ahead(stage, manifests, 0.9)) == []
    ((address, what, when),) = told(await ahead(stage, manifests, 2))
    assert (address, what) == ("Volume/shop/data", "the objective `snapshot_max_age_h: 24` is missed")
    assert when is not None
    assert START + timedelta(days=1) <= when <= START + timedelta(days=1, minutes=1)
    assert stage.line.mutations == []


async def test_a_forecast_reaches_ten_years(stage: Stage) -> None:
    await stage.apply(volume(spec=ALONE))
    assert told(await ahead(stage, volume(spec=ALONE), 3650)) == []


async def test_what_the_plan_says_already_is_no_forecast_and_what_it_mends_lasts(stage: Stage) -> None:
    manifests = volume(spec=ALONE) + DAILY
    await stage.apply(manifests)
    await stage.time.sleep(30 * 3600)
    assert told(await ahead(stage, manifests, 0.5)) == []
    assert told(await ahead(stage, manifests, 0.9, after_apply=True)) == []
    ((_, what, when), *_) = told(await ahead(stage, manifests, 3, after_apply=True))
    assert what == "the objective `snapshot_max_age_h: 24` is missed"
    assert when is not None
    assert when > stage.time.now() + timedelta(days=1)


async def test_snapshots_run_out_unless_new_ones_are_taken(stage: Stage) -> None:
    await stage.apply(volume(spec=ALONE))
    made = stage.sandbox.clock.now()
    id = snapshot(stage)
    (expires, none_left) = told(await ahead(stage, volume(spec=ALONE), 6))
    assert expires[:2] == ("Volume/shop/data", f"1 snapshot expires: {id}")
    assert expires[2] is not None
    assert 0 <= expires[2].timestamp() - made - 5 * 86400 <= 60
    assert none_left == ("Volume/shop/data", "no usable snapshot is left", expires[2])
    backed_up = volume(spec="region: ams, size_gb: 10, auto_backup_enabled: true")
    found = told(await ahead(stage, backed_up, 6, after_apply=True))
    assert [what for _, what, _ in found] == [f"1 snapshot expires: {id}"]


async def test_an_ignore_that_ends_is_told_with_what_the_plan_does_then(stage: Stage) -> None:
    def manifest(days: int) -> str:
        ignore = f"[{{field: snapshot_retention, reason: load test, until: {date(2026, 1, 9)}}}]"
        spec = f"region: ams, size_gb: 10, snapshot_retention: {days}"
        return volume(spec=spec, rest=f"lifecycle: {{ignore: {ignore}}}\n")

    await stage.apply(manifest(5))
    what = "`snapshot_retention` is compared again, ignored until 2026-01-09 (load test)"
    over = datetime(2026, 1, 10, tzinfo=UTC)
    assert told(await ahead(stage, manifest(5), 8.5)) == []
    assert told(await ahead(stage, manifest(5), 9.5)) == [("Volume/shop/data", what, over)]
    differs = f"{what}; the plan is then snapshot_retention 5 -> 14"
    assert told(await ahead(stage, manifest(14), 9.5)) == [("Volume/shop/data", differs, over)]


async def test_the_pace_that_runs_have_seen_tells_when_a_volume_is_as_large_as_it_may_be(
    stage: Stage,
) -> None:
    """Somebody else enlarges it by 1 GB a day; each run records how large it is."""
    stage.sandbox.set_switches({"auto_extend_gb": 1})

    def manifest(days: int) -> str:
        return volume(spec=f"region: ams, size_gb: {{min: 10, max: 20}}, snapshot_retention: {days}")

    await stage.apply(manifest(5))
    none = [("Volume/shop/data", "no trend known: no two runs have recorded how full it was", None)]
    assert told(await ahead(stage, manifest(5), 30)) == none
    for days in (6, 7, 8, 9):
        await stage.time.sleep(86_400)
        await stage.apply(manifest(days))
    (size_gb,) = (each["size_gb"] for each in stage.volumes())
    assert told(await ahead(stage, manifest(9), 2)) == []
    found = [each for each in told(await ahead(stage, manifest(9), 30)) if "expire" not in each[1]]
    ((_, what, when),) = found
    assert what == "its size reaches 20 GB, the upper end of its range (1.0 GB more a day)"
    assert when is not None
    assert abs(when - stage.time.now() - timedelta(days=20 - size_gb)) < timedelta(minutes=10)


async def test_an_approval_that_will_have_expired_is_told_with_its_end(stage: Stage) -> None:
    """The rule that lasts shortest ends it. What was applied meanwhile needs none any more."""
    rest = "lifecycle: {deletion: delete}\n"
    await stage.apply(volume("one", rest=rest) + "---\n" + volume("two", rest=rest))
    day, hour = (
        Rule.model_validate({"when": {"action": "delete"}, "valid": valid}) for valid in ("24h", "1h")
    )
    ruled = replace(stage.project(), authority=Authority(Said((day,))))
    at, desired = stage.time.now() + timedelta(hours=24), Desired(loaded(stage, ""))

    async def approvals(project: Project, moment: datetime, **options: bool) -> list[Item]:
        _, _, found = await look_ahead(project, desired, at=moment, **options)
        assert found is not None
        return [each for each in found.items if "approval" in each.what]

    (item,) = await approvals(ruled, at)
    what = "an approval given now has expired (valid 24h); one is needed for this change"
    assert (str(item.address), item.when) == ("Volume/shop/one", at)
    assert item.what == f"{what}, and for 1 other resource"
    assert await approvals(ruled, at - timedelta(seconds=1)) == []
    assert await approvals(ruled, at, after_apply=True) == []
    assert await approvals(stage.project(), at) == []
    both = replace(ruled, authority=Authority(Said((day, hour))))
    (item,) = await approvals(both, at)
    assert (item.when, "(valid 1h)" in item.what) == (at - timedelta(hours=23), True)


async def test_a_plan_that_the_twin_refuses_has_no_forecast_after_it(stage: Stage) -> None:
    await stage.apply(volume())
    manifests = volume(spec="region: ams, size_gb: 20")
    stale, desired = await plan(stage, manifests), Desired(loaded(stage, manifests))
    (held,) = stage.volumes()
    stage.call("PUT", f"/v1/apps/shop/volumes/{held['id']}/extend", {"size_gb": 15})
    seen: dict[Read, Observation] = {}
    await make_plan(stage.project(), desired, on_answer=seen.__setitem__)
    at = stage.time.now() + timedelta(days=1)
    with pytest.raises(
        ReconcilerError, match="no forecast after the apply: on the twin, the plan is refused"
    ):
        await forecast(stage.project(), desired, stale, seen, at, after_apply=True)
    assert (await forecast(stage.project(), desired, stale, seen, at)).items == ()


async def test_a_plan_with_errors_has_no_forecast(stage: Stage) -> None:
    await stage.apply(volume(spec="region: ams, size_gb: 20"))
    desired = Desired(loaded(stage, volume()))
    _, _, found = await look_ahead(stage.project(), desired, at=stage.time.now() + timedelta(days=1))
    assert found is None


async def test_snapshots_that_cannot_be_read_are_told(stage: Stage) -> None:
    await stage.apply(volume())
    (only,) = stage.volumes()
    path = f"/v1/apps/shop/volumes/{only['id']}/snapshots"
    stage.fault(method="GET", path=path, action="status", status=403, times=None)
    ((_, what, when),) = told(await ahead(stage, volume(), 30))
    assert what.startswith("its snapshots cannot be read: ")
    assert when is None


def test_items_without_a_time_come_last() -> None:
    from reconciler.rehearsal.results import by_time
    from tests.reports.reports import ADDRESS

    items = [Item(ADDRESS, "b", None), Item(ADDRESS, "a", START + timedelta(1)), Item(ADDRESS, "c", START)]
    assert [each.what for each in sorted(items, key=by_time)] == ["c", "a", "b"]
