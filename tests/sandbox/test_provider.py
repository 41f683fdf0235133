"""Providers, users and resources: how they are registered, and how they are shown."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.errors import StoreError
from reconciler.sandbox.parts.provider import Provider
from tests.sandbox.platform import Platform
from tests.sandbox.test_page import shown

MANUAL = Path(__file__).parents[2] / "docs" / "sandbox.md"
STORE = {
    "name": "store",
    "organization": "acme",
    "base_url": "https://store.example/api/",
    "signing_secret": "secret of calls",
    "webhook_secret": "secret of webhooks",
    "encoding": "base64",
    "client_id": "client",
    "client_secret": "secret of the client",
    "redirect_uri": "https://store.example/back",
    "events": True,
    "costs_path": "/costs",
}
SHOWN = {
    "name": "store",
    "organization": "acme",
    "base_url": "https://store.example/api",
    "encoding": "base64",
    "webhook_encoding": "base64",
    "client_id": "client",
    "redirect_uri": "https://store.example/back",
    "events": True,
    "costs_path": "/costs",
}
ANN = {"id": "ann", "name": "Ann", "organizations": [{"id": "acme", "role": "admin"}, {"id": "more"}]}


def test_a_provider_is_shown_without_its_secrets(platform: Platform) -> None:
    assert platform.ok("POST", "/_sandbox/providers", STORE) == SHOWN
    assert platform.world()["providers"] == [SHOWN]
    assert "secret of" not in json.dumps(platform.world()) + platform.call("GET", "/").body.decode()
    assert "secret of" not in repr(platform.sandbox.world.find(Provider, "store"))


def test_what_is_given_again_changes_and_the_rest_stays(platform: Platform) -> None:
    platform.ok("POST", "/_sandbox/providers", STORE)
    change = {"name": "store", "events": False, "webhook_encoding": "hex"}
    assert platform.ok("POST", "/_sandbox/providers", change) == SHOWN | change
    platform.ok("POST", "/_sandbox/users", ANN)
    changed = platform.ok("POST", "/_sandbox/users", {"id": "ann", "email": "ann@alias.example"})
    assert changed == {
        "id": "ann",
        "name": "Ann",
        "email": "ann@alias.example",
        "organizations": [{"id": "acme", "role": "admin"}, {"id": "more", "role": "member"}],
    }
    platform.ok("POST", "/_sandbox/resources", {"provider": "store", "id": "db-1", "plan": "small"})
    kept = platform.ok("POST", "/_sandbox/resources", {"provider": "store", "id": "db-1", "status": "ready"})
    assert (kept["plan"], kept["status"]) == ("small", "ready")


def test_the_organizations_that_are_named_exist(platform: Platform) -> None:
    platform.ok("POST", "/_sandbox/providers", STORE)
    platform.ok("POST", "/_sandbox/users", ANN)
    for slug in ("acme", "more"):
        assert platform.cluster(org_slug=slug)["organization"]["slug"] == slug


@pytest.mark.parametrize(
    ("verb", "body", "names"),
    [
        ("providers", {}, "name is required"),
        ("providers", {"name": "a/b"}, "name must be"),
        ("providers", {"name": "store", "secret": "x"}, "secret is unknown; known are name, client_id"),
        ("providers", {"name": "store", "encoding": "rot13"}, "encoding must be"),
        ("providers", {"name": "store", "base_url": "http://store.example"}, "base_url cannot be used"),
        ("providers", {"name": "store", "base_url": "store"}, "base_url cannot be used"),
        ("providers", {"name": "store", "redirect_uri": "/back"}, "redirect_uri must be"),
        ("providers", {"name": "store", "redirect_uri": "https://[::1/back"}, "redirect_uri must be"),
        ("providers", {"name": "store", "redirect_uri": "https://a.example/#x"}, "redirect_uri must be"),
        ("providers", {"name": "store", "redirect_uri": "https://a.example/\r\nx: y"}, "redirect_uri must"),
        ("providers", {"name": "store", "redirect_uri": "javascript:alert(1)"}, "redirect_uri must be"),
        ("providers", {"name": "store", "costs_path": "costs"}, "costs_path must"),
        ("providers", {"name": "store", "events": "yes"}, "events must be"),
        ("providers", {"name": "store", "webhook_secret": []}, "webhook_secret must be"),
        ("providers", {"name": "store", "webhook_secret": ["a", "b", "c"]}, "webhook_secret must be"),
        ("providers", {"name": "store", "webhook_secret": [""]}, "webhook_secret must be"),
        ("providers", {"name": "store", "client_id": "taken"}, "client_id belongs to another"),
        ("users", {}, "id is required"),
        ("users", {"id": "ann", "role": "admin"}, "role is unknown"),
        ("users", {"id": "ann", "organizations": {"acme": "admin"}}, "organizations must be"),
        ("users", {"id": "ann", "organizations": [{"id": "acme", "role": "owner"}]}, "role must be"),
        ("resources", {"provider": "nobody", "id": "db-1"}, "provider is not registered"),
        ("resources", {"provider": "taken", "id": " "}, "id must not be blank"),
        ("resources", {"provider": "taken", "id": "db-1", "state": "ready"}, "state is unknown"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    platform: Platform, verb: str, body: dict[str, Any], names: str
) -> None:
    platform.ok("POST", "/_sandbox/providers", {"name": "taken"})
    before = platform.world()
    refused = platform.call("POST", f"/_sandbox/{verb}", body)
    assert refused.status == 422
    assert names in refused.json()["error"]
    assert platform.world() == before


def test_a_seed_that_cannot_be_is_refused() -> None:
    with pytest.raises(StoreError, match="provider is not registered"):
        Platform(seed={"resources": [{"provider": "store", "id": "db-1"}]})


def test_the_page_shows_them(platform: Platform) -> None:
    platform.ok("POST", "/_sandbox/providers", STORE | {"base_url": "http://127.0.0.1:1"})
    platform.ok("POST", "/_sandbox/users", ANN)
    platform.ok("POST", "/_sandbox/resources", {"provider": "store", "id": "db-1", "status": "ready"})
    platform.app("shop", org_slug="acme")
    platform.machine()
    platform.by_hand("stop")
    rows = shown(platform).rows
    assert rows["providers"][1:] == [
        ["store", "acme", "http://127.0.0.1:1", "https://store.example/back", "yes"]
    ]
    assert rows["users"][1:] == [["ann", "Ann", "ann@users.sandbox.invalid", "admin of acme, member of more"]]
    assert rows["resources"][1:] == [["store", "db-1", "ready", "", ""]]
    assert rows["deliveries"][1][2:6] == ["io.sandbox.machine.stopping", "m1", "waiting", "0"]


def test_the_manuals_registrations_are_taken(platform: Platform) -> None:
    found = re.findall(
        r"/_sandbox/(providers|users) --json '(.*?)'\n", MANUAL.read_text(encoding="utf-8"), re.DOTALL
    )
    assert [verb for verb, _ in found] == ["providers", "users"]
    for verb, body in found:
        platform.ok("POST", f"/_sandbox/{verb}", json.loads(body))
