"""Who may call `/v1`, and which organizations a token may touch. Source: platform API, 6."""

import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from reconciler.sandbox.exchange import Refusal, Request
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.world import App, World

_SCHEMES = ("bearer", "flyv1")  # the second one: clients of today's tokens. Source: platform notes


class Tokens:
    """`everywhere` may touch all organizations; `of_organizations` are slugs by token.

    Raises ValueError for a token that cannot stand in a header.
    """

    def __init__(self, everywhere: str, of_organizations: Mapping[str, Sequence[str]]) -> None:
        tokens = {everywhere: None, **{token: frozenset(slugs) for token, slugs in of_organizations.items()}}
        for token in tokens:
            if not (token.isascii() and token.isprintable() and token and " " not in token):
                raise ValueError("the token must be visible ASCII characters, at least one")
        self._tokens = [(token.encode(), slugs) for token, slugs in tokens.items()]

    def authorized(self, request: Request, *, extended: bool) -> Request:
        """The request with the organizations that its token may touch. Raises Refusal 401."""
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        presented = credential.strip().encode("utf-8", "surrogatepass")
        if scheme.lower() in _SCHEMES[: 2 if extended else 1]:
            for token, slugs in self._tokens:
                if hmac.compare_digest(presented, token):
                    return replace(request, organizations=slugs)
        raise Refusal(401, "unauthorized", "unauthorized", headers={"www-authenticate": "Bearer"})


def check(world: World, request: Request, parameters: Mapping[str, str]) -> None:
    """Raises Refusal 403 where the request concerns an organization that its token may not touch."""
    for slug in _concerned(world, request, parameters) if request.organizations is not None else ():
        if not request.may_touch(slug):
            raise Refusal(403, f"the token has no access to organization {slug}", "permission_denied")


def _concerned(world: World, request: Request, parameters: Mapping[str, str]) -> list[str]:
    """Organizations by slug: of the app or cluster in the path, or named in query or body."""
    app = world.find(App, parameters.get("app_name", ""))
    cluster = world.find(Cluster, parameters.get("id") or parameters.get("postgres_cluster_id") or "")
    named = [request.parameter("org_slug")]
    with suppress(Refusal):  # the handler says what is wrong with the body
        named.append(request.object().get("org_slug"))
    return [each.org_slug for each in (app, cluster) if each] + [
        each for each in named if isinstance(each, str)
    ]
