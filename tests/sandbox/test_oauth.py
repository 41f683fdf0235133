"""Sign-in as the platform plays it: the page, codes, tokens, and whom a token stands for."""

import base64
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest

from reconciler.sandbox.exchange import Response
from tests.sandbox.platform import NOON, Platform

CALLBACK = "https://store.example/sign-in/callback?from=platform"
VERIFIER = "correct-horse-battery-staple-correct-horse-battery"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
PROVIDER = {
    "name": "store",
    "client_id": "store-client",
    "client_secret": "a long secret",
    "redirect_uri": CALLBACK,
}
ANN = {"id": "ann", "name": "Ann", "organizations": [{"id": "acme", "role": "admin"}]}
BOB = {"id": "bob", "name": "<b>Bob</b>", "organizations": [{"id": "other"}]}
WISH = {
    "client_id": "store-client",
    "response_type": "code",
    "redirect_uri": CALLBACK,
    "scope": "read",
    "state": "a state & more",
    "organization_id": "acme",
}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def platform() -> Iterator[Platform]:
    with Platform(seed={"providers": [PROVIDER], "users": [ANN, BOB]}) as platform:
        yield platform


def wished(**changes: str | None) -> str:
    wish = {name: value for name, value in {**WISH, **changes}.items() if value is not None}
    return f"/oauth/authorize?{urlencode(wish)}"


def answered(platform: Platform, target: str, **form: str) -> Response:
    return platform.call("POST", target, urlencode(form).encode(), FORM)


def sent_back(response: Response, status: int) -> dict[str, str]:
    """The parameters that the browser takes back to the provider."""
    assert response.status == status
    location = response.headers["location"]
    assert location.startswith(f"{CALLBACK}&")
    return dict(parse_qsl(location.removeprefix(f"{CALLBACK}&"), strict_parsing=True))


def code_for(platform: Platform, user: str = "ann", **changes: str | None) -> str:
    return sent_back(answered(platform, wished(**changes), user=user), 303)["code"]


def exchanged(platform: Platform, code: str | None, **changes: str | None) -> Response:
    form = {
        "client_id": "store-client",
        "client_secret": "a long secret",
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        **changes,
    }
    given = {name: value for name, value in form.items() if value is not None}
    return answered(platform, "/oauth/token", **given)


def refreshed(platform: Platform, token: str, **changes: str) -> Response:
    return exchanged(
        platform, None, grant_type="refresh_token", refresh_token=token, redirect_uri=None, **changes
    )


def info_of(platform: Platform, token: str) -> Response:
    return platform.call("GET", "/oauth/token/info", headers={"authorization": f"Bearer {token}"})


def refusal(response: Response) -> tuple[int, str]:
    return response.status, response.json()["error"]


