"""Sign-in: OAuth 2.0 with authorization codes. Codes and tokens are stored as SHA-256 only.

The sandbox does not check passwords: the person who opens the page picks a user. Everything else holds as on
the platform. Times are by the world's clock. A code lasts ten minutes and is used once; a second use revokes
every token of that sign-in. A refresh token is used once, too, and ends the tokens that came with it. An
error goes back to the provider by a redirect only if the client and its address are certain; otherwise the
person sees a page.

Source: platform API, 2.10 and 5.3; RFC 6749; RFC 7636 (S256 alone).
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

from msgspec import Struct
from pydantic import Field

from reconciler.core.wire import Wire
from reconciler.sandbox.exchange import Request, Response, page, reply
from reconciler.sandbox.part import Part, Routes
from reconciler.sandbox.parts.provider import Provider, User, by_client_id
from reconciler.sandbox.parts.secret import holds, sha256_of
from reconciler.sandbox.world import Thing, Transition, World
from reconciler.services.machines.wire.extension import OAuthToken

CODE_S = 600
ACCESS_S = 7200
REFRESH_S = 30 * 24 * 3600
SCOPE = "read"
FORM = "application/x-www-form-urlencoded"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_PRIVATE = {"cache-control": "no-store", "pragma": "no-cache", "referrer-policy": "no-referrer"}
# The form's answer redirects to the provider, which `form-action` would have to name; it is left out.
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",  # the address holds the provider's `state`
}


@dataclass
class Credential(Thing):
    """A code, an access token or a refresh token, by `use`. `id` is its SHA-256.

    `family` is the sign-in that it came from: all tokens of a stolen code end together. States:
    valid, used, expired, revoked.
    """

    kind = "credential"
    below = ("family",)
    use: str
    family: str
    provider: str
    user_id: str
    issued_at: float
    redirect_uri: str = ""
    challenge: str = ""


class TokenRequest(Wire):
    """The form that the token endpoint takes; the client may authenticate by HTTP Basic instead."""

    grant_type: str
    client_id: str | None = None
    client_secret: str | None = Field(None, repr=False)
    code: str | None = Field(None, repr=False)
    redirect_uri: str | None = None
    code_verifier: str | None = Field(None, repr=False)
    refresh_token: str | None = Field(None, repr=False)
    scope: str | None = None


class Consent(Wire):
    """The form of the page: the user who signs in, or `deny`."""

    user: str | None = None
    deny: str | None = None


class _Wish(Struct, frozen=True):
    """A request to authorize that may be answered with a redirect."""

    provider: Provider
    parameters: Mapping[str, str]

    def redirect(self, status: int, **answer: str) -> Response:
        """The redirect back to the provider, with its `state` as it was sent."""
        state = {"state": self.parameters["state"]} if "state" in self.parameters else {}
        uri = self.provider.redirect_uri
        location = f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer | state)}"
        return Response(status, headers={"location": location, **_PRIVATE})


class _Problem(Exception):
    """An error in the words of RFC 6749. `wish`: where the browser is sent with it, if anywhere."""

    def __init__(self, code: str, text: str, *, status: int = 400, wish: _Wish | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.status, self.wish = code, text, status, wish


_AUTHORIZE = "/oauth/authorize"
_NEEDED = ("client_id", "redirect_uri", "response_type", "scope")
_OPTIONAL = (
    "state",
    "code_challenge",
    "code_challenge_method",
    "organization_id",
    "organization",
    "login_hint",
)
_QUERY = {name: {"type": "string"} for name in (*_NEEDED, *_OPTIONAL)}
route = Routes("oauth")


@route(
    "GET",
    _AUTHORIZE,
    "Show the sign-in page",
    None,
    statuses=(200, 302, 400),
    query=_QUERY,
    required=_NEEDED,
    guard="",
)
def authorize(world: World, request: Request) -> Response:
    """The page to sign in at, or the redirect back where no person is asked (switch sign_in)."""

    def chosen(wish: _Wish) -> User | None:
        if world.switches["sign_in"] == "denied":
            raise _Problem("access_denied", "the user refused", wish=wish)
        return _meant(world, wish.parameters) if world.switches["sign_in"] == "direct" else None

    return _authorized(world, request, 302, chosen)


@route(
    "POST",
    _AUTHORIZE,
    "Sign in, or refuse",
    None,
    statuses=(303, 200, 400),
    body=Consent,
    query=_QUERY,
    required=_NEEDED,
    guard="",
    media=FORM,
)
def sign_in(world: World, request: Request) -> Response:
    """The form of the page; its query is checked as that of the page was."""

    def chosen(wish: _Wish) -> User | None:
        form = _form(request)
        if "deny" in form:
            raise _Problem("access_denied", "the user refused", wish=wish)
        user = world.find(User, form.get("user", ""))
        if user is None and "user" in form:
            raise _Problem("access_denied", "there is no such user", wish=wish)
        return user

    return _authorized(world, request, 303, chosen)


@route(
    "POST",
    "/oauth/token",
    "Exchange a code or a refresh token for tokens",
    OAuthToken,
    errors=(400, 401),
    body=TokenRequest,
    guard="",
    media=FORM,
)
def token(world: World, request: Request) -> Response:
    """Exchange a code or a refresh token for new tokens. Each is used once. Source: RFC 6749, 4.1.3, 6."""
    try:
        form = _form(request)
        provider = _client(world, request, form)
        grant = form.get("grant_type")
        if grant == "authorization_code":
            source = _redeemed_code(world, provider, form)
        elif grant == "refresh_token":
            source = _rotated(world, provider, form)
        elif grant is None:
            raise _Problem("invalid_request", "grant_type is missing")
        else:
            raise _Problem("unsupported_grant_type", "use authorization_code or refresh_token")
    except _Problem as problem:
        return _refused(problem)
    answer = {
        "access_token": _issue(world, "access", ACCESS_S, source.provider, source.user_id, source.family),
        "token_type": "Bearer",
        "expires_in": ACCESS_S,
        "refresh_token": _issue(world, "refresh", REFRESH_S, source.provider, source.user_id, source.family),
        "scope": SCOPE,
        "created_at": int(world.now),
    }
    return _private(answer)


@route(
    "GET",
    "/oauth/token/info",
    "Show the user of an access token",
    dict[str, Any],
    errors=(401,),
    guard="access_token",
)
def info(world: World, request: Request) -> Response:
    """The user of an access token. Source: platform API, 2.10."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    found = _credential(world, "access", value.strip()) if scheme.lower() == "bearer" else None
    user = world.find(User, found.user_id) if found else None
    provider = world.find(Provider, found.provider) if found else None
    if not (found and user and provider) or found.due is None:  # only what is valid will end
        problem = _Problem("invalid_token", "the access token is unknown, expired or revoked", status=401)
        return _refused(problem, 'Bearer error="invalid_token"')
    return _private(
        {
            "resource_owner_id": user.id,
            "user_id": user.id,
            "user_name": user.name,
            "email": user.email,
            "organizations": [{"id": id, "role": role} for id, role in user.organizations.items()],
            "scope": [SCOPE] if world.switches["token_scope"] == "list" else SCOPE,  # noqa: S105 - a switch
            "expires_in": int(found.due - world.now),
            "application": {"uid": provider.client_id},
            "created_at": int(found.issued_at),
        }
    )


