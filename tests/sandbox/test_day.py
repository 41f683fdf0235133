"""What a day brings: snapshots, growth by others, and what the clock passes. Source: platform API, 2.2."""

from tests.sandbox.platform import Platform

VOLUMES = "/v1/apps/shop/volumes"
DAY_S = 24 * 3600
TAKEN_S = 12


def snapshots(platform: Platform, volume_id: str) -> list[str]:
    return [snapshot["created_at"] for snapshot in platform.ok("GET", f"{VOLUMES}/{volume_id}/snapshots")]


def test_a_volume_gets_a_snapshot_a_day_until_the_first_expires(platform: Platform) -> None:
    id = platform.volume(snapshot_retention=3)["id"]
    platform.advance(DAY_S - 1)
    assert snapshots(platform, id) == []
    platform.advance(1 + TAKEN_S)
    assert snapshots(platform, id) == ["2026-03-02T12:00:12Z"]
    platform.advance(4 * DAY_S)
    assert snapshots(platform, id) == [f"2026-03-{day:02}T12:00:12Z" for day in (4, 5, 6)]


def test_a_long_jump_of_the_clock_leaves_what_the_days_would_have(platform: Platform) -> None:
    id = platform.volume(snapshot_retention=3)["id"]
    platform.advance(36_499 * DAY_S + TAKEN_S)
    assert len(snapshots(platform, id)) == 3
    assert platform.sandbox.world.revision < 50


def test_no_daily_snapshot_where_it_is_turned_off(platform: Platform) -> None:
    id = platform.volume(auto_backup_enabled=False)["id"]
    platform.advance(DAY_S + TAKEN_S)
    assert snapshots(platform, id) == []
    platform.ok("PUT", f"{VOLUMES}/{id}", {"auto_backup_enabled": True})
    platform.advance(DAY_S)
    assert snapshots(platform, id) == ["2026-03-03T12:00:12Z"]
    platform.switch(daily_snapshots="off")
    platform.advance(DAY_S)
    assert len(snapshots(platform, id)) == 1


def test_a_change_of_the_retention_affects_new_snapshots_only(platform: Platform) -> None:
    id = platform.volume(snapshot_retention=1)["id"]
    platform.advance(DAY_S + TAKEN_S)
    platform.ok("PUT", f"{VOLUMES}/{id}", {"snapshot_retention": 60})
    platform.advance(DAY_S)
    listed = platform.ok("GET", f"{VOLUMES}/{id}/snapshots")
    assert [shown["retention_days"] for shown in listed] == [60]


def test_a_daily_snapshot_and_one_on_demand_exclude_each_other(platform: Platform) -> None:
    id = platform.volume()["id"]
    platform.advance(DAY_S - 1)
    taken = platform.ok("POST", f"{VOLUMES}/{id}/snapshots")["Msg"]["backup"]["graph_id"]
    platform.advance(TAKEN_S)
    assert [snapshot["id"] for snapshot in platform.ok("GET", f"{VOLUMES}/{id}/snapshots")] == [taken]
    platform.advance(DAY_S - TAKEN_S + 2)
    assert platform.call("POST", f"{VOLUMES}/{id}/snapshots").status == 412


def test_a_deleted_volume_gets_no_snapshot_and_no_more_days(platform: Platform) -> None:
    id = platform.volume()["id"]
    platform.advance(3600)
    platform.ok("DELETE", f"{VOLUMES}/{id}")
    platform.advance(3 * DAY_S)
    assert platform.world()["snapshots"] == []
    assert platform.sandbox.world.next_due is None


def test_others_enlarge_a_volume_day_by_day(platform: Platform) -> None:
    platform.switch(auto_extend_gb=5)
    id, fixed = platform.volume(size_gb=10)["id"], platform.volume(size_gb=600)["id"]
    sizes = []
    for days in (1, 1, 365):
        platform.advance(days * DAY_S)
        sizes.append(platform.ok("GET", f"{VOLUMES}/{id}")["size_gb"])
    assert sizes == [15, 20, 500]
    assert platform.ok("GET", f"{VOLUMES}/{fixed}")["size_gb"] == 600


def test_only_the_last_days_can_be_restored_to_a_point_in_time(platform: Platform) -> None:
    id = platform.cluster()["id"]
    platform.advance(10 * DAY_S)
    restore = f"/v1/postgres/{id}/restore"
    assert platform.call("POST", restore, {"pitr_time": "2026-03-04T11:59:59Z"}).status == 422
    assert platform.call("POST", restore, {"pitr_time": "2026-03-04T12:00:00Z"}).status == 201
    platform.switch(pitr_window_days=30)
    assert platform.call("POST", restore, {"pitr_time": "2026-03-02T00:00:00Z"}).status == 201
