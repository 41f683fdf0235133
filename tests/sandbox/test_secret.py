"""Source: platform API, 2.5, 4.3; platform notes, "Secrets"."""

import hashlib
import json
import random
from pathlib import Path

import pytest

from reconciler.sandbox.parts.secret import holds
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


def test_neither_the_value_nor_its_bare_digest_reaches_the_disk_or_the_world(tmp_path: Path) -> None:
    with Platform(tmp_path / "world.db") as platform:
        platform.ok("POST", f"{SECRETS}/A", {"value": VALUE})
        platform.call("POST", "/v1/apps/nobody/secrets/A", {"value": VALUE})
        (shown,) = platform.world()["secrets"]
        assert shown["app"] == "shop"
        assert holds(shown["fingerprint"], VALUE)
        assert not holds(shown["fingerprint"], VALUE + "x")
        written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert shown["fingerprint"].encode() in written
        for known in (VALUE, hashlib.sha256(VALUE.encode()).hexdigest()):
            assert known.encode() not in written
            assert known not in json.dumps(platform.world())


def test_each_database_has_a_key_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    def kept(db: Path, seed: int) -> str:
        platform = Platform(db, rng=random.Random(seed))
        platform.ok("POST", f"{SECRETS}/A", {"value": VALUE})
        (shown,) = platform.world()["secrets"]
        platform.sandbox.close()
        return str(shown["fingerprint"])

    first = kept(tmp_path / "a.db", 1)
    assert kept(tmp_path / "a.db", 2) == first
    assert kept(tmp_path / "b.db", 2) != first
