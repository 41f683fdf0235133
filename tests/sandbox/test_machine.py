"""Machines as they are registered, read, and hold volumes.

Source: platform API, 2.6 and 4.2 rule 2; platform notes, "Machines".
"""

from typing import Any

import pytest

from reconciler.core.wire import many, one
from reconciler.services.machines.wire.machine import Machine
from reconciler.services.outcome import read_shape
from tests.sandbox.platform import Platform

MACHINES = "/v1/apps/shop/machines"
VOLUMES = "/v1/apps/shop/volumes"


def pending(platform: Platform) -> list[str]:
    ids: list[str] = platform.only("machines")["pending_restart"]
    return ids


def extend(platform: Platform, volume_id: str, size_gb: int) -> bool:
    answer = platform.ok("PUT", f"{VOLUMES}/{volume_id}/extend", {"size_gb": size_gb})
    needs_restart: bool = answer["needs_restart"]
    return needs_restart


def reboot(platform: Platform) -> None:
    platform.ok("POST", f"{MACHINES}/m1/restart")
    platform.advance(5)


def test_a_machine_is_read_as_it_was_registered(platform: Platform) -> None:
    volume = platform.volume()["id"]
    platform.machine(
        name="web",
        cpus=2,
        cpu_kind="performance",
        memory_mb=4096,
        swap_size_mb=512,
        schedule="daily",
        updated_at="2023-05-01T10:00:00+02:00",
        volumes=[volume],
    )
    read = platform.ok("GET", f"{MACHINES}/m1")
    assert set(read) == set(Machine.model_fields)
    assert read == read | {
        "id": "m1",
        "name": "web",
        "state": "started",
        "region": "ams",
        "config": {
            "guest": {"cpus": 2, "cpu_kind": "performance", "memory_mb": 4096},
            "init": {"swap_size_mb": 512},
            "schedule": "daily",
            "mounts": [{"volume": volume, "path": "/data"}],
        },
        "created_at": "2026-03-01T12:00:00Z",
        "updated_at": "2023-05-01T08:00:00Z",
    }
    assert platform.ok("GET", MACHINES) == [read]


def test_what_was_not_set_stays_out_of_the_configuration(platform: Platform) -> None:
    assert platform.machine()["config"] == {
        "guest": {"cpus": 1, "cpu_kind": "shared", "memory_mb": 256},
        "init": {},
        "mounts": [],
    }


def test_registering_again_changes_only_what_is_given(platform: Platform) -> None:
    platform.machine(name="web", memory_mb=512, state="suspending")
    platform.advance(6)
    again = platform.machine(swap_size_mb=64)
    assert (again["name"], again["config"]["guest"]["memory_mb"]) == ("web", 512)
    assert again["updated_at"] == "2026-03-01T12:00:06Z"
    platform.advance(4)
    assert platform.ok("GET", f"{MACHINES}/m1")["state"] == "suspended"


def test_an_update_time_may_be_unknown(platform: Platform) -> None:
    assert platform.machine(updated_at="0001-01-01T00:00:00Z")["updated_at"] == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "body",
    [
        {"updated_at": "yesterday"},
        {"updated_at": "1969-01-01T00:00:00Z"},
        {"memory_mb": 0},
        {"schedule": 5},
        {"volumes": ["vol_none"]},
        {"volumes": "vol_1"},
        {"pending_restart": [1]},
        {"snapshot": "yes"},
    ],
)
def test_a_machine_that_cannot_be_is_refused(platform: Platform, body: dict[str, Any]) -> None:
    refused = platform.call("POST", "/_sandbox/machines", {"app": "shop", **body})
    assert refused.status == 422
    assert platform.world()["machines"] == []


def test_a_volume_has_one_machine_and_a_machine_one_app(platform: Platform) -> None:
    platform.app("office")
    volume = platform.volume()["id"]
    platform.machine(volumes=[volume])
    for other in ({"app": "shop", "id": "m2", "volumes": [volume]}, {"app": "office", "id": "m1"}):
        assert platform.call("POST", "/_sandbox/machines", other).status == 422
    assert platform.call("GET", "/v1/apps/office/machines/m1").status == 404
    assert platform.ok("GET", "/v1/apps/office/machines") == []


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (f"{MACHINES}/none", {"error": "machine not found", "status": "not_found"}),
        ("/v1/apps/nowhere/machines", {"error": "Could not find App"}),
        ("/v1/apps/nowhere/machines/m1", {"error": "Could not find App"}),
    ],
)
def test_a_missing_machine_and_a_missing_app_are_told_apart(
    platform: Platform, target: str, error: dict[str, str]
) -> None:
    platform.machine()
    missing = platform.call("GET", target)
    assert (missing.status, missing.json()) == (404, error)


