"""The platform as a service: its refusals, its rate actions, the kept part of its answers, and its client.

An answer is kept whole, unless its request may bring a secret's value. Then only fields that are known to be
harmless are kept: a value can be echoed in any form, which no search would find. A kept field that repeats
the sent value unchanged is dropped, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Unpack

from pydantic_core import to_json

from reconciler.core.clock import Clock
from reconciler.core.steps import PLATFORM, Call, Read
from reconciler.kinds import find_kinds
from reconciler.services.client import Client, ClientOptions
from reconciler.services.outcome import Outcome, Policy, Refusal, Row, Verdict, parsed
from reconciler.services.service import BearerToken, Service
from reconciler.services.transport import Transport

_KEPT = ("name", "digest", "version", "Version", "created_at", "updated_at")
_SHORTEST = 6  # characters; a shorter value may occur in a digest by chance

# The platform is not known to answer with any other 4xx, so a proxy may have sent it. Such a status proves
# nothing, and a needless question costs less than a second create. Source: design, section 5; platform notes.
POLICY = Policy(
    by_anyone=frozenset({401, 403, 413, 415, 429}),
    by_itself=frozenset({400, 404, 409, 410, 412, 422}),
    refusals=(
        Row(
            Refusal.NO_CAPACITY,
            (412, 422),
            r"insufficient (capacity|resources)|placement|unique zone",
            codes=("insufficient_capacity", "volume_placement_capacity"),
        ),
        Row(Refusal.APP_MISSING, (404,), r"could not find app\b"),
        Row(Refusal.SNAPSHOT_SCHEDULED, (412,), r"snapshot is already scheduled"),
        Row(Refusal.VOLUME_BOUND, (412,), r"currently bound to machine"),
        Row(Refusal.STATE_NOT_REACHED, (408,), r"deadline_exceeded"),
    ),
)


def kept_content(read: Read, body: bytes) -> bytes:
    """The part of the answer to `read` that is kept, as JSON."""
    return to_json(_harmless(parsed(body))) if read.sensitive else body


def kept_outcome(outcome: Outcome, call: Call) -> Outcome:
    """`outcome` of `call` without values of secrets, so that it may be recorded and shown."""
    return _without_values(outcome, call.body) if call.sensitive else outcome


def _without_values(outcome: Outcome, sent: Mapping[str, Any] | None) -> Outcome:
    """`outcome` with the harmless fields of its reply, and without the platform's words about a value.

    `sent`: the body of the request.
    """
    if outcome.kind is Verdict.YES and not outcome.message:
        reply = _harmless(outcome.reply)
        value = (sent or {}).get("value")
        if isinstance(reply, dict) and isinstance(value, str):
            reply = {name: found for name, found in reply.items() if not _repeats(found, value)}
        return replace(outcome, reply=reply)
    if sent is None or outcome.status < 300:
        return replace(outcome, reply=None)
    word = f"{outcome.refusal}; " if outcome.refusal else ""
    message = f"{word}the platform's words are not shown: they may repeat the value"
    return replace(outcome, reply=None, message=message)


def _repeats(found: Any, value: str) -> bool:
    """Whether `found` is the value, contains it or is a part of it, as any list or mapping may do."""
    if isinstance(found, dict | list):
        return True
    part, whole = sorted((str(found), value), key=len)
    return bool(found == value) or (len(part) >= _SHORTEST and part in whole)


def _harmless(reply: Any) -> Any:
    """The fields that are known not to contain a value, of one secret or of a list of them."""
    if not isinstance(reply, dict):
        return None
    if isinstance(reply.get("secrets"), list):
        return {"secrets": [_harmless(secret) for secret in reply["secrets"]]}
    return {name: reply[name] for name in _KEPT if name in reply}


def action(method: str, path: str) -> str:
    """The action that the platform counts a request as: method and path, such as `GET apps/shop/volumes/*`.

    All objects of one app are one action, unless `Kind.counted_alone` says that every object of a kind is
    counted alone. Source: platform notes, "Errors, limits, headers".
    """
    parts = path.partition("?")[0][1:].split("/")[1:]  # `/v1/apps/shop/volumes?x=y`: apps, shop, volumes
    if parts[:1] == ["apps"] and len(parts) > 3 and parts[2] not in _counted_alone():
        parts[3] = "*"
    return f"{method} {'/'.join(parts)}"


def scope(path: str) -> str:
    """The thing that a token must have access to for a request to `path`, in words."""
    parts = path.partition("?")[0].split("/")  # `/v1/apps/shop/volumes`: "", v1, apps, shop, volumes
    words = {"apps": "app", "postgres": "cluster"}
    if len(parts) > 3 and parts[2] in words:
        return f"{words[parts[2]]} `{parts[3]}`"
    return f"what {path} shows"


@cache
def _counted_alone() -> frozenset[str]:
    return frozenset(kind.counted_alone for kind in find_kinds().values() if kind.counted_alone)


SERVICE = Service(
    name=PLATFORM,
    policy=POLICY,
    content=kept_content,
    outcome=kept_outcome,
    action=action,
    essential=True,
    check_access=lambda path: f"check that the token may read {scope(path)}",
    check_address="check `platform.base_url`",
)


def platform_client(
    transport: Transport,
    base_url: str,
    token: Callable[[], str],
    clock: Clock,
    **options: Unpack[ClientOptions],
) -> Client:
    """A client of the /v1 API of one platform; see `BearerToken` for `token`."""
    auth = BearerToken(token, "check where `platform.token_from` or RECONCILE_TOKEN gets it")
    options.setdefault("credential", "`platform.token_from`")
    return Client(SERVICE, auth, transport, base_url, clock, **options)
