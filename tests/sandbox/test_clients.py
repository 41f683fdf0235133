"""What clients written by others send, and read of the answers. Source: their published code."""

import pytest

from tests.sandbox.platform import Platform

M1 = "/v1/apps/shop/machines/m1"
SECRETS = "/v1/apps/shop/secrets"


@pytest.fixture
def machine(platform: Platform) -> Platform:
    platform.machine()
    return platform


def test_the_second_scheme_of_tokens_is_taken_by_the_extended_profile_alone() -> None:
    for profile, status in (("extended", 200), ("documented", 401)):
        with Platform(profile=profile) as platform:
            headers = {"authorization": "FlyV1 sandbox"}
            assert platform.call("GET", "/v1/apps/shop/volumes", headers=headers).status == status


def test_an_answer_names_its_request_in_both_headers(platform: Platform) -> None:
    headers = platform.call("GET", "/v1/apps/shop/volumes").headers
    assert headers["fly-request-id"] == headers["x-request-id"] != ""


def test_an_app_is_shown_with_its_organization(machine: Platform) -> None:
    machine.ok("POST", "/_sandbox/apps", {"name": "till", "org_slug": "acme"})
    app = machine.ok("GET", "/v1/apps/shop")
    assert (app["name"], app["organization"]["slug"], app["machine_count"]) == ("shop", "personal", 1)
    assert [item["name"] for item in machine.ok("GET", "/v1/apps?org_slug=acme")["apps"]] == ["till"]
    assert machine.call("GET", "/v1/apps/nobody").status == 404


def test_several_secrets_are_set_and_unset_in_one_call(platform: Platform) -> None:
    platform.ok("POST", SECRETS, {"values": {"A": "1", "B": "2"}})
    answer = platform.ok("POST", SECRETS, {"values": {"A": None, "C": "3", "NEVER": None}})
    assert answer["version"] == 2
    assert [secret["name"] for secret in answer["secrets"]] == ["B", "C"]
    assert platform.ok("GET", f"{SECRETS}/C")["name"] == "C"
    assert platform.call("POST", SECRETS, {"values": {"D": "4", "E": 5}}).status == 422
    assert platform.call("GET", f"{SECRETS}/D").status == 404


@pytest.mark.parametrize(("ttl", "lasts_s"), [("7", 7), ("0", 0), ("x", 0), ("7" * 5000, 0)])
def test_a_lease_lasts_as_its_query_says(machine: Platform, ttl: str, lasts_s: int) -> None:
    """fly-go sends `ttl` only there."""
    taken = machine.call("POST", f"{M1}/lease?ttl={ttl}")
    assert taken.status == (201 if lasts_s else 422)
    machine.advance(6)
    assert machine.call("GET", f"{M1}/lease").status == (200 if lasts_s else 404)
    machine.advance(2)
    assert machine.call("GET", f"{M1}/lease").status == 404


def test_a_lease_keeps_others_from_changing_a_machine_until_it_ends(machine: Platform) -> None:
    lease = machine.ok("POST", f"{M1}/lease", {"ttl": 30})["data"]
    mine = {"authorization": "Bearer sandbox", "fly-machine-lease-nonce": lease["nonce"]}
    assert machine.ok("GET", f"{M1}/lease")["data"] == lease
    assert machine.call("POST", f"{M1}/suspend").status == 409
    assert machine.call("POST", f"{M1}/lease", {"ttl": 30}).status == 409
    assert machine.call("POST", f"{M1}/suspend", headers=mine).status == 200
    machine.advance(30)
    assert machine.call("GET", f"{M1}/lease").status == 404
    assert machine.call("POST", f"{M1}/start").status == 200
    machine.ok("POST", f"{M1}/lease", {"ttl": 30})
    assert machine.call("DELETE", f"{M1}/lease").status == 409


def test_a_gb_of_a_volume_is_a_gib(platform: Platform) -> None:
    volume = platform.ok("GET", f"/v1/apps/shop/volumes/{platform.volume(size_gb=3)['id']}")
    assert volume["blocks"] * volume["block_size"] == 3 * 1024**3


def test_machines_say_that_their_host_is_well(machine: Platform) -> None:
    assert machine.ok("GET", M1)["host_status"] == "ok"


@pytest.mark.parametrize(("profile", "word"), [("documented", "running"), ("extended", "started")])
def test_each_profile_has_its_word_for_a_machine_that_runs(profile: str, word: str) -> None:
    with Platform(profile=profile) as platform:
        platform.machine()
        assert platform.ok("GET", f"{M1}/wait?state=started")["state"] == word
        assert platform.ok("GET", "/_sandbox/switches")["started_word"]["default"] == word