class Page(HTMLParser):
    def __init__(self, response: Response) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.choices: list[tuple[str | None, str | None]] = []
        self.form: dict[str, str | None] = {}
        self.feed(response.body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        if tag == "button":
            self.choices.append((given["name"], given["value"]))
        elif tag == "form":
            self.form = given


def test_a_person_picks_a_user_on_a_page_without_a_script(platform: Platform) -> None:
    shown = platform.call("GET", wished(organization_id="other"), headers={})
    assert (shown.status, shown.content_type) == (200, "text/html; charset=utf-8")
    page = Page(shown)
    assert page.choices == [("user", "bob"), ("user", "ann"), ("deny", "deny")]
    assert page.form == {"method": "post"}
    assert "script" not in page.tags
    assert b"&lt;b&gt;Bob" in shown.body
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in shown.headers["content-security-policy"]


def test_the_code_comes_back_with_the_state_as_it_was_sent(platform: Platform) -> None:
    back = sent_back(answered(platform, wished(), user="ann"), 303)
    assert set(back) == {"code", "state"}
    assert back["state"] == WISH["state"]
    assert "state" not in sent_back(answered(platform, wished(state=None), user="ann"), 303)


def test_who_says_no_is_sent_back_without_a_code(platform: Platform) -> None:
    for form in ({"deny": "deny"}, {"deny": "deny", "user": "ann"}, {"user": "nobody"}):
        back = sent_back(answered(platform, wished(), **form), 303)
        assert (back["error"], back["state"]) == ("access_denied", WISH["state"])


def test_who_chooses_nobody_sees_the_page_again(platform: Platform) -> None:
    again = answered(platform, wished())
    assert (again.status, again.content_type) == (200, "text/html; charset=utf-8")
    assert again.body == platform.call("GET", wished()).body


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": None},
        {"client_id": "other"},
        {"redirect_uri": None},
        {"redirect_uri": "https://store.example/sign-in/callback"},
        {"redirect_uri": CALLBACK + "&more"},
        {"redirect_uri": CALLBACK.upper()},
        {"redirect_uri": "https://evil.example/"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_is_sent_to_an_address_that_is_not_exactly_the_registered_one(
    platform: Platform, method: str, changes: dict[str, str | None]
) -> None:
    refused = platform.call(method, wished(**changes), b"user=ann", FORM)
    assert (refused.status, refused.content_type) == (400, "text/html; charset=utf-8")
    assert "location" not in refused.headers
    assert "form" not in Page(refused).tags


def test_a_second_redirect_uri_is_refused_without_a_redirect(platform: Platform) -> None:
    evil = urlencode({"redirect_uri": "https://evil.example/"})
    for target in (f"{wished()}&{evil}", wished().replace("?", f"?{evil}&")):
        refused = platform.call("GET", target)
        assert (refused.status, refused.headers.get("location")) == (400, None)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": None}, "invalid_scope"),
        ({"scope": "write"}, "invalid_scope"),
        ({"scope": "read write"}, "invalid_scope"),
        ({"code_challenge": CHALLENGE}, "invalid_request"),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge_method": "S256"}, "invalid_request"),
    ],
)
def test_other_errors_are_told_to_the_provider(
    platform: Platform, changes: dict[str, str | None], error: str
) -> None:
    back = sent_back(platform.call("GET", wished(**changes)), 302)
    assert (back["error"], back["state"]) == (error, WISH["state"])


def test_a_parameter_given_twice_is_an_error(platform: Platform) -> None:
    assert sent_back(platform.call("GET", f"{wished()}&scope=read"), 302)["error"] == "invalid_request"


@pytest.mark.parametrize(
    ("setting", "changes", "outcome"),
    [
        ("direct", {}, "page"),
        ("direct", {"login_hint": "bob"}, "code"),
        ("direct", {"login_hint": "ann@users.sandbox.invalid"}, "code"),
        ("direct", {"login_hint": "nobody"}, "page"),
        ("page", {"login_hint": "bob"}, "page"),
        ("denied", {}, "error"),
    ],
)
def test_a_switch_signs_in_at_once_the_one_user_who_can_be_meant(
    platform: Platform, setting: str, changes: dict[str, str | None], outcome: str
) -> None:
    platform.switch(sign_in=setting)
    answer = platform.call("GET", wished(**changes))
    assert ("page" if answer.status == 200 else min(set(sent_back(answer, 302)) - {"state"})) == outcome


def test_a_code_becomes_tokens_that_stand_for_the_user(platform: Platform) -> None:
    answer = exchanged(platform, code_for(platform))
    tokens = answer.json()
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert tokens == {
        "access_token": tokens["access_token"],
        "token_type": "Bearer",
        "expires_in": 7200,
        "refresh_token": tokens["refresh_token"],
        "scope": "read",
        "created_at": int(NOON),
    }
    platform.advance(200)
    assert info_of(platform, tokens["access_token"]).json() == {
        "resource_owner_id": "ann",
        "user_id": "ann",
        "user_name": "Ann",
        "email": "ann@users.sandbox.invalid",
        "organizations": [{"id": "acme", "role": "admin"}],
        "scope": ["read"],
        "expires_in": 7000,
        "application": {"uid": "store-client"},
        "created_at": int(NOON),
    }


