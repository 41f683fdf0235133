"""Machine events: owed with the change itself, signed, sent apart from the requests, and never lost."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary_event

from reconciler.core.errors import Lost, NotSent
from reconciler.sandbox.parts import delivery
from reconciler.sandbox.plugin import RunningSandbox
from reconciler.services import signing
from tests.sandbox.courier import Played, Sent
from tests.sandbox.platform import Platform
from tests.sandbox.receiver import Received, receiving
from tests.sandbox.test_http import served

SECRET = b"of events"
STORE: dict[str, Any] = {
    "name": "store",
    "organization": "acme",
    "base_url": "http://127.0.0.1:1/store/",
    "signing_secret": SECRET.decode(),
    "events": True,
}
SEED = {
    "apps": [{"name": "shop", "org_slug": "acme"}, {"name": "site", "org_slug": "other"}],
    "machines": [{"id": "m1", "app": "shop"}, {"id": "m2", "app": "site"}],
    "providers": [STORE],
}
SUSPEND = "/v1/apps/shop/machines/m1/suspend"


@pytest.fixture
def played() -> Iterator[Played]:
    with Platform(seed=SEED, apps=()) as platform:
        yield Played(platform)


def words(sent: list[Sent]) -> list[str]:
    return [message.headers["ce-type"].removeprefix("io.sandbox.machine.") for message in sent]


def test_an_event_is_a_signed_cloud_event_in_binary_mode(played: Played) -> None:
    played.platform.advance(60)
    played.platform.ok("POST", SUSPEND)
    (sent,) = played.send()
    assert (sent.method, sent.url) == ("POST", "http://127.0.0.1:1/store/extensions/events")
    assert {name.lower() for name in sent.headers} == {
        *("ce-id", "ce-source", "ce-type", "ce-specversion", "ce-time"),
        *("content-type", "x-signature"),
    }
    assert sent.headers[signing.HEADER] == signing.signature(SECRET, sent.body)
    assert signing.verify_event([sent.headers[signing.HEADER]], sent.body, [SECRET]) == {
        "machine_id": "m1",
        "status": "suspending",
        "data": {"Transition": "started to suspending"},
    }
    event = from_binary_event(HTTPMessage(dict(sent.headers), sent.body))
    assert event.get_type() == "io.sandbox.machine.suspending"
    assert event.get_source() == "/v1/apps/shop/machines/m1"
    assert str(event.get_time()) == "2026-03-01 12:01:00+00:00"
    assert event.get_id() == played.deliveries()[0]["id"]


def test_an_event_is_owed_when_the_clock_passes_it(played: Played) -> None:
    played.platform.ok("POST", SUSPEND)
    assert words(played.send()) == ["suspending"]
    assert played.send() == []
    played.platform.advance(9)
    assert played.send() == []
    played.platform.advance(1)
    assert words(played.send()) == ["suspended"]
    played.platform.ok("POST", "/v1/apps/shop/machines/m1/start")
    played.platform.advance(3600)
    assert words(played.send()) == ["starting", "started"]
    times = [item["at"] for item in played.deliveries()]
    assert times[-1] == "2026-03-01T12:00:12.000Z"


def test_a_crash_is_an_event_with_an_error(played: Played) -> None:
    played.platform.machine(state="failed")
    (sent,) = played.send()
    assert json.loads(sent.body)["data"] == {"Transition": "started to failed", "Error": "machine failed"}


def test_the_word_for_a_running_machine_is_the_platforms(played: Played) -> None:
    played.platform.switch(started_word="running")
    played.platform.by_hand("restart")
    played.platform.advance(60)
    assert words(played.send()) == ["restarting", "starting", "running"]


def test_only_machines_of_the_providers_own_organization_are_told_of(played: Played) -> None:
    for name, events in (("other", True), ("quiet", False)):
        changes = {"name": name, "organization": "other", "events": events}
        played.platform.ok("POST", "/_sandbox/providers", {**STORE, **changes})
    played.platform.ok("POST", "/v1/apps/site/machines/m2/suspend")
    assert [item["provider"] for item in played.deliveries()] == ["other"]


def test_what_changes_no_state_is_no_event(played: Played) -> None:
    played.platform.ok("POST", "/_sandbox/machines", {"app": "shop", "id": "m3"})
    for same in ({"memory_mb": 512}, {"state": "started"}):
        played.platform.machine(**same)
    played.platform.ok("POST", "/v1/apps/shop/machines/m1/start")
    assert played.deliveries() == []


def test_what_was_not_taken_is_sent_again_under_the_same_id_and_then_given_up(played: Played) -> None:
    played.answers = [503, NotSent("nobody there"), Lost("cut off"), 401, 500]
    played.platform.ok("POST", SUSPEND)
    tried_at = []
    for second in range(60):
        played.now_s = second
        tried_at += [second] * len(played.send())
    assert tried_at == [0, 1, 3, 7, 15]
    assert len({message.headers["ce-id"] for message in played.sent}) == 1
    (given_up,) = played.deliveries()
    assert (given_up["state"], given_up["attempts"], given_up["status"]) == ("failed", 5, 500)


def test_a_failing_event_holds_up_no_other(played: Played) -> None:
    played.answers = [500, 202]
    played.platform.ok("POST", SUSPEND)
    played.platform.advance(10)
    assert words(played.send()) == ["suspending", "suspended"]
    assert [item["state"] for item in played.deliveries()] == ["waiting", "delivered"]
    played.now_s += 1
    assert words(played.send()) == ["suspending"]
    assert [found["state"] for found in played.deliveries()] == ["delivered", "delivered"]


def test_a_provider_that_cannot_be_reached_is_named_as_the_problem(played: Played) -> None:
    played.platform.ok("POST", "/_sandbox/providers", {"name": "store", "signing_secret": ""})
    played.platform.ok("POST", SUSPEND)
    assert played.send() == []
    (stored,) = played.deliveries()
    assert (stored["state"], stored["problem"]) == (
        "waiting",
        "the provider has no base_url or no signing_secret",
    )


def test_base64_is_used_where_the_provider_wants_it(played: Played) -> None:
    played.platform.ok("POST", "/_sandbox/providers", {"name": "store", "encoding": "base64"})
    played.platform.ok("POST", SUSPEND)
    (sent,) = played.send()
    assert signing.verify_event([sent.headers[signing.HEADER]], sent.body, [SECRET], encoding="base64")


def test_of_those_that_are_done_only_the_last_are_kept(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MOST_KEPT", 10)
    for state in ("failed", "started") * 8:
        played.platform.machine(state=state)
        played.send()
    ids = [message.headers["ce-id"] for message in played.sent]
    assert [item["id"] for item in played.deliveries()] == ids[-10:]


def test_what_is_waiting_is_never_forgotten(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MOST_KEPT", 1)
    for state in ("failed", "started", "failed"):
        played.platform.machine(state=state)
    assert words(played.send()) == ["failed", "started", "failed"]


def test_what_was_taken_is_stored_at_once(tmp_path: Path) -> None:
    with Platform(tmp_path / "world.db", seed=SEED, apps=()) as platform:
        platform.ok("POST", SUSPEND)
        Played(platform).send()
    again = Played(Platform(tmp_path / "world.db", apps=()))
    assert again.send() == []
    assert [item["state"] for item in again.deliveries()] == ["delivered"]
    again.platform.sandbox.close()


def test_a_killed_process_loses_no_event(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.statuses = [500] * 2
        seed = {**SEED, "providers": [{**STORE, "base_url": receiver.url}]}
        options: dict[str, Any] = {"db": str(tmp_path / "world.db"), "seed": seed, "apps": []}
        with served(**options) as (process, client):
            client.post(SUSPEND).raise_for_status()
            receiver.wait_for(1)
            client.post("/_sandbox/clock", json={"advance_s": 10}).raise_for_status()
            process.kill()
        with served(**options) as (_, client):
            wanted = {"io.sandbox.machine.suspending", "io.sandbox.machine.suspended"}
            taken: list[Received] = []
            for count in range(2, 10):
                taken = receiver.wait_for(count)
                if {found.headers["ce-type"] for found in taken[2:]} == wanted:
                    break
            assert {item.headers["ce-type"] for item in taken} == wanted
            by_type = {(message.headers["ce-type"], message.headers["ce-id"]) for message in taken}
            assert len(by_type) == 2
            _until_all_are(client, "delivered")


def _until_all_are(client: httpx.Client, state: str) -> None:
    """The answer of the receiver has to reach the sandbox before it counts there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if {item["state"] for item in client.get("/_sandbox/deliveries").json()} == {state}:
            return
    raise AssertionError(client.get("/_sandbox/deliveries").json())


def test_a_provider_that_does_not_answer_holds_up_no_request(reconcile_sandbox: RunningSandbox) -> None:
    with receiving() as receiver, receiver.came:  # whoever sends to it waits for as long as this is held
        reconcile_sandbox.app("shop")
        reconcile_sandbox.provider(**{**STORE, "base_url": receiver.url, "organization": "personal"})
        reconcile_sandbox.machine("shop", id="m1")
        reconcile_sandbox.ok("POST", SUSPEND)
        reconcile_sandbox.advance(10)
        machines = reconcile_sandbox.ok("GET", "/v1/apps/shop/machines")
        assert [machine["state"] for machine in machines] == ["suspended"]
        assert [item["state"] for item in reconcile_sandbox.deliveries()] == ["waiting", "waiting"]