def test_the_clients_shapes_read_what_is_answered(platform: Platform) -> None:
    platform.machine(schedule="daily")
    (single,) = read_shape(one(Machine), platform.call("GET", f"{MACHINES}/m1").body)
    (listed,) = read_shape(many(Machine), platform.call("GET", MACHINES).body)
    assert single == listed
    assert (single.id, single.state, single.present) == ("m1", "started", True)
    assert (single.config.guest.memory_mb, single.config.schedule, single.config.mounts) == (256, "daily", [])


def test_the_clients_shape_tolerates_what_is_missing_and_what_is_new() -> None:
    (machine,) = read_shape(one(Machine), b'{"id": "m1", "state": "hibernating", "config": {"guest": null}}')
    assert (machine.state, machine.present, machine.config.guest) == ("hibernating", True, None)
    (gone,) = read_shape(many(Machine), b'[{"id": "m1", "state": "destroyed", "incomplete": {}}]')
    assert not gone.present


def test_added_space_waits_for_a_restart_of_the_machine_that_holds_the_volume(platform: Platform) -> None:
    grown, same = platform.volume()["id"], platform.volume(name="logs")["id"]
    platform.machine(volumes=[grown, same])
    assert pending(platform) == []
    assert extend(platform, grown, 10)
    assert pending(platform) == [grown]
    reboot(platform)
    assert pending(platform) == []


def test_a_stop_alone_leaves_the_restart_pending_and_the_start_ends_it(platform: Platform) -> None:
    volume = platform.volume()["id"]
    platform.machine(volumes=[volume])
    extend(platform, volume, 10)
    platform.ok("POST", f"{MACHINES}/m1/stop")
    platform.advance(3)
    assert pending(platform) == [volume]
    platform.ok("POST", f"{MACHINES}/m1/start")
    assert pending(platform) == [volume]
    platform.advance(2)
    assert pending(platform) == []


def test_suspending_and_resuming_uses_no_added_space(platform: Platform) -> None:
    volume = platform.volume()["id"]
    platform.machine(volumes=[volume])
    extend(platform, volume, 10)
    for verb in ("suspend", "start"):
        platform.ok("POST", f"{MACHINES}/m1/{verb}")
        platform.advance(10)
    assert platform.ok("GET", f"{MACHINES}/m1")["state"] == "started"
    assert pending(platform) == [volume]


def test_a_volume_extended_before_it_is_mounted_is_used_whole(platform: Platform) -> None:
    volume = platform.volume()["id"]
    platform.machine()
    platform.switch(extend_needs_restart="always")
    assert extend(platform, volume, 10)
    platform.machine(volumes=[volume])
    assert pending(platform) == []
    extend(platform, volume, 20)
    assert pending(platform) == [volume]
    platform.machine(volumes=[volume])
    assert pending(platform) == [volume]
    platform.machine(volumes=[])
    platform.machine(volumes=[volume])
    assert pending(platform) == []


def test_a_volume_that_a_person_attached_is_used_whole_until_it_grows(platform: Platform) -> None:
    platform.machine()
    volume = platform.volume()["id"]
    platform.ok("PATCH", f"/_sandbox/world/volumes/{volume}", {"attached_machine_id": "m1"})
    assert pending(platform) == []
    extend(platform, volume, 10)
    assert pending(platform) == [volume]


def test_where_extends_need_no_restart_none_is_pending_then_or_later(platform: Platform) -> None:
    volume = platform.volume()["id"]
    platform.machine(volumes=[volume])
    platform.switch(extend_needs_restart="never")
    assert not extend(platform, volume, 10)
    assert pending(platform) == []
    platform.switch(extend_needs_restart="attached")
    assert pending(platform) == []
    assert extend(platform, volume, 20)
    assert pending(platform) == [volume]


@pytest.mark.parametrize(("snapshot", "has_snapshot"), [(None, True), (True, True), (False, False)])
def test_a_suspended_machine_is_registered_with_or_without_its_snapshot(
    platform: Platform, snapshot: bool | None, has_snapshot: bool
) -> None:
    assert platform.machine(state="suspended", snapshot=snapshot)["snapshot"] is has_snapshot
    assert platform.machine(state="started", snapshot=False)["snapshot"] is False
    platform.ok("POST", f"{MACHINES}/m1/suspend")
    platform.advance(10)
    assert platform.only("machines")["snapshot"]


def test_a_seed_may_hold_the_body_of_the_control_verb() -> None:
    machine = {"app": "shop", "id": "m1", "memory_mb": 4096, "schedule": "daily", "state": "stopped"}
    with Platform(seed={"machines": [machine]}, apps=()) as planted:
        read = planted.ok("GET", f"{MACHINES}/m1")
    assert (read["state"], read["config"]["guest"]["memory_mb"]) == ("stopped", 4096)
    assert read["config"]["schedule"] == "daily"