def test_a_scope_may_be_a_text_and_a_role_is_the_present_one(platform: Platform) -> None:
    platform.switch(token_scope="string")
    token = exchanged(platform, code_for(platform)).json()["access_token"]
    assert info_of(platform, token).json()["scope"] == "read"
    platform.ok("POST", "/_sandbox/users", {"id": "ann", "organizations": [{"id": "acme", "role": "member"}]})
    assert info_of(platform, token).json()["organizations"] == [{"id": "acme", "role": "member"}]


def test_a_code_used_twice_is_refused_and_ends_what_it_gave(platform: Platform) -> None:
    code = code_for(platform)
    tokens = exchanged(platform, code).json()
    again = refreshed(platform, tokens["refresh_token"]).json()
    assert refusal(exchanged(platform, code)) == (400, "invalid_grant")
    assert info_of(platform, again["access_token"]).status == 401
    assert refusal(refreshed(platform, again["refresh_token"])) == (400, "invalid_grant")


def test_a_code_used_twice_ends_the_tokens_of_no_other_sign_in(platform: Platform) -> None:
    other = exchanged(platform, code_for(platform)).json()["access_token"]
    code = code_for(platform)
    exchanged(platform, code)
    exchanged(platform, code)
    assert info_of(platform, other).status == 200


def test_a_code_lasts_ten_minutes_of_the_sandboxs_clock(platform: Platform) -> None:
    code, late = code_for(platform), code_for(platform)
    platform.advance(599)
    assert exchanged(platform, code).status == 200
    platform.advance(1)
    assert refusal(exchanged(platform, late)) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_secret": None}, 401, "invalid_client"),
        ({"client_id": "other"}, 401, "invalid_client"),
        ({"client_id": None}, 401, "invalid_client"),
        ({"grant_type": None}, 400, "invalid_request"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"code": None}, 400, "invalid_request"),
        ({"code": "guessed"}, 400, "invalid_grant"),
        ({"redirect_uri": None}, 400, "invalid_grant"),
        ({"redirect_uri": "https://store.example/"}, 400, "invalid_grant"),
        ({"code_verifier": VERIFIER}, 400, "invalid_grant"),
    ],
)
def test_a_code_is_given_for_nothing_less_than_the_whole_proof(
    platform: Platform, changes: dict[str, str | None], status: int, error: str
) -> None:
    code = code_for(platform)
    assert refusal(exchanged(platform, **{"code": code, **changes})) == (status, error)
    assert exchanged(platform, code).status == 200


def test_a_client_without_a_secret_gets_no_tokens(platform: Platform) -> None:
    code = code_for(platform)
    platform.ok("POST", "/_sandbox/providers", {"name": "store", "client_secret": ""})
    for secret in ("", None, "a long secret"):
        assert refusal(exchanged(platform, code, client_secret=secret)) == (401, "invalid_client")


def test_a_code_of_one_client_is_none_of_another(platform: Platform) -> None:
    platform.ok("POST", "/_sandbox/providers", PROVIDER | {"name": "rival", "client_id": "rival"})
    code = code_for(platform)
    assert refusal(exchanged(platform, code, client_id="rival")) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("verifier", "status"), [(VERIFIER, 200), (None, 400), (VERIFIER[::-1], 400), (CHALLENGE, 400)]
)
def test_the_verifier_is_checked_where_a_challenge_was_given(
    platform: Platform, verifier: str | None, status: int
) -> None:
    code = code_for(platform, code_challenge=CHALLENGE, code_challenge_method="S256")
    assert exchanged(platform, code, code_verifier=verifier).status == status


