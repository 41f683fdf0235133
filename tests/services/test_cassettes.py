"""What the client makes of answers recorded from the sandbox, replayed without a network."""

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.core.errors import AppMissing, NotFound, NotYet, Unauthorized
from reconciler.core.model import SENSITIVE
from reconciler.core.wire import parse_time
from reconciler.services.outcome import Refusal, Verdict
from reconciler.services.transport import HttpTransport
from tests.services.calls import CALLS, CASSETTES, TOKEN, VALUE, client
from tests.services.record import record_all
from tests.services.tape import BASE_URL, TAPE


async def replayed(name: str) -> Any:
    """The result of the call `name`, answered by its cassette, which must hold nothing else."""
    with TAPE.use_cassette(str(CASSETTES / f"{name}.yaml")) as cassette:
        async with aclosing(HttpTransport(BASE_URL)) as transport:
            try:
                return await CALLS[name](client(transport, BASE_URL))
            finally:
                assert cassette.all_played


async def test_creating_a_cluster_gives_its_id_while_it_is_provisioned() -> None:
    outcome = await replayed("cluster_create")
    assert (outcome.kind, outcome.status) == (Verdict.YES, 201)
    assert outcome.id == outcome.reply["data"]["id"]
    assert outcome.reply["data"]["status"] == "creating"
    assert outcome.reply["data"]["name"] == "billing"


async def test_a_cluster_is_read_with_its_endpoints() -> None:
    seen = await replayed("cluster_get")
    (cluster,) = seen.objects
    assert (cluster.id, cluster.name, cluster.status) == ("cluster1recorded", "orders", "ready")
    assert cluster.organization.slug == "acme"
    assert cluster.endpoints.primary.pooler.port == 5432


async def test_the_time_of_an_observation_is_the_recorded_platforms() -> None:
    assert (await replayed("cluster_get")).at == parse_time("2026-01-02T00:00:00Z")


async def test_restoring_gives_the_id_of_a_new_cluster() -> None:
    outcome = await replayed("cluster_restore")
    assert outcome.kind is Verdict.YES
    assert outcome.id not in (None, "cluster1recorded")


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("cluster_create_without_organization", 400, "org_slug is required"),
        ("cluster_create_with_a_number", 400, "must be a string"),
        ("cluster_create_failed", 400, "Failed to create cluster"),
        ("cluster_create_unauthorized", 401, "unauthorized"),
        ("cluster_create_in_unknown_organization", 404, "Organization not found"),
        ("cluster_create_invalid", 422, "plan must be one of"),
        ("cluster_restore_failed", 400, "Failed to restore cluster"),
        ("cluster_restore_unauthorized", 401, "unauthorized"),
        ("cluster_restore_missing", 404, "Cluster not found"),
        ("cluster_restore_without_backup", 404, "Backup not found"),
        ("cluster_restore_invalid", 422, "exactly one of backup_id and pitr_time"),
        ("cluster_restore_outside_window", 422, "outside the point-in-time recovery window"),
        ("machine_suspend_refused", 412, "above 2048 MB"),
    ],
)
async def test_what_is_refused_has_not_happened_and_says_why(name: str, status: int, words: str) -> None:
    outcome = await replayed(name)
    assert (outcome.kind, outcome.status, outcome.id) == (Verdict.NO, status, None)
    assert words in outcome.message


async def test_a_cluster_that_is_not_there_is_told_from_one_that_may_not_be_read() -> None:
    with pytest.raises(NotFound, match="Cluster not found"):
        await replayed("cluster_get_missing")
    with pytest.raises(Unauthorized) as caught:
        await replayed("cluster_get_unauthorized")
    assert caught.value.status == 401


async def test_a_suspend_is_accepted_and_then_waited_for() -> None:
    outcome = await replayed("machine_suspend")
    assert (outcome.kind, outcome.reply) == (Verdict.YES, {"ok": True})
    (waited,) = (await replayed("machine_wait")).objects
    assert (waited.reached, waited.state) == (True, "suspended")


async def test_a_wait_whose_time_passes_is_asked_again() -> None:
    with pytest.raises(NotYet, match="currently running"):
        await replayed("machine_wait_too_short")