def _authorized(
    world: World, request: Request, status: int, chosen: Callable[[_Wish], User | None]
) -> Response:
    """The redirect back (`status`) with a code or an error, or the page where it is not certain who signs in.

    An error is a page where it is not certain whom to send the browser to.
    """
    try:
        wish = _wish(world, request)
        user = chosen(wish)
    except _Problem as problem:
        if problem.wish is None:
            return _page(400, problem=problem.text)
        return problem.wish.redirect(status, error=problem.code, error_description=problem.text)
    if user is None:
        return _sign_in_page(wish.provider, list(world.all(User)), wish.parameters)
    bound = {
        "redirect_uri": wish.provider.redirect_uri,
        "challenge": wish.parameters.get("code_challenge", ""),
    }
    return wish.redirect(status, code=_issue(world, "code", CODE_S, wish.provider.id, user.id, **bound))


def _wish(world: World, request: Request) -> _Wish:
    """Raises _Problem; without a `wish` unless the client and its address are certain."""
    pairs = parse_qsl(request.query, keep_blank_values=True)
    parameters = dict(pairs)
    repeated = {name for name, _ in pairs if [key for key, _ in pairs].count(name) > 1}
    provider = by_client_id(world, parameters.get("client_id", ""))
    if provider is None or "client_id" in repeated:
        raise _Problem("invalid_client", "this client is not known")
    if parameters.get("redirect_uri") != provider.redirect_uri or "redirect_uri" in repeated:
        raise _Problem(
            "invalid_request", "redirect_uri is not exactly the address that the client registered"
        )
    wish = _Wish(provider, parameters)
    code, text = _flaw(parameters, repeated)
    if code:
        raise _Problem(code, text, wish=wish)
    return wish


