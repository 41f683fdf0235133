"""Tokens that may touch some organizations only. Source: platform API, 6."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox.platform import Platform


@pytest.fixture
def platform() -> Iterator[Platform]:
    apps = [{"name": "shop", "org_slug": "acme"}, {"name": "till", "org_slug": "other"}]
    with Platform(apps=apps, organization_tokens={"narrow": ["acme"]}) as platform:
        yield platform


def status(platform: Platform, method: str, target: str, body: Any = None, token: str = "narrow") -> int:
    return platform.call(method, target, body, {"authorization": f"Bearer {token}"}).status


CLUSTER = {"plan": "basic", "region": "ams"}


def test_a_token_touches_its_own_organizations_alone(platform: Platform) -> None:
    assert status(platform, "GET", "/v1/apps/shop/volumes") == 200
    assert status(platform, "GET", "/v1/apps/till/volumes") == 403
    assert status(platform, "POST", "/v1/apps/till/secrets/A", {"value": "x"}) == 403
    assert status(platform, "POST", "/v1/postgres", {**CLUSTER, "org_slug": "acme"}) == 201
    assert status(platform, "POST", "/v1/postgres", {**CLUSTER, "org_slug": "other"}) == 403
    assert status(platform, "GET", "/v1/postgres?org_slug=other") == 403
    assert status(platform, "GET", "/v1/apps/nobody/volumes") == 404
    assert status(platform, "GET", "/v1/apps/shop/volumes", token="wrong") == 401


def test_a_token_without_an_organization_in_the_question_sees_its_own(platform: Platform) -> None:
    mine = platform.cluster(org_slug="acme")["id"]
    others = platform.cluster(org_slug="other")["id"]
    headers = {"authorization": "Bearer narrow"}
    listed = platform.call("GET", "/v1/postgres", headers=headers).json()["data"]
    assert [shown["id"] for shown in listed] == [mine]
    assert status(platform, "GET", f"/v1/postgres/{others}") == 403
    assert status(platform, "POST", f"/v1/postgres/{others}/restore", {"backup_id": "x"}) == 403
    assert [app["name"] for app in platform.call("GET", "/v1/apps", headers=headers).json()["apps"]] == [
        "shop"
    ]


def test_the_first_token_touches_all_of_them(platform: Platform) -> None:
    assert status(platform, "GET", "/v1/apps/till/volumes", token="sandbox") == 200
