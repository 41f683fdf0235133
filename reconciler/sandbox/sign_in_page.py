"""The page where a person picks the user who signs in, and the one that says why there is none. No script."""

from collections.abc import Mapping, Sequence

from reconciler.sandbox import html
from reconciler.sandbox.exchange import Response
from reconciler.sandbox.parts.provider import Provider, User

# The form's answer redirects to the provider, which `form-action` would have to name; it is left out.
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",  # the address holds the provider's `state`
}


def show(provider: Provider, users: Sequence[User], parameters: Mapping[str, str]) -> Response:
    """Users of the organization that was asked for come first; any may be picked, a wrong one too."""
    wanted = parameters.get("organization_id") or parameters.get("organization") or ""
    hint = parameters.get("login_hint")
    ordered = sorted(
        users, key=lambda user: (hint not in (user.id, user.email), wanted not in user.organizations)
    )
    return _page(200, provider=provider, users=ordered, organization=wanted)


def show_error(problem: str) -> Response:
    return _page(400, problem=problem)


def _page(status: int, **values: object) -> Response:
    return html.page("sign_in.html", _HEADERS, status, **values)
