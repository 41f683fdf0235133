"""Refuses requests before a handler is asked: by token, organization, web page, size, rate and strictness.

The control verbs take no token, so a web page in a developer's browser must not reach them. A page's simple
request needs no permission of the sandbox, and a page whose name is made to resolve to loopback reads the
answer too. So `check_page` checks what a page cannot forge: Host, Origin, and the content type.

Source: platform API, 4 and 6; platform notes, "Errors, limits, headers".
"""

import hmac
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, NamedTuple, get_args
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace
from pydantic import BaseModel

from reconciler.sandbox.exchange import INVALID, Refusal, Request, refused
from reconciler.sandbox.part import Route
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.world import App, World
from reconciler.services.signing import MAX_SIGNED
from reconciler.services.transport import is_loopback

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


def check_organization(world: World, request: Request, parameters: Mapping[str, str]) -> None:
    """Raises Refusal 403 where the request concerns an organization that its token may not touch.

    That of the app or cluster in the path, or one that is named in query or body.
    """
    if request.organizations is None:
        return
    app = world.find(App, parameters.get("app_name", ""))
    cluster = world.find(Cluster, parameters.get("id") or parameters.get("postgres_cluster_id") or "")
    named = [request.parameter("org_slug")]
    with suppress(Refusal):  # the handler says what is wrong with the body
        named.append(request.object().get("org_slug"))
    for slug in [*(owned.org_slug for owned in (app, cluster) if owned), *named]:
        if isinstance(slug, str) and not request.may_touch(slug):
            raise Refusal(403, f"the token has no access to organization {slug}", "permission_denied")


_HERE = "localhost"


def check_page(headers: Mapping[str, str], address: str, *, has_body: bool) -> None:
    """Raises Refusal: 403 unless Host and Origin name `address`, loopback or localhost; 415 for a body that
    is not JSON. A missing Host or Origin passes: no browser leaves them out where they matter.
    """
    host, origin = headers.get("host"), headers.get("origin")
    wrong = ""
    if host is not None and not _is_here(f"//{host}", address):
        wrong = f"Host {host!r}"
    elif origin is not None and not (_is_here(origin, address) and urlsplit(origin).netloc == host):
        wrong = f"Origin {origin!r}"
    if wrong:
        raise Refusal(403, f"{wrong} is not this sandbox's address: call it as {address} or as {_HERE}")
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and media_type != "application/json":
        raise Refusal(415, "the content type of a body must be application/json (`curl --json`)")


def _is_here(url: str, address: str) -> bool:
    try:
        return is_loopback(url) or urlsplit(url).hostname == address
    except ValueError:
        return False


class Limit(NamedTuple):
    """A rate limit as a bucket: `per_s` calls a second, `burst` at once."""

    per_s: float
    burst: float


USUAL = Limit(1, 3)
READ_MACHINE = Limit(5, 10)
WEBHOOKS = Limit(10, 100)  # of one provider
# The first that a path has is limited.
_OBJECTS = ("provider", "machine_id", "id", "postgres_cluster_id", "app_name")


def check_body(request: Request) -> None:
    """Bounds of requests without a token. Raises Refusal: 413 for a large body, 408 for a late one."""
    if len(request.body) > MAX_SIGNED:
        raise Refusal(413, f"a body may have at most {MAX_SIGNED} bytes", headers={"connection": "close"})
    if request.late:
        raise Refusal(408, "the body did not arrive in time", headers={"connection": "close"})


class Buckets:
    """The rest of each burst, by (action, object), on the world's clock."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], tuple[float, float]] = {}  # tokens, as of when

    def take(self, world: World, action: str, parameters: Mapping[str, str], limit: Limit = USUAL) -> None:
        """Raises Refusal 429 when the burst is used up (switches rate_limit and retry_after).

        `WEBHOOKS` holds always, and by the real clock.
        """
        real = limit is WEBHOOKS
        if world.switches["rate_limit"] == "off" and not real:
            return
        now = world.wall() if real else world.now
        key = (action, next((parameters[name] for name in _OBJECTS if name in parameters), ""))
        left, since = self._left.get(key, (limit.burst, now))
        left = min(limit.burst, left + max(0.0, now - since) * limit.per_s)
        if left < 1:
            self._left[key] = (left, now)
            raise _too_many(world, (1 - left) / limit.per_s)
        self._left[key] = (left - 1, now)


def _too_many(world: World, wait_s: float) -> Refusal:
    form = world.switches["retry_after"]
    headers = {}
    if form == "seconds":
        headers = {"retry-after": str(math.ceil(wait_s))}
    elif form == "date":
        moment = datetime.fromtimestamp(math.ceil(world.now + wait_s), UTC)
        headers = {"retry-after": format_datetime(moment, usegmt=True)}
    return Refusal(429, "rate limit exceeded", "resource_exhausted", headers=headers)


def check_described(route: Route, request: Request) -> None:
    """Refuse, for `--strict`, requests that neither document describes, though the platform may take them.

    So a client that passes here relies on described behaviour alone.
    Raises Refusal: 400 for a query, body or repeated key that is not read, 415 for a media type
    other than JSON, 422 for a field that is not described, or null.
    """
    seen: set[str] = set()
    for name, _ in parse_qsl(request.query, keep_blank_values=True):
        if name not in route.query:
            raise Refusal(400, f"query parameter `{name}` is not described", INVALID)
        if name in seen and route.query[name].get("type") != "array":
            raise Refusal(400, f"query parameter `{name}` is repeated, but only one is read", INVALID)
        seen.add(name)
    if route.body is None:
        if request.body:
            raise Refusal(400, "this operation takes no body", INVALID)
        return
    if not request.body:
        return  # the handler says where one is required
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(415, "the content type must be application/json", INVALID)
    try:
        body = json.loads(request.body, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return  # the handler says what is wrong with it
    if isinstance(body, dict):
        _check_fields(route.body, body)


def _check_fields(model: type[BaseModel], body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name not in model.model_fields:
            raise refused(name, "is not described")
        if value is None:
            raise refused(name, "must be omitted, not null")
        nested = next(
            (
                part
                for part in get_args(model.model_fields[name].annotation)
                if isinstance(part, type) and issubclass(part, BaseModel)
            ),
            None,
        )
        if nested and isinstance(value, dict):
            _check_fields(nested, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal(400, "a key is repeated in the body", INVALID)
    return found
