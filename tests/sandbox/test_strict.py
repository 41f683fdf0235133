"""What `--strict` refuses and the platform may let pass. Source: docs/sandbox.md."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox.platform import BEARER, Platform

VOLUMES = "/v1/apps/shop/volumes"
JSON = {**BEARER, "content-type": "application/json"}


@pytest.fixture
def strict() -> Iterator[Platform]:
    with Platform(strict=True, machines=[{"app": "shop", "id": "m1"}]) as platform:
        yield platform


TEXT = {**BEARER, "content-type": "text/plain"}
WAIT = "/v1/apps/shop/machines/m1/wait"
CORES = {"name": "data", "compute": {"cores": 2}}
REFUSED: dict[str, tuple[str, str, Any, dict[str, str], int, str]] = {
    "an unknown field": ("POST", VOLUMES, {"name": "data", "labels": {}}, JSON, 422, "labels"),
    "a null": ("POST", VOLUMES, {"name": "data", "size_gb": None}, JSON, 422, "size_gb"),
    "an unknown nested field": ("POST", VOLUMES, CORES, JSON, 422, "cores"),
    "no content type": ("POST", VOLUMES, {"name": "data"}, BEARER, 415, "content type"),
    "another content type": ("POST", VOLUMES, {"name": "data"}, TEXT, 415, "content type"),
    "a repeated key": ("POST", VOLUMES, b'{"name": "a", "name": "b"}', JSON, 400, "repeated"),
    "a body where none is read": ("DELETE", f"{VOLUMES}/vol_1", {}, JSON, 400, "no body"),
    "a parameter twice": ("GET", f"{WAIT}?state=started&timeout=1&timeout=x", None, BEARER, 400, "timeout"),
    "an unknown query parameter": ("GET", f"{VOLUMES}?region=ams", None, BEARER, 400, "region"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_document_describes_is_refused(strict: Platform, case: str) -> None:
    method, target, body, headers, status, says = REFUSED[case]
    refused = strict.call(method, target, body, headers)
    assert (refused.status, says in refused.json()["error"]) == (status, True), refused.body
    assert strict.world()["volumes"] == []


def test_what_the_documents_describe_passes(strict: Platform) -> None:
    utf8 = {**BEARER, "content-type": "Application/JSON; charset=utf-8"}
    assert strict.call("POST", VOLUMES, {"name": "data", "compute": {"cpus": 2}}, utf8).status == 200
    assert strict.call("GET", "/v1/apps/shop/machines/m1/wait?state=started&timeout=5").status == 200
    assert strict.call("POST", "/v1/apps/shop/machines/m1/suspend").status == 200
    body = {"org_slug": "personal", "plan": "SCALE", "region": "ams"}
    assert strict.call("POST", "/v1/postgres", body, JSON).status == 201


def test_bad_json_is_named_as_ever(strict: Platform) -> None:
    refused = strict.call("POST", VOLUMES, b"{", JSON)
    assert (refused.status, refused.json()["error"]) == (400, "the request body is not valid JSON")


def test_control_verbs_are_not_held_to_it(strict: Platform) -> None:
    assert strict.call("POST", "/_sandbox/apps?x=1", {"name": "till", "note": None}).status == 200


def test_without_strict_all_of_it_passes(platform: Platform) -> None:
    for method, target, body, headers, *_ in REFUSED.values():
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        assert platform.call(method, target, raw, headers).status in (200, 201, 404)


def test_a_body_that_may_be_missing_needs_no_content_type(strict: Platform) -> None:
    id = strict.call("POST", VOLUMES, {"name": "data"}, JSON).json()["id"]
    assert strict.call("PUT", f"{VOLUMES}/{id}", headers=BEARER).status == 200
