"""The rate limits of the platform, off by default: so many requests a second per action and object.

Source: platform notes, "Errors, limits, headers".
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import NamedTuple

from reconciler.sandbox.exchange import Refusal, Request
from reconciler.sandbox.world import World
from reconciler.services.signing import MAX_SIGNED


class Limit(NamedTuple):
    per_s: float
    burst: float


USUAL = Limit(1, 3)
READ_MACHINE = Limit(5, 10)
WEBHOOKS = Limit(10, 100)  # of one provider
# The first that a path has is limited.
_OBJECTS = ("provider", "machine_id", "id", "postgres_cluster_id", "app_name")


def check_body(request: Request) -> None:
    """Of requests without the platform's token. Raises Refusal: 413 for a large body, 408 for a late one."""
    if len(request.body) > MAX_SIGNED:
        raise Refusal(413, f"a body may have at most {MAX_SIGNED} bytes", headers={"connection": "close"})
    if request.late:
        raise Refusal(408, "the body did not arrive in time", headers={"connection": "close"})


class Buckets:
    """What is left of each burst, by (action, object), on the world's clock."""

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
