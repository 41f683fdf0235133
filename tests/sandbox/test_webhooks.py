"""Webhooks of providers: verified on raw bytes, taken in once, and within limits."""

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from reconciler.sandbox import server as http
from reconciler.sandbox.access import WEBHOOKS
from reconciler.sandbox.exchange import Request, Response
from reconciler.sandbox.plugin import RunningSandbox
from reconciler.services import signing
from tests.sandbox.platform import NOON, Platform

SECRET = b"of webhooks"
STORE = {"name": "store", "webhook_secret": SECRET.decode()}
INTAKE = "/webhooks/store"
RESOURCE = {
    "id": "db-1",
    "name": "orders",
    "plan": "small",
    "status": "ready",
    "organization_id": "acme",
    "user_id": "ann",
}


@pytest.fixture
def platform() -> Iterator[Platform]:
    with Platform(seed={"providers": [STORE]}) as platform:
        yield platform


def report(action: str, resource: Any = RESOURCE, at: float = NOON, **more: Any) -> bytes:
    return json.dumps({"timestamp": str(int(at)), "action": action, "resource": resource, **more}).encode()


def headers_for(body: bytes, secret: bytes = SECRET, encoding: signing.Encoding = "hex") -> dict[str, str]:
    return {
        "x-signature": signing.signature(secret, body, encoding),
        "content-type": "application/json",
    }


def sent(platform: Platform, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return platform.call("POST", INTAKE, body, dict(headers_for(body) if headers is None else headers))


def resources(platform: Platform) -> Sequence[dict[str, Any]]:
    return platform.world()["resources"]


def test_what_providers_tell_is_seen_in_the_world(platform: Platform) -> None:
    assert sent(platform, report("resource.created")).json() == {"ok": True}
    (made,) = resources(platform)
    assert made == {"provider": "store", **RESOURCE, "updated_at": "2026-03-01T12:00:00Z"}
    sent(platform, report("resource.updated", {"id": "db-1", "status": "sleeping"}))
    (slept,) = resources(platform)
    assert slept == made | {"status": "sleeping"}
    sent(platform, report("resource.deleted", {"id": "db-1"}))
    assert [resource["status"] for resource in resources(platform)] == ["deleted"]


def test_a_resource_made_elsewhere_is_known_from_its_first_report(platform: Platform) -> None:
    sent(platform, report("resource.updated", {"id": "db-9", "plan": "large"}))
    assert [(resource["id"], resource["plan"]) for resource in resources(platform)] == [("db-9", "large")]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (report("resource.created"), {}),
        (report("resource.created"), headers_for(report("resource.created"), b"wrong")),
        (report("resource.created"), headers_for(report("resource.created"), b"")),
        (report("resource.created"), headers_for(report("resource.created"), encoding="base64")),
        (report("resource.created", at=NOON - 301), None),
        (b"[]", None),
    ],
)
def test_every_refusal_looks_the_same_and_changes_nothing(
    platform: Platform, body: bytes, headers: dict[str, str] | None
) -> None:
    plain = platform.call("POST", "/webhooks/nobody", b"{}", {})
    refused = sent(platform, body, headers)
    assert (refused.status, refused.body) == (401, b'{"error":"unauthorized"}')
    assert (refused.status, refused.body) == (plain.status, plain.body)
    assert {*refused.headers} == {*plain.headers}
    assert resources(platform) == []
    assert [entry["effect"] for entry in platform.log()] == [False, False]


def test_two_signatures_are_none(platform: Platform) -> None:
    body = report("resource.created")
    good = headers_for(body)["x-signature"]
    assert sent(platform, body, {"x-signature": f"{good}, {good}"}).status == 401
    assert sent(platform, body, {"x-signature": good}).status == 200


def test_the_platforms_token_opens_nothing_here(platform: Platform) -> None:
    refused = platform.call("POST", INTAKE, report("resource.created"))
    assert refused.status == 401


def test_base64_and_two_secrets_while_they_change(platform: Platform) -> None:
    change = {"name": "store", "webhook_secret": ["new", SECRET.decode()], "webhook_encoding": "base64"}
    platform.ok("POST", "/_sandbox/providers", change)
    statuses = []
    for number, secret in enumerate((b"new", SECRET, b"older")):
        body = report("resource.updated", {"id": f"db-{number}"})
        statuses.append(sent(platform, body, headers_for(body, secret, "base64")).status)
    assert statuses == [200, 200, 401]


def test_the_same_body_counts_once_and_another_providers_counts_too(platform: Platform) -> None:
    platform.ok("POST", "/_sandbox/providers", {**STORE, "name": "other"})
    created, deleted = report("resource.created"), report("resource.deleted")
    assert [sent(platform, body).status for body in (created, deleted, created)] == [200, 200, 200]
    assert [resource["status"] for resource in resources(platform)] == ["deleted"]
    assert [entry["effect"] for entry in platform.log()] == [True, True, False]
    platform.call("POST", "/webhooks/other", created, headers_for(created))
    assert [item["provider"] for item in resources(platform)] == ["store", "other"]


def test_a_report_that_was_overtaken_changes_nothing(platform: Platform) -> None:
    sent(platform, report("resource.deleted", {"id": "db-1"}))
    assert sent(platform, report("resource.updated", at=NOON - 1)).status == 200
    assert [resource["status"] for resource in resources(platform)] == ["deleted"]


