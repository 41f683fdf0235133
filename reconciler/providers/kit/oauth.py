"""The platform's sign-in service as an OAuth client sees it: authorize, token, introspection.

Authlib writes the requests and reads the token; they go through our own transport, under its rules (one
deadline, no redirect, bounded answers), instead of a client of Authlib.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from authlib.oauth2.base import OAuth2Error  # type: ignore[import-untyped] # it has no types
from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped] # it has no types
from pydantic import ValidationError

from reconciler.core.errors import ReconcilerError
from reconciler.providers.kit.settings import SignInSettings
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
