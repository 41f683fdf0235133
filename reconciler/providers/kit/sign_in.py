"""Signing in with the platform's account, and the page of a resource that it opens.

`start` sends the browser to the platform, which sends it back to `finish` with a code. The kit exchanges the
code, checks that the person belongs to the organization of the resource, and opens a session; `page` shows
the resource to that session, and `end` closes it.

A `state` is used once, ends after ten minutes, and belongs to the browser that started (a cookie of its own
for each attempt, so that two tabs do not disturb each other). A session is made new at every sign-in, is for
the one organization that was checked then, and ends with the platform's token. Cookies and states are stored
as digests.

Authlib writes the requests to the platform's sign-in service and reads the token; they go through our own
transport, under its rules (one deadline, no redirect, bounded answers), instead of a client of Authlib.

Source: platform API, 4.5 and 5.3; platform notes, "Extension providers".
"""

import hmac
import json
import secrets
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from sqlite3 import Row
from typing import Any
from urllib.parse import urlsplit

import structlog
from authlib.oauth2.base import OAuth2Error  # type: ignore[import-untyped] # it has no types
from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped] # it has no types
from jinja2 import Environment, Template
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from reconciler.core.clock import Clock
from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import Allowance
from reconciler.providers.kit.functions import Visitor
from reconciler.providers.kit.intake import Refusal, address_of
from reconciler.providers.kit.resources import Resources
from reconciler.providers.kit.settings import CALLBACK_PATH, ProviderSettings, SignInSettings
from reconciler.providers.kit.store import Store
from reconciler.providers.kit.webhooks import Outbox
from reconciler.services.machines.wire.extension import TokenInfo
from reconciler.services.transport import Answer, Transport

_DEADLINE_S = 10.0


class SignInFailed(Exception):
    """The platform gave no usable answer. The text is shown to the person, and holds nothing secret."""


class OAuth:
    """The client side of one sign-in service. `redirect_uri`: where the platform sends browsers back to."""

    def __init__(self, settings: SignInSettings, redirect_uri: str, transport: Transport) -> None:
        self._settings, self._transport = settings, transport
        self._base = settings.auth_url.rstrip("/")
        self._client = OAuth2Client(
            None,
            client_id=settings.client_id,
            client_secret=settings.client_secret,
            token_endpoint_auth_method="client_secret_post",  # noqa: S106 - as the document has it, 5.3
            scope="read",
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )
        self._client._fetch_token = self._send_form

    def authorize_url(self, state: str, verifier: str, organization_id: str) -> str:
        """The address of the sign-in page, with PKCE and for one organization."""
        url, _ = self._client.create_authorization_url(
            f"{self._base}/oauth/authorize",
            state=state,
            code_verifier=verifier,
            organization_id=organization_id,
        )
        found: str = url
        return found

    async def introduce(self, code: str, verifier: str) -> tuple[TokenInfo, int]:
        """The person that the code stands for, and for how many seconds. Raises SignInFailed.

        The token is used once and forgotten: nothing here acts in the person's name later.
        """
        try:
            token = await self._client.fetch_token(
                f"{self._base}/oauth/token",
                grant_type="authorization_code",
                code=code,
                redirect_uri=self._client.redirect_uri,
                code_verifier=verifier,
            )
        except OAuth2Error as refusal:
            raise SignInFailed(f"the platform refused the code: {refusal.error}") from None
        access, lifetime = token.get("access_token"), token.get("expires_in")
        if not isinstance(access, str) or not access.isascii() or not access.isprintable():
            raise SignInFailed("the platform's answer has no valid token")
        answer = await self._request(
            "GET", f"{self._base}/oauth/token/info", {"authorization": f"Bearer {access}"}, None
        )
        if answer.status != 200:
            raise SignInFailed(f"the platform does not recognise its own token: status {answer.status}")
        try:
            info = TokenInfo.model_validate(_object(answer))
        except ValidationError:
            raise SignInFailed("the platform's answer does not match the API document") from None
        if info.application is not None and info.application.uid not in (None, self._settings.client_id):
            raise SignInFailed("the token was made for another application")
        lifetimes = [seconds for seconds in (lifetime, info.expires_in) if isinstance(seconds, int)]
        return info, max(0, min(lifetimes, default=0))

    async def _send_form(
        self, url: str, body: str, headers: Mapping[str, str], auth: Any, method: str
    ) -> Mapping[str, Any]:
        url, headers, body = auth.prepare(method, url, dict(headers), body)
        answer = await self._request(method, url, {**headers, "accept": "application/json"}, body.encode())
        token = _object(answer)
        if answer.status != 200 or "error" in token:
            error = token.get("error")
            shown = error if isinstance(error, str) and error.isidentifier() else f"status {answer.status}"
            raise SignInFailed(f"the platform refused the code: {shown}")
        return token

    async def _request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        try:
            return await self._transport.request(
                method, url, headers=headers, body=body, deadline_s=_DEADLINE_S
            )
        except ReconcilerError:
            host = urlsplit(self._base).hostname
            raise SignInFailed(f"{host} cannot be reached") from None


