"""The whole sign-in between three processes: the sandbox, the provider, and a browser or its like.

The rules of sign-in are tested in kit/test_sign_in.py, and by the check in check/test_together.py.
"""

import shutil
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.providers.postgres import Postgres
from tests.providers.together import ORGANIZATION, Together, running_together

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
RESOURCE = "db-of-acme"
USERS = (
    {"id": "ann", "name": "Ann", "organizations": [{"id": ORGANIZATION, "role": "admin"}]},
    {"id": "mia", "name": "Mia", "organizations": [{"id": ORGANIZATION, "role": "member"}]},
    {"id": "bob", "name": "Bob", "organizations": [{"id": "other", "role": "admin"}]},
)

_hosts = count(1)


@pytest.fixture(scope="module")
def together(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    with running_together(postgres, tmp_path_factory.mktemp("together")) as together:
        for user in USERS:
            together.sandbox.call("POST", "/_sandbox/users", user)
        made = together.provider.platform.provision(RESOURCE, organization_id=ORGANIZATION)
        assert made.status == 201
        yield together
        together.sandbox.switch(sign_in="page", token_scope="list")


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """Keeps cookies, and follows no redirect by itself. With an own address: sign-ins are limited."""
    with httpx.Client(trust_env=False, headers={"X-Forwarded-For": f"192.0.2.{next(_hosts)}"}) as client:
        yield client


def begun(together: Together, client: httpx.Client) -> str:
    """The address at the platform that a visit of the resource leads to."""
    answer = client.get(f"{together.provider.url}/extensions/{RESOURCE}/sso")
    assert answer.status_code == 302
    location = answer.headers["location"]
    assert location.startswith(f"{together.sandbox.url}/oauth/authorize?")
    return str(location)


def consented(client: httpx.Client, authorize: str, **form: str) -> str:
    """Where the platform's page sends the browser back to."""
    assert client.get(authorize).status_code == 200
    answer = client.post(authorize, data=form)
    assert answer.status_code == 303
    return str(answer.headers["location"])


def come_back(client: httpx.Client, callback: str) -> httpx.Response:
    """The page at the end of the way back."""
    return client.get(callback, follow_redirects=True)


def test_who_signs_in_sees_the_resource_and_is_known_next_time(
    together: Together, client: httpx.Client
) -> None:
    authorize = begun(together, client)
    given = parse_qs(urlsplit(authorize).query)
    assert given["organization_id"] == [ORGANIZATION]
    assert given["code_challenge_method"] == ["S256"]
    page = come_back(client, consented(client, authorize, user="ann"))
    assert page.status_code == 200
    assert page.url.path == f"/resources/{RESOURCE}"
    assert "Signed in as Ann (ann@users.sandbox.invalid)" in page.text
    assert "<strong>admin</strong>" in page.text
    again = client.get(f"{together.provider.url}/extensions/{RESOURCE}/sso")
    assert again.headers["location"] == f"{together.provider.url}/resources/{RESOURCE}"


@pytest.mark.parametrize("scope", ["list", "string"])
def test_a_member_is_a_member_however_the_scope_is_told(
    together: Together, client: httpx.Client, scope: str
) -> None:
    together.sandbox.switch(token_scope=scope)
    page = come_back(client, consented(client, begun(together, client), user="mia"))
    assert page.status_code == 200
    assert "<strong>member</strong>" in page.text


def test_a_code_that_has_expired_at_the_platform_signs_nobody_in(
    together: Together, client: httpx.Client
) -> None:
    callback = consented(client, begun(together, client), user="ann")
    together.sandbox.advance(600)
    assert come_back(client, callback).status_code == 502
    assert begun(together, client)


def test_a_platform_that_fails_halfway_signs_nobody_in(together: Together, client: httpx.Client) -> None:
    for path in ("/oauth/token", "/oauth/token/info"):
        callback = consented(client, begun(together, client), user="ann")
        together.sandbox.fault("*", path, "drop_after")
        assert come_back(client, callback).status_code == 502
        assert together.sandbox.fault_taken()
    assert come_back(client, consented(client, begun(together, client), user="ann")).status_code == 200


@pytest.fixture(params=[True, False], ids=["", "without script"])
def page(request: pytest.FixtureRequest) -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            java_script_enabled=request.param, viewport={"width": 400, "height": 800}
        )
        yield context.new_page()
        browser.close()


def test_a_person_signs_in_with_a_real_browser(together: Together, page: Any) -> None:
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.goto(f"{together.provider.url}/extensions/{RESOURCE}/sso")
    assert page.url.startswith(f"{together.sandbox.url}/oauth/authorize?")
    page.get_by_role("heading", name="Sign in to databases").wait_for()
    names = [item.inner_text() for item in page.get_by_role("button").all()]
    assert [name.partition(" ")[0] for name in names] == ["Ann", "Mia", "Bob", "Do"]
    assert page.locator("body").evaluate("body => body.scrollWidth") <= 400
    page.get_by_role("button", name="Bob").click()
    page.get_by_role("heading", name="cannot open the resource").wait_for()
    page.goto(f"{together.provider.url}/extensions/{RESOURCE}/sso")
    page.get_by_role("button", name="Do not sign in").click()
    page.get_by_role("heading", name="did not sign you in").wait_for()
    page.goto(f"{together.provider.url}/extensions/{RESOURCE}/sso")
    page.get_by_role("button", name="Ann").click()
    page.wait_for_url(f"{together.provider.url}/resources/{RESOURCE}")
    page.get_by_text("Signed in as Ann").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="You are signed out").wait_for()
    page.goto(f"{together.provider.url}/extensions/{RESOURCE}/sso")
    assert page.url.startswith(f"{together.sandbox.url}/oauth/authorize?")
    assert [problem for problem in problems if "favicon" not in problem and "403" not in problem] == []