async def test_starting_tells_what_the_machine_was() -> None:
    outcome = await replayed("machine_start")
    assert (outcome.kind, outcome.reply["previous_state"]) == (Verdict.YES, "suspended")


async def test_volumes_are_listed_with_what_they_are_attached_to() -> None:
    seen = await replayed("volume_list")
    assert seen.complete
    assert [(volume.id, volume.size_gb, volume.attached_machine_id) for volume in seen.objects] == [
        ("vol_recorded", 10, None),
        ("vol_attached", 3, "m1"),
    ]


async def test_listing_the_volumes_of_a_missing_app_is_no_empty_list() -> None:
    with pytest.raises(AppMissing, match="Could not find App") as caught:
        await replayed("volume_list_without_app")
    assert caught.value.request_id == "request-recorded"


async def test_creating_a_volume_gives_its_id() -> None:
    outcome = await replayed("volume_create")
    assert (outcome.kind, outcome.id) == (Verdict.YES, outcome.reply["id"])
    assert (outcome.reply["name"], outcome.reply["size_gb"]) == ("logs", 5)


async def test_a_volume_is_read_alone() -> None:
    (volume,) = (await replayed("volume_get")).objects
    assert (volume.id, volume.present, volume.fstype) == ("vol_recorded", True, "ext4")


async def test_updating_a_volume_answers_the_volume() -> None:
    outcome = await replayed("volume_update")
    assert (outcome.id, outcome.reply["snapshot_retention"]) == ("vol_recorded", 30)


async def test_extending_an_attached_volume_tells_of_the_restart() -> None:
    outcome = await replayed("volume_extend")
    assert (outcome.id, outcome.reply["needs_restart"]) == ("vol_attached", True)


async def test_deleting_a_volume_answers_it_as_destroyed() -> None:
    outcome = await replayed("volume_delete")
    assert (outcome.kind, outcome.reply["state"]) == (Verdict.YES, "destroyed")


async def test_deleting_an_attached_volume_is_refused() -> None:
    outcome = await replayed("volume_delete_refused")
    assert (outcome.kind, outcome.refusal) == (Verdict.NO, Refusal.VOLUME_BOUND)


async def test_snapshots_are_listed() -> None:
    (snapshot,) = (await replayed("snapshot_list")).objects
    assert (snapshot.id, snapshot.usable, snapshot.size) == ("vs_recorded", True, 4096)


async def test_requesting_a_snapshot_gives_the_id_that_will_be_listed() -> None:
    outcome = await replayed("snapshot_create")
    assert outcome.kind is Verdict.YES
    assert outcome.id.startswith("vs_")


async def test_setting_a_secret_answers_all_but_the_value() -> None:
    outcome = await replayed("secret_set")
    assert (outcome.kind, outcome.reply["name"], outcome.reply["version"]) == (Verdict.YES, "PG_PASSWORD", 1)
    assert "value" not in outcome.reply


@pytest.mark.slow
async def test_the_sandbox_answers_today_what_was_recorded(tmp_path: Path) -> None:
    await record_all(tmp_path)
    stale = [
        cassette.stem
        for cassette in sorted(CASSETTES.glob("*.yaml"))
        if (tmp_path / cassette.name).read_text() != cassette.read_text()
    ]
    assert stale == [], "record them anew: uv run python -m tests.services.record"


def test_there_is_one_cassette_for_each_call() -> None:
    assert {cassette.stem for cassette in CASSETTES.glob("*.yaml")} == set(CALLS)


@pytest.mark.parametrize("cassette", sorted(CASSETTES.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_cassette_holds_a_secret_or_what_varies(cassette: Path) -> None:
    text = cassette.read_text()
    assert TOKEN not in text
    assert VALUE not in text
    assert "authorization" not in text.lower()
    assert "127.0.0.1" not in text
    for interaction in yaml.safe_load(text)["interactions"]:
        for body in (interaction["request"]["body"], interaction["response"]["body"]["string"]):
            content = json.loads(body or "null")
            held = content.get("value", SENSITIVE) if isinstance(content, dict) else SENSITIVE
            assert held == SENSITIVE