def _flaw(parameters: Mapping[str, str], repeated: set[str]) -> tuple[str, str]:
    """The error's code and text, empty for none. Source: RFC 6749, 4.1.2.1; RFC 7636, 4.4.1."""
    if repeated:
        return "invalid_request", f"{min(repeated)} is given twice"
    if "response_type" not in parameters:
        return "invalid_request", "response_type is missing"
    if parameters["response_type"] != "code":
        return "unsupported_response_type", "response_type must be code"
    if parameters.get("scope") != SCOPE:
        return "invalid_scope", f"scope must be {SCOPE}"
    challenge, method = parameters.get("code_challenge"), parameters.get("code_challenge_method")
    if (challenge or method) and (method != "S256" or not _CHALLENGE.fullmatch(challenge or "")):
        return "invalid_request", "code_challenge needs the method S256 and 43 base64url characters"
    return "", ""


def _meant(world: World, parameters: Mapping[str, str]) -> User | None:
    """The user of `login_hint`, else the only user there is; None when it is not certain."""
    hint = parameters.get("login_hint")
    users = [user for user in world.all(User) if hint in (None, user.id, user.email)]
    return users[0] if len(users) == 1 else None


def _client(world: World, request: Request, form: Mapping[str, str]) -> Provider:
    """The client that the request authenticates, by HTTP Basic or in the form, but not in both ways.

    Raises _Problem: 401 for an unknown client or a wrong secret, 400 for two ways.
    """
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    by_header = scheme.lower() == "basic"
    if by_header and "client_secret" in form:
        raise _Problem("invalid_request", "the client authenticates in two ways")
    id, secret = _basic(value) if by_header else (form.get("client_id", ""), form.get("client_secret", ""))
    provider = by_client_id(world, id)
    right = holds(provider.client_secret_fingerprint if provider else "", secret)
    if provider is None or not right or form.get("client_id", id) != id:
        raise _Problem("invalid_client", "the client or its secret is not known", status=401)
    return provider


def _basic(value: str) -> tuple[str, str]:
    """Client and secret, which are form-encoded before they are joined. Source: RFC 6749, 2.3.1."""
    try:
        id, _, secret = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return unquote_plus(id), unquote_plus(secret)


def _redeemed_code(world: World, provider: Provider, form: Mapping[str, str]) -> Credential:
    code = _given(world, "code", "code", provider, form, "the code was used already, or has expired")
    if form.get("redirect_uri") != code.redirect_uri:
        raise _Problem("invalid_grant", "redirect_uri differs from the one of the authorization")
    if not _proves(form.get("code_verifier"), code.challenge):
        raise _Problem("invalid_grant", "code_verifier does not match")
    world.enter(code, "used")
    return code