def test_a_client_may_authenticate_by_http_basic(platform: Platform) -> None:
    grant = {"grant_type": "authorization_code", "redirect_uri": CALLBACK}
    basic = "Basic " + base64.b64encode(b"store-client:a+long%20secret").decode()
    statuses = []
    for authorization, more in (
        ("Basic !", {}),
        ("Basic " + base64.b64encode(b"store-client:wrong").decode(), {}),
        (basic, {"client_secret": "a long secret"}),
        (basic, {"client_id": "other"}),
        (basic, {"client_id": "store-client"}),
    ):
        form = urlencode({**grant, "code": code_for(platform), **more}).encode()
        answer = platform.call("POST", "/oauth/token", form, FORM | {"authorization": authorization})
        statuses.append(answer.status)
        assert answer.status != 401 or answer.headers["www-authenticate"].startswith("Basic")
    assert statuses == [401, 401, 400, 401, 200]


def test_the_token_endpoint_takes_forms_with_each_field_once(platform: Platform) -> None:
    as_json = platform.call("POST", "/oauth/token", {"grant_type": "refresh_token"}, {})
    twice = platform.call("POST", "/oauth/token", b"grant_type=a&grant_type=b", FORM)
    assert [refusal(item) for item in (as_json, twice)] == [(400, "invalid_request")] * 2


def test_a_refresh_token_is_used_once_and_replaces_the_tokens(platform: Platform) -> None:
    first = exchanged(platform, code_for(platform)).json()
    second = refreshed(platform, first["refresh_token"]).json()
    assert info_of(platform, first["access_token"]).status == 401
    assert info_of(platform, second["access_token"]).json()["user_id"] == "ann"
    assert refusal(refreshed(platform, second["refresh_token"], scope="write")) == (400, "invalid_scope")
    assert refusal(refreshed(platform, first["refresh_token"])) == (400, "invalid_grant")
    assert info_of(platform, second["access_token"]).status == 401


def test_an_access_token_lasts_two_hours_of_the_sandboxs_clock(platform: Platform) -> None:
    tokens = exchanged(platform, code_for(platform)).json()
    platform.advance(7199)
    assert info_of(platform, tokens["access_token"]).json()["expires_in"] == 1
    platform.advance(1)
    assert refusal(info_of(platform, tokens["access_token"])) == (401, "invalid_token")
    assert refreshed(platform, tokens["refresh_token"]).status == 200


def test_only_an_access_token_tells_who_somebody_is(platform: Platform) -> None:
    tokens = exchanged(platform, code_for(platform)).json()
    for wrong in (tokens["refresh_token"], code_for(platform), "sandbox", ""):
        answer = info_of(platform, wrong)
        assert refusal(answer) == (401, "invalid_token")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_no_secret_of_a_sign_in_is_shown_or_stored(tmp_path: Path) -> None:
    file = tmp_path / "world.db"
    with Platform(file, seed={"providers": [PROVIDER], "users": [ANN]}) as platform:
        code = code_for(platform)
        tokens = exchanged(platform, code).json()
        info_of(platform, tokens["access_token"])
        paths = [entry["path"] for entry in platform.log()]
        shown = json.dumps([platform.world(), platform.log(), platform.ok("GET", "/_sandbox/deliveries")])
        shown += platform.call("GET", "/").body.decode()
    with sqlite3.connect(file) as stored:
        kept = "\n".join(stored.iterdump())
    stored.close()
    assert paths == ["/oauth/authorize", "/oauth/token", "/oauth/token/info"]
    for secret in (code, tokens["access_token"], tokens["refresh_token"], "a long secret"):
        assert secret not in shown
        assert secret not in kept


def test_sign_in_takes_part_in_faults(platform: Platform) -> None:
    code = code_for(platform)
    platform.fault(action="drop_after", path="/oauth/token")
    assert exchanged(platform, code).cut == "drop"
    assert refusal(exchanged(platform, code)) == (400, "invalid_grant")
    platform.fault(action="status", status=503, path="/oauth/*")
    assert platform.call("GET", wished()).status == 503