@pytest.mark.parametrize(
    ("action", "resource", "names"),
    [
        ("resource.paused", RESOURCE, "resource.created, resource.updated, resource.deleted"),
        ("", RESOURCE, "action"),
        (None, RESOURCE, "action"),
        (["resource.created"], RESOURCE, "action"),
        ("resource.created", None, "resource must be an object"),
        ("resource.created", [], "resource must be an object"),
        ("resource.created", {}, "id is required"),
        ("resource.created", {"id": 7}, "id must be text"),
        ("resource.created", {"id": "db 1"}, "id must be"),
        ("resource.created", {"id": "\ud800"}, "id must be"),
        ("resource.created", {"id": "db-1", "status": 1}, "status must be text"),
    ],
)
def test_what_no_webhook_says_is_refused_clearly_each_time(
    platform: Platform, action: Any, resource: Any, names: str
) -> None:
    body = report(action, resource)
    for _ in range(2):
        refused = sent(platform, body)
        assert refused.status == 422
        assert names in refused.json()["error"]
    assert resources(platform) == []


def test_the_tolerance_is_counted_by_the_real_clock_whatever_the_sandboxs_says(platform: Platform) -> None:
    platform.advance(30 * 24 * 3600)
    assert sent(platform, report("resource.created", at=NOON - 299)).status == 200
    assert sent(platform, report("resource.created", at=NOON + 30 * 24 * 3600)).status == 401


def test_bodies_are_forgotten_when_their_time_is_over() -> None:
    now = NOON
    with Platform(seed={"providers": [STORE]}) as platform:
        platform.sandbox.world.wall = lambda: now
        for number in range(3):
            now = NOON + number * (signing.KEEP_S + 1)
            sent(platform, report("resource.updated", {"id": f"db-{number}"}, at=now))
        assert [kind for kind, _ in _stored(platform)].count("webhook") == 1


def _stored(platform: Platform) -> Sequence[tuple[str, str]]:
    database = platform.sandbox.database
    assert database
    things: Sequence[tuple[str, str]] = database._connection.execute("SELECT kind, id FROM things").fetchall()
    return things


def test_more_than_a_mebibyte_is_not_looked_at(platform: Platform) -> None:
    empty = report("resource.created", note="")
    largest = report("resource.created", note="x" * (signing.MAX_SIGNED - len(empty)))
    assert [sent(platform, body).status for body in (largest, largest + b" ")] == [200, 413]


def test_a_body_that_did_not_come_in_time_is_refused(platform: Platform) -> None:
    body = report("resource.created")
    late = Request("POST", INTAKE, "", headers_for(body), body, late=True)
    assert platform.sandbox.handle(late).status == 408


def test_too_many_at_once_are_slowed_down_and_each_provider_for_itself(platform: Platform) -> None:
    platform.ok("POST", "/_sandbox/providers", {**STORE, "name": "other"})
    statuses = [sent(platform, b"{}").status for _ in range(int(WEBHOOKS.burst) + 1)]
    assert statuses == [401] * int(WEBHOOKS.burst) + [429]
    body = report("resource.created")
    slowed = sent(platform, body)
    assert (slowed.status, slowed.headers["retry-after"]) == (429, "1")
    assert platform.call("POST", "/webhooks/other", body, headers_for(body)).status == 200
    platform.sandbox.world.wall = lambda: NOON + 1
    assert sent(platform, body).status == 200


def test_webhooks_take_part_in_faults(platform: Platform) -> None:
    platform.fault(action="drop_after", path="/webhooks/*")
    body = report("resource.created")
    assert sent(platform, body).cut == "drop"
    assert sent(platform, body).status == 200
    assert [(entry["status"], entry["effect"]) for entry in platform.log()] == [(0, True), (200, False)]


def test_strict_mode_holds_webhooks_to_nothing_more() -> None:
    with Platform(seed={"providers": [STORE]}, strict=True) as platform:
        assert sent(platform, report("resource.created", note=None)).status == 200


def test_over_http_a_repeated_header_and_too_large_a_body_are_refused(
    reconcile_sandbox: RunningSandbox,
) -> None:
    reconcile_sandbox.provider(**STORE)
    body = report("resource.created", at=time.time())
    signature = headers_for(body)["x-signature"]
    with httpx.Client(base_url=reconcile_sandbox.url, trust_env=False) as client:
        twice = [("x-signature", signature), ("x-signature", signature)]
        assert client.post(INTAKE, content=body, headers=twice).status_code == 401
        large = client.post(INTAKE, content=iter([b" " * signing.MAX_SIGNED, b" "]))
        assert (large.status_code, large.headers["connection"]) == (413, "close")
        assert client.post(INTAKE, content=body, headers=headers_for(body)).status_code == 200


def test_over_http_a_slow_body_is_cut_off(
    reconcile_sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SLOWEST_BODY_S", 0.05)
    host, port = urlsplit(reconcile_sandbox.url).netloc.split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(f"POST {INTAKE} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 10\r\n\r\n{{".encode())
        answer = b"".join(iter(lambda: slow.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert [(entry["path"], entry["status"]) for entry in reconcile_sandbox.log()] == [(INTAKE, 408)]
