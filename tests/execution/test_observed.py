"""What a run keeps of the answers that it relies on: enough to play it again, bounded, and no secret."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.model import Address, Observation
from reconciler.core.steps import Read
from reconciler.core.wire import Shape
from reconciler.execution import observed as observed_module
from reconciler.execution.observed import observed_data
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.machine import Machine
from reconciler.services.machines.wire.secret import Secret
from reconciler.services.machines.wire.volume import Volume
from tests.state.worlds import NOON, record

VOLUMES = Read("/v1/apps/shop/volumes", Shape(Volume, many=True))


def seen(*objects: Any, complete: bool = True) -> Observation:
    return Observation(objects, complete, NOON)


def volume(id: str = "vol_1", **fields: Any) -> Volume:
    return Volume.model_validate({"id": id, "name": "data", "size_gb": 10, **fields})


def test_an_answer_can_be_made_again_from_it() -> None:
    kept = observed_data({VOLUMES: seen(volume(zone=None), volume("vol_2"))})
    (read,) = kept["reads"]
    assert (read["path"], read["shape"], read["service"]) == ("/v1/apps/shop/volumes", "volumes", "platform")
    assert read["at"] == NOON.isoformat()
    again = [Volume.model_validate(kept["objects"][digest]) for digest in read["objects"]]
    assert again == [volume(zone=None), volume("vol_2")]
    assert "left_out" not in kept


def test_an_object_in_several_answers_is_kept_once() -> None:
    one = Read("/v1/apps/shop/volumes/vol_1", Shape(Volume))
    kept = observed_data({VOLUMES: seen(volume(), volume("vol_2")), one: seen(volume())})
    assert len(kept["objects"]) == 2
    assert kept["reads"][1]["objects"] == kept["reads"][0]["objects"][:1]


def test_an_incomplete_answer_is_told_from_a_complete_one() -> None:
    first, second = observed_data({VOLUMES: seen(complete=False), Read("/v1/x", Shape(Volume)): seen()})[
        "reads"
    ]
    assert first["complete"] is False
    assert "complete" not in second


def test_what_no_model_declares_is_not_kept() -> None:
    cluster = Cluster.model_validate(
        {
            "id": "abc",
            "connection_uri": "postgres://u:hunter2@db",
            "endpoints": {"primary": {"direct": {"host": "db", "port": 5432, "password": "hunter2"}}},
        }
    )
    loose = Cluster.model_construct(
        {"id", "endpoints"}, id="abd", endpoints={"url": "postgres://u:hunter2@db"}
    )
    machine = Machine.model_validate(
        {"id": "m1", "config": {"env": {"PASSWORD": "hunter2"}, "schedule": "daily"}}
    )
    reads = {Read(f"/v1/{each.id}", Shape(type(each))): seen(each) for each in (cluster, loose, machine)}
    kept = observed_data(reads)
    assert "hunter2" not in json.dumps(kept)
    objects = list(kept["objects"].values())
    assert objects[0]["endpoints"]["primary"]["direct"] == {"host": "db", "port": 5432}
    assert objects[1]["endpoints"] is None


def test_of_a_sensitive_answer_only_is_kept_that_it_was_read() -> None:
    read = Read("/v1/apps/shop/secrets", Shape(Secret, many=True), sensitive=True)
    kept = observed_data({read: seen(Secret(name="PASSWORD", digest="d1gest"))})
    assert (kept["reads"][0]["withheld"], kept["reads"][0]["objects"], kept["objects"]) == (1, [], {})


def test_it_is_bounded_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_module, "MOST_BYTES", 5_000)
    reads = {
        Read(f"/v1/apps/shop-{number}/volumes", Shape(Volume, many=True)): seen(
            *(volume(f"vol_{number}_{each}") for each in range(10))
        )
        for number in range(100)
    }
    kept = observed_data(reads)
    assert len(json.dumps(kept)) < 5_200
    assert kept["objects"]
    assert kept["left_out"] > 90
    long = observed_data({VOLUMES: seen(volume(name="x" * 9_999), volume())})
    assert (long["left_out"], len(long["objects"])) == (1, 1)


def test_the_records_that_a_run_begins_with_are_kept_without_fingerprints() -> None:
    known = replace(record(), applied={"name": "A", "fingerprint": "f1ngerprint"})
    kept = observed_data({}, [replace(known, serial=3)], [known.address])
    (fields,) = kept["records"].values()
    assert (fields["serial"], fields["applied"]) == (3, {"name": "A"})
    assert kept["about"] == [str(known.address)]
    assert "left_out" not in kept


def test_records_without_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_module, "MOST_BYTES", 400)
    first, second = record(), record(Address("Volume", "other", "shop"))
    kept = observed_data({}, [first, second])
    assert (list(kept["records"]), kept["left_out"]) == ([str(first.address)], 1)
