"""Source: platform API, 2.5, 4.3; platform notes, "Secrets"."""

import hashlib
from pathlib import Path

import pytest

from reconciler.services.machines.wire.secret import SecretReply
from tests.sandbox.platform import Platform

SECRETS = "/v1/apps/shop/secrets"
VALUE = "correct horse battery"


def test_setting_a_secret_answers_both_versions_which_grow_per_app(platform: Platform) -> None:
    first = platform.call("POST", f"{SECRETS}/A", {"value": VALUE})
    second = platform.ok("POST", f"{SECRETS}/B", {"value": VALUE})
    assert (first.status, set(first.json())) == (201, set(SecretReply.model_fields))
    assert (first.json()["Version"], first.json()["version"], second["version"]) == (1, 1, 2)
    assert first.json()["value"] == VALUE


@pytest.mark.parametrize("body", [{}, {"value": None}, {"value": 7}])
def test_a_secret_needs_a_text_value(platform: Platform, body: dict[str, object]) -> None:
    response = platform.call("POST", f"{SECRETS}/A", body)
    assert response.status == 422
    assert set(response.json()) == {"details", "error", "status"}


def test_errors_of_secrets_have_their_own_shape(platform: Platform) -> None:
    missing = platform.call("POST", "/v1/apps/nobody/secrets/A", {"value": VALUE})
    assert (missing.status, missing.json()["error"]) == (404, "Could not find App")
    assert set(missing.json()) == {"details", "error", "status"}


@pytest.mark.parametrize(("shown", "expected"), [("value", VALUE), ("empty", ""), ("masked", "********")])
def test_the_reply_shows_the_value_as_switched(platform: Platform, shown: str, expected: str) -> None:
    platform.switch(secret_value=shown, secret_status=200)
    response = platform.call("POST", f"{SECRETS}/A", {"value": VALUE})
    assert (response.status, response.json()["value"]) == (200, expected)


@pytest.mark.parametrize(("setting", "digests"), [("same", 1), ("fresh", 2)])
def test_an_equal_value_keeps_its_digest_or_not(platform: Platform, setting: str, digests: int) -> None:
    platform.switch(secret_digest=setting)
    replies = [platform.ok("POST", f"{SECRETS}/A", {"value": VALUE}) for _ in range(2)]
    assert len({reply["digest"] for reply in replies}) == digests


def test_secrets_are_listed_without_values_and_deleted(platform: Platform) -> None:
    platform.ok("POST", f"{SECRETS}/A", {"value": VALUE})
    (listed,) = platform.ok("GET", SECRETS)["secrets"]
    assert set(listed) == {"name", "digest", "created_at", "updated_at"}
    assert platform.ok("DELETE", f"{SECRETS}/A") == {"Version": 2, "version": 2}
    assert platform.call("DELETE", f"{SECRETS}/A").status == 404
    assert platform.ok("GET", SECRETS) == {"secrets": []}


def test_no_value_reaches_the_disk_and_the_world_shows_its_hash(tmp_path: Path) -> None:
    platform = Platform(tmp_path / "world.db")
    platform.ok("POST", f"{SECRETS}/A", {"value": VALUE})
    platform.call("POST", "/v1/apps/nobody/secrets/A", {"value": VALUE})
    (shown,) = platform.world()["secrets"]
    assert (shown["app"], shown["sha256"]) == ("shop", hashlib.sha256(VALUE.encode()).hexdigest())
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert shown["sha256"].encode() in written
    assert VALUE.encode() not in written
    platform.sandbox.close()
