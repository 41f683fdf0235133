"""Signing in through the platform's account, in a client that keeps cookies as a browser does."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs

from reconciler.providers.kit import SignInSettings
from reconciler.services.transport import Answer
from tests.providers.kit.stage import PUBLIC_URL, Counting, Stage, StageClock, staged
from tests.providers.serve import Reply

AUTH_URL = "https://auth.example.com"
CLIENT = SignInSettings(AUTH_URL, "client-1", "the client's secret")
CALLBACK = f"{PUBLIC_URL}/sign-in/callback"


@dataclass
class AuthServer:
    """The platform's side: checks what the document says a provider sends. `info`: of whoever signs in."""

    info: dict[str, Any] = field(
        default_factory=lambda: {
            "user_id": "user-1",
            "user_name": "Ada",
            "email": "alias-1@example.com",
            "organizations": [{"id": "org-1", "role": "admin"}],
            "scope": ["read"],
            "expires_in": 7200,
            "application": {"uid": "client-1"},
        }
    )
    codes: dict[str, str] = field(default_factory=dict)
    token_status: int = 200
    tokens: int = 0

    def authorize(self, url: str, *, any_organization: bool = False) -> str:
        """The callback's address with a code, for a person who agrees."""
        asked = {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{AUTH_URL}/oauth/authorize?")
        assert (asked["client_id"], asked["response_type"], asked["scope"]) == ("client-1", "code", "read")
        assert asked["redirect_uri"] == CALLBACK
        assert asked["organization_id"] == "org-1" or any_organization
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked["code_challenge"]
        return f"/sign-in/callback?code={code}&state={asked['state']}"

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        if url == f"{AUTH_URL}/oauth/token":
            assert method == "POST"
            assert "authorization" not in {name.lower() for name in headers}
            form = {name: value for name, (value,) in parse_qs((body or b"").decode()).items()}
            assert form["client_id"] == "client-1"
            assert form["client_secret"] == "the client's secret"
            assert (form["grant_type"], form["redirect_uri"]) == ("authorization_code", CALLBACK)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if self.token_status != 200 or self.codes.pop(form["code"], None) != challenge:
                return Answer(400, {}, b'{"error":"invalid_grant"}')
            self.tokens += 1
            return self._json(
                {"access_token": "the-access-token", "token_type": "Bearer", "expires_in": 7200}
            )
        assert (method, url) == ("GET", f"{AUTH_URL}/oauth/token/info")
        assert headers["authorization"] == "Bearer the-access-token"
        return self._json(self.info)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _json(self, value: Any) -> Answer:
        return Answer(200, {}, json.dumps(value).encode())


@dataclass
class Browser:
    """Keeps cookies, and sends them back."""

    stage: Stage
    cookies: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    async def open(self, address: str, method: str = "GET") -> Reply:
        headers = [("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))]
        reply = await self.stage.raw(method, address, headers if self.cookies else ())
        for line in filter(None, reply.headers.get("set-cookie", "").split("\n")):
            self.lines.append(line)
            for name, morsel in SimpleCookie(line).items():
                self.cookies.pop(name, None)
                if morsel.value and morsel["max-age"] != "0":
                    self.cookies[name] = morsel.value
        return reply

    async def sign_in(self, auth: AuthServer) -> Reply:
        started = await self.open("/extensions/a/sso")
        assert started.status == 302
        return await self.open(auth.authorize(started.headers["location"]))


@asynccontextmanager
async def visiting(
    store: Path, auth: AuthServer, functions: Counting | None = None
) -> AsyncIterator[Browser]:
    """A browser before a provider that has the resource `a`."""
    functions = functions or Counting()
    async with staged(store, functions, StageClock(), transport=auth, sign_in=CLIENT) as stage:
        await stage.provision("a")
        yield Browser(stage)


async def test_a_member_of_the_organization_gets_to_the_resource(store: Path) -> None:
    auth, functions = AuthServer(), Counting()
    async with visiting(store, auth, functions) as browser:
        arrived = await browser.sign_in(auth)
        assert (arrived.status, arrived.headers["location"]) == (302, f"{PUBLIC_URL}/resources/a")
        page = await browser.open("/resources/a")
        assert page.status == 200
        assert b"shop-a" in page.body
        assert b"<strong>admin</strong>" in page.body
        visitor = functions.visitors[-1]
        assert visitor is not None
        assert (visitor.role, visitor.organization_id) == ("admin", "org-1")
        again = await browser.open("/extensions/a/sso")  # signed in: no second way round
        assert again.headers["location"] == f"{PUBLIC_URL}/resources/a"
        for line in browser.lines:
            assert line.startswith("__Host-")
            assert "HttpOnly" in line
            assert "SameSite=lax" in line
            assert "Secure" in line
            assert "Path=/" in line
            assert "the-access-token" not in line


async def test_a_session_ends_with_the_token_and_with_signing_out(store: Path) -> None:
    auth = AuthServer()
    auth.info["expires_in"] = 60
    async with visiting(store, auth) as browser:
        await browser.sign_in(auth)
        browser.stage.clock.elapsed_s += 59
        assert (await browser.open("/resources/a")).status == 200
        browser.stage.clock.elapsed_s += 1
        assert (await browser.open("/resources/a")).status == 303
        await browser.sign_in(auth)
        cookies = dict(browser.cookies)
        assert (await browser.open("/sign-in/end", "POST")).status == 200
        browser.cookies = cookies
        assert (await browser.open("/resources/a")).status == 303


async def test_somebody_of_another_organization_is_refused_also_later(store: Path) -> None:
    auth = AuthServer()
    auth.info["organizations"] = [{"id": "org-2", "role": "admin"}]
    async with visiting(store, auth) as browser:
        refused = await browser.sign_in(auth)
        assert refused.status == 403
        assert b"an organization that the account is not in" in refused.body
        assert (await browser.open("/resources/a")).status == 303
        auth.info["organizations"] = [{"id": "org-1", "role": "member"}]
        assert (await browser.sign_in(auth)).status == 302
        # A session is for one organization: another one's resource asks the platform again.
        await browser.stage.provision("b", organization_id="org-3")
        assert (await browser.open("/resources/b")).headers["location"].endswith("/extensions/b/sso")
        assert (await browser.open("/extensions/b/sso")).headers["location"].startswith(AUTH_URL)


async def test_a_state_is_used_once_by_its_own_browser_and_in_time(store: Path) -> None:
    auth = AuthServer()
    async with visiting(store, auth) as browser:
        other = Browser(browser.stage)
        callback = auth.authorize((await browser.open("/extensions/a/sso")).headers["location"])
        assert (await other.open(callback)).status == 400
        cookies = dict(browser.cookies)
        assert (await browser.open(callback)).status == 302
        browser.cookies |= cookies
        assert (await browser.open(callback)).status == 400
        late = Browser(browser.stage)
        callback = auth.authorize((await late.open("/extensions/a/sso")).headers["location"])
        browser.stage.clock.elapsed_s += 601
        expired = await late.open(callback)
        assert expired.status == 400
        assert b"no longer valid" in expired.body
        assert auth.tokens == 1


async def test_a_session_that_was_planted_is_not_taken_over(store: Path) -> None:
    auth = AuthServer()
    async with visiting(store, auth) as browser:
        browser = Browser(browser.stage, {"__Host-session": "planted"})
        await browser.sign_in(auth)
        assert browser.cookies["__Host-session"] != "planted"


async def test_who_says_no_at_the_platform_sees_so(store: Path) -> None:
    auth = AuthServer()
    async with visiting(store, auth) as browser:
        callback = auth.authorize((await browser.open("/extensions/a/sso")).headers["location"])
        state = callback.partition("&state=")[2]
        denied = await browser.open(f"/sign-in/callback?error=access_denied&state={state}")
        assert denied.status == 403
        assert b"did not sign you in" in denied.body


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"scope": "read"}, 302),
        ({"scope": []}, 403),
        ({"user_id": None}, 403),
        ({"organizations": [{"id": "org-1", "role": "owner"}]}, 403),
        ({"organizations": "org-1"}, 502),
        ({"application": {"uid": "client-2"}}, 502),
        ({"expires_in": 0}, 502),
    ],
)
async def test_what_the_platform_says_of_the_person_is_believed_only_whole(
    store: Path, change: dict[str, Any], status: int
) -> None:
    auth = AuthServer()
    auth.info |= change
    async with visiting(store, auth) as browser:
        assert (await browser.sign_in(auth)).status == status
        assert ("__Host-session" in browser.cookies) == (status == 302)


