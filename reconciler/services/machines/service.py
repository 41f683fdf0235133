"""The platform as a service: what its API is like, and a client of it."""

import random
from collections.abc import Callable

from reconciler.core.clock import Clock
from reconciler.core.steps import PLATFORM
from reconciler.services.auth import BearerToken
from reconciler.services.client import Client
from reconciler.services.machines import kept
from reconciler.services.machines.paths import action, scope
from reconciler.services.machines.refusals import POLICY
from reconciler.services.rate import Waiting, quiet
from reconciler.services.service import Service
from reconciler.services.transport import Transport

SERVICE = Service(
    name=PLATFORM,
    policy=POLICY,
    content=kept.content,
    outcome=kept.outcome,
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
    *,
    rate_limit: float | None = None,
    user_agent: str = "reconciler",
    read_only: bool = False,
    credential: str = "`platform.token_from`",
    jitter: Callable[[], float] = random.random,
    waiting: Waiting = quiet,
) -> Client:
    """A client of the /v1 API of one platform; see `Client`, and `BearerToken` for `token`."""
    return Client(
        SERVICE,
        BearerToken(token, "check where `platform.token_from` or RECONCILE_TOKEN gets it"),
        transport,
        base_url,
        clock,
        rate_limit=rate_limit,
        user_agent=user_agent,
        read_only=read_only,
        credential=credential,
        jitter=jitter,
        waiting=waiting,
    )
