"""The daily question after costs: signed, once a day of the sandbox, and bounded on a fast clock."""

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.sandbox.parts.delivery import LEAST_S
from reconciler.sandbox.parts.volume import DAY_S
from reconciler.services import signing
from tests.sandbox.courier import Played, Sent
from tests.sandbox.platform import NOON, Platform
from tests.sandbox.test_events import SECRET
from tests.sandbox.test_webhooks import headers_for, report

STORE = {
    "name": "store",
    "base_url": "http://127.0.0.1:1/store",
    "signing_secret": SECRET.decode(),
    "webhook_secret": "of webhooks",
    "costs_path": "/costs/{id}",
}
RESOURCES = [{"provider": "store", "id": "db 1".replace(" ", "/")}, {"provider": "store", "id": "db-2"}]
SEED: dict[str, Any] = {"providers": [STORE], "resources": RESOURCES}


@pytest.fixture
def played() -> Iterator[Played]:
    with Platform(seed=SEED) as platform:
        yield Played(platform, body=b'{"total": "1.50"}')


def verified(sent: Sent) -> str:
    """The address without its signing parameters, if the signature is right now."""
    request = signing.Signed(sent.method, sent.url, [sent.headers[signing.HEADER]], sent.body)
    url = signing.verify(request, [SECRET], now=NOON, claim=lambda nonce: True)["url"]
    assert isinstance(url, str)
    return url


def test_each_resource_is_asked_for_once_a_day(played: Played) -> None:
    played.platform.advance(DAY_S - 1)
    assert played.send() == []
    for _ in range(2):
        played.platform.advance(DAY_S)
        assert [verified(item) for item in played.send()] == [
            "http://127.0.0.1:1/store/costs/db%2F1",
            "http://127.0.0.1:1/store/costs/db-2",
        ]
    assert len({found.url for found in played.sent}) == 4  # a nonce of its own each time
    assert {message.method for message in played.sent} == {"GET"}


def test_a_change_of_the_provider_does_not_put_the_day_off(played: Played) -> None:
    played.platform.advance(DAY_S / 2)
    played.platform.ok("POST", "/_sandbox/providers", {"name": "store", "events": True})
    played.platform.advance(DAY_S / 2)
    assert len(played.send()) == len(RESOURCES)


def test_the_answer_is_shown(played: Played) -> None:
    played.platform.advance(DAY_S)
    played.answers = [200, 404]
    played.send()
    first, second = played.deliveries()
    assert (first["purpose"], first["about"], first["state"]) == ("costs", "db/1", "delivered")
    assert first["answer"] == {"total": "1.50"}
    assert (second["state"], second["status"], second["attempts"]) == ("waiting", 404, 1)


def test_a_path_without_a_place_for_the_id_is_asked_once_for_all(played: Played) -> None:
    played.platform.ok("POST", "/_sandbox/providers", {"name": "store", "costs_path": "/costs"})
    played.platform.advance(DAY_S)
    assert [verified(item) for item in played.send()] == ["http://127.0.0.1:1/store/costs"]


def test_resources_are_known_from_webhooks_and_gone_when_they_are_deleted(played: Played) -> None:
    for body in (report("resource.created", {"id": "db-3"}), report("resource.deleted", {"id": "db-2"})):
        assert played.platform.call("POST", "/webhooks/store", body, headers_for(body)).status == 200
    played.platform.advance(DAY_S)
    assert [delivery["about"] for delivery in played.deliveries()] == ["db/1", "db-3"]


def test_a_provider_without_costs_or_resources_is_not_asked() -> None:
    free = {name: value for name, value in STORE.items() if name != "costs_path"}
    with Platform(seed={"providers": [free, STORE | {"name": "empty"}], "resources": RESOURCES}) as platform:
        platform.advance(DAY_S)
        assert platform.ok("GET", "/_sandbox/deliveries") == []


def test_a_long_jump_of_the_clock_asks_once_and_what_is_unanswered_is_not_asked_again(
    played: Played,
) -> None:
    played.platform.advance(1000 * DAY_S)
    played.platform.advance(DAY_S)
    assert len(played.deliveries()) == len(RESOURCES)
    played.send()
    played.platform.advance(DAY_S)
    assert len(played.send()) == len(RESOURCES)


def test_a_fast_clock_asks_no_more_often_than_every_ten_real_seconds() -> None:
    with Platform(seed=SEED, clock="x86400") as platform:
        played = Played(platform)
        wall = NOON
        platform.sandbox.world.wall = lambda: wall
        asked = []
        for _ in range(40):
            wall += 1
            platform.advance(DAY_S)
            asked += [wall] * len(played.send())
        assert sorted(set(asked)) == [NOON + 1 + number * LEAST_S for number in range(4)]