async def test_tokens_and_codes_are_neither_logged_nor_stored(store: Path) -> None:
    secrets = ["the-access-token", "the client's secret", "code-0"]
    with capture_logs() as logs:
        auth = AuthServer()
        async with visiting(store, auth) as browser:
            await browser.sign_in(auth)
            auth.token_status = 400
            await Browser(browser.stage).sign_in(auth)
            secrets.append(browser.cookies["__Host-session"])
            secrets.extend(auth.codes)
        stored = b"".join(file.read_bytes() for file in store.parent.glob("provider.db*") if file.is_file())
        for secret in secrets:
            assert secret.encode() not in stored
    written = json.dumps(logs)
    assert "invalid_grant" in written
    assert not [secret for secret in secrets if secret in written]


async def test_without_a_sign_in_the_page_says_so(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        await stage.provision("a")
        assert (await stage.raw("GET", "/extensions/a/sso")).status == 501
        assert (await stage.raw("GET", "/extensions/none/sso")).status == 501


async def test_a_stranger_does_not_learn_which_resources_there_are(store: Path) -> None:
    auth = AuthServer()
    async with visiting(store, auth) as first:
        await first.stage.provision("b", organization_id="org-3")
        pages = []
        for id in ("b", "none"):
            browser = Browser(first.stage)
            begun = await browser.open(f"/extensions/{id}/sso")
            assert begun.headers["location"].startswith(AUTH_URL)
            assert "organization_id=" in begun.headers["location"]
            ended = await browser.open(auth.authorize(begun.headers["location"], any_organization=True))
            pages.append((ended.status, ended.body))
        assert pages[0] == pages[1]
        assert pages[0][0] == 403


async def test_sign_ins_of_one_address_are_limited(store: Path) -> None:
    async with staged(
        store, Counting(), StageClock(), transport=AuthServer(), sign_in=CLIENT, rate=200.0
    ) as stage:
        statuses = [(await stage.raw("GET", "/extensions/a/sso")).status for _ in range(20)]
        assert statuses == [302] * 10 + [429] * 10
        refused = await stage.raw("GET", "/extensions/a/sso")
        stage.clock.elapsed_s += int(refused.headers["retry-after"])
        assert (await stage.raw("GET", "/extensions/a/sso")).status == 302