def _rotated(world: World, provider: Provider, form: Mapping[str, str]) -> Credential:
    """A refresh token is used once; with it ends the access token that it came with."""
    if form.get("scope", SCOPE) != SCOPE:
        raise _Problem("invalid_scope", f"scope must be {SCOPE}")
    spent = "the refresh token was used already, or is no longer valid"
    refresh = _given(world, "refresh_token", "refresh", provider, form, spent)
    _end_family(world, refresh, "used")
    return refresh


def _given(
    world: World, parameter: str, use: str, provider: Provider, form: Mapping[str, str], spent: str
) -> Credential:
    """The valid code or token in `form`. A second use of one revokes all of its sign-in."""
    if parameter not in form:
        raise _Problem("invalid_request", f"{parameter} is missing")
    found = _credential(world, use, form[parameter])
    if found is None or found.provider != provider.id:
        raise _Problem("invalid_grant", f"the {parameter} is not known")
    if found.state == "used":
        _end_family(world, found, "revoked")
    if found.state != "valid":
        raise _Problem("invalid_grant", spent)
    return found


def _proves(verifier: str | None, challenge: str) -> bool:
    """A verifier without a challenge is refused too: its client was given the code of another sign-in."""
    if verifier is None or not challenge:
        return verifier is None and not challenge
    hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest())
    fits = hmac.compare_digest(hashed.rstrip(b"=").decode("ascii"), challenge)
    return bool(_VERIFIER.fullmatch(verifier)) and fits


def _end_family(world: World, credential: Credential, state: str) -> None:
    for issued in list(world.children(Credential, credential.family)):
        if issued.state == "valid":
            world.enter(issued, state)


def _issue(
    world: World, use: str, lasts_s: float, provider: str, user_id: str, family: str = "", **more: Any
) -> str:
    """A new code or token for so many seconds of the world; without a `family`, the first of its own.

    Only its digest is stored.
    """
    value = secrets.token_urlsafe(32)
    id = sha256_of(value)
    issued = Credential(id, use, family or id, provider, user_id, issued_at=world.now, **more)
    world.enter(issued, "valid", lasts_s=lasts_s)
    return value


def _credential(world: World, use: str, value: str) -> Credential | None:
    found = world.find(Credential, sha256_of(value))
    return found if found and found.use == use else None


def _form(request: Request) -> dict[str, str]:
    """Raises _Problem for another media type and for repeated fields. Source: RFC 6749, 3.2."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise _Problem("invalid_request", f"the content type must be {FORM}")
    pairs = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
    form = dict(pairs)
    if len(form) < len(pairs):
        raise _Problem("invalid_request", "a field is given twice")
    return form


def _refused(problem: _Problem, challenge: str = 'Basic realm="oauth"') -> Response:
    response = _private({"error": problem.code, "error_description": problem.text}, problem.status)
    if problem.status == 401:
        response.headers["www-authenticate"] = challenge
    return response


def _private(data: Any, status: int = 200) -> Response:
    """An answer that no cache may store."""
    response = reply(data, status)
    response.headers.update(_PRIVATE)
    return response


def _sign_in_page(provider: Provider, users: Sequence[User], parameters: Mapping[str, str]) -> Response:
    """Users of the organization that was asked for come first; any may be picked, a wrong one too."""
    wanted = parameters.get("organization_id") or parameters.get("organization") or ""
    hint = parameters.get("login_hint")
    ordered = sorted(
        users, key=lambda user: (hint not in (user.id, user.email), wanted not in user.organizations)
    )
    return _page(200, provider=provider, users=ordered, organization=wanted)


def _page(status: int, **values: object) -> Response:
    return page("sign_in.html", _PAGE_HEADERS, status, **values)


PART = Part(
    routes=route.found,
    transitions={("credential", "valid"): Transition(CODE_S, "expired")},
    things=(Credential,),
)