def _object(answer: Answer) -> dict[str, Any]:
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise SignInFailed(f"the platform's answer cannot be read: status {answer.status}")
    return value


STATE_S = 600
SIGN_INS_PER_S = 5.0  # from one address: each is a row in the store for ten minutes
LONGEST_SESSION_S = 8 * 3600

_log = structlog.get_logger("reconciler.provider")
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",  # the address of the callback holds a code
    "x-content-type-options": "nosniff",
}


class SignIn:
    """`transport`: to the platform's sign-in service; None when nobody can sign in."""

    def __init__(
        self,
        settings: ProviderSettings,
        store: Store,
        resources: Resources,
        outbox: Outbox,
        clock: Clock,
        transport: Transport | None,
        allowance: Allowance,
    ) -> None:
        self._settings, self._store, self._resources = settings, store, resources
        self._outbox, self._clock, self._allowance = outbox, clock, allowance
        self._oauth: OAuth | None = None
        if settings.sign_in is not None and transport is not None:
            self._oauth = OAuth(settings.sign_in, settings.address(CALLBACK_PATH), transport)
        # `__Host-`: no other host of the domain can have planted it.
        self._mark = "__Host-" if settings.secure else ""
        self._cookies: dict[str, Any] = {
            "path": "/",
            "secure": settings.secure,
            "httponly": True,
            "samesite": "lax",
        }

    async def start(self, request: Request) -> Response:
        """Redirect to the resource's page if signed in for its organization, else to the platform.

        A stranger does not learn from the answer whether there is such a resource.
        """
        if not self._allowance.spend(address_of(request)):
            refusal = _problem(429, "Too many sign-ins", "Try again in a moment.")
            refusal.headers["retry-after"] = "1"
            return refusal
        if self._oauth is None:
            return _problem(501, "Nobody can sign in here", "This provider has no sign-in set up.")
        id = request.path_params["id"]
        organization_id = self._resources.organization_of(id)
        session = self._session(request)
        if session is not None and session["organization_id"] == organization_id:
            return self._to_page(id)
        return self._to_platform(self._oauth, id, organization_id or self._decoy(id))

    async def finish(self, request: Request) -> Response:
        """Take the browser back from the platform: check `state`, code, person and organization."""
        state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
        begun = self._use(state, request)
        if self._oauth is None or begun is None:
            return _problem(
                400,
                "This sign-in is no longer valid",
                "It was already used, took longer than ten minutes, or started in another browser. "
                "Open the resource again to start over.",
            )
        if "error" in request.query_params or not code:
            return _problem(
                403, "The platform did not sign you in", "You can open the resource again to start over."
            )
        organization_id = self._resources.organization_of(begun["resource_id"])
        try:
            info, lifetime_s = await self._oauth.introduce(code, begun["verifier"])
        except SignInFailed as failure:
            _log.warning("sign_in.failed", reason=str(failure))
            return _problem(502, "The sign-in could not be completed", str(failure))
        roles = {organization.id: organization.role for organization in info.organizations}
        role = roles.get(organization_id) if organization_id else None
        if (
            organization_id is None
            or role not in ("admin", "member")
            or not info.user_id
            or "read" not in info.scope
        ):
            return _problem(
                403,
                "This account cannot open the resource",
                "It was removed, or belongs to an organization that the account is not in.",
            )
        if lifetime_s <= 0:
            return _problem(502, "The sign-in could not be completed", "It has already ended.")
        visitor = Visitor(
            info.user_id,
            info.user_name or info.user_id,
            info.email or "",
            organization_id or "",
            "admin" if role == "admin" else "member",
        )
        return self._welcome(request, begun["resource_id"], visitor, min(lifetime_s, LONGEST_SESSION_S))

    async def page(self, request: Request) -> Response:
        """The resource's page, if signed in for its organization; else a redirect to the sign-in."""
        id = request.path_params["id"]
        session = self._session(request)
        if session is None or self._resources.organization_of(id) != session["organization_id"]:
            return RedirectResponse(self._settings.address(f"/extensions/{id}/sso"), 303, _HEADERS)
        try:
            visitor = Visitor(**{name: session[name] for name in Visitor.__struct_fields__})
            _, shown = await self._resources.get(id, visitor)
        except Refusal:
            return _problem(404, "There is no such resource", "It may have been removed.")
        except Exception as failure:
            _log.error("page.failed", reason=type(failure).__name__)
            return _problem(500, "The resource cannot be shown now", "Try again in a moment.")
        end = f"{self._settings.prefix}/sign-in/end"
        return _resource_page(self._settings.name, shown, visitor, self._outbox.unsent(shown["id"]), end)

    async def end(self, request: Request) -> Response:
        """Sign out. The session leaves the store, too, so an old cookie opens nothing."""
        token = request.cookies.get(self._cookie("session"))
        if token:
            self._store.change("DELETE FROM sessions WHERE token = ?", _digest(token))
        response = _problem(200, "You are signed out", "Open the resource again to sign in.")
        self._drop(response, "session")
        return response

    def _decoy(self, id: str) -> str:
        """An organization without members, always the same one for this `id`."""
        return hmac.digest(self._settings.signing_secrets[0], f"decoy\0{id}".encode(), "sha256").hex()[:16]

    def _to_platform(self, oauth: OAuth, id: str, organization_id: str) -> Response:
        state, browser, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        now = self._now()
        self._store.change("DELETE FROM sign_ins WHERE ends_at < ?", now)
        self._store.insert(
            "sign_ins",
            state=_digest(state),
            browser=_digest(browser),
            resource_id=id,
            verifier=verifier,
            ends_at=now + STATE_S,
        )
        url = oauth.authorize_url(state, verifier, organization_id)
        response = RedirectResponse(url, 302, _HEADERS)
        self._keep(response, _attempt(state), browser, STATE_S)
        return response

    def _use(self, state: str, request: Request) -> Row | None:
        """The attempt of this `state`, used up now; None unless this browser started it in time."""
        if not state:
            return None
        with self._store.transaction():
            found = self._store.row("SELECT * FROM sign_ins WHERE state = ?", _digest(state))
            browser = request.cookies.get(self._cookie(_attempt(state)), "")
            if found is None or not hmac.compare_digest(found["browser"], _digest(browser)):
                return None  # not used up: another browser must not end it
            self._store.change("DELETE FROM sign_ins WHERE state = ?", found["state"])
        return found if found["ends_at"] >= self._now() else None

    def _welcome(self, request: Request, id: str, visitor: Visitor, lifetime_s: int) -> Response:
        token, now = secrets.token_urlsafe(32), self._now()
        before = request.cookies.get(self._cookie("session"), "")
        with self._store.transaction():
            self._store.change("DELETE FROM sessions WHERE token = ? OR ends_at < ?", _digest(before), now)
            person = {
                name: getattr(visitor, name) for name in ("organization_id", "user_id", "email", "role")
            }
            self._store.insert("people", replacing=True, **person, seen_at=now)
            self._store.insert(
                "sessions", token=_digest(token), name=visitor.name, ends_at=now + lifetime_s, **person
            )
        response = self._to_page(id)
        self._keep(response, "session", token, lifetime_s)
        self._drop(response, _attempt(request.query_params["state"]))
        return response

    def _session(self, request: Request) -> Row | None:
        token = request.cookies.get(self._cookie("session"))
        if not token:
            return None
        return self._store.row(
            "SELECT * FROM sessions WHERE token = ? AND ends_at > ?", _digest(token), self._now()
        )

    def _to_page(self, id: str) -> Response:
        return RedirectResponse(self._settings.address(f"/resources/{id}"), 302, _HEADERS)

    def _cookie(self, name: str) -> str:
        return f"{self._mark}{name}"

    def _keep(self, response: Response, name: str, value: str, lifetime_s: int) -> None:
        response.set_cookie(self._cookie(name), value, max_age=lifetime_s, **self._cookies)

    def _drop(self, response: Response, name: str) -> None:
        response.delete_cookie(self._cookie(name), **self._cookies)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _attempt(state: str) -> str:
    """The name of the cookie that ties one attempt to its browser."""
    return f"sign_in_{_digest(state)[:16]}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _problem(status: int, title: str, text: str) -> HTMLResponse:
    return HTMLResponse(_template().render(title=title, text=text), status, _HEADERS)


def _resource_page(
    provider: str, shown: Mapping[str, Any], visitor: Visitor, unsent: int, end: str
) -> HTMLResponse:
    """`end`: the path that signs out. `unsent`: how many messages about it the platform did not take."""
    rows = [
        (name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in shown.items()
    ]
    title = f"{shown['name']} at {provider}"
    page = _template().render(title=title, rows=rows, visitor=visitor, unsent=unsent, end=end)
    return HTMLResponse(page, 200, _HEADERS)


@cache
def _template() -> Template:
    source = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(source)
