"""Extension providers as services: what their provisioning API is like, and a client of one.

Here this program plays the platform's role: it holds the provider's signing secret.

Source: platform API, 2.7, 2.8, 4.5 and 5.2; platform notes, "Extension providers".
"""

import random
from collections.abc import Callable

from reconciler.core.clock import Clock
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.auth import Signature
from reconciler.services.client import Client
from reconciler.services.machines.refusals import POLICY
from reconciler.services.providers import kept
from reconciler.services.service import Service
from reconciler.services.signing import Encoding
from reconciler.services.transport import Transport


def provider_service(name: str) -> Service:
    """`name`: of its ExtensionProvider. Providers answer as the platform does, and document no rate limit."""
    manifest = f"ExtensionProvider/{name}"
    return Service(
        name=name,
        label=f"provider {name}",
        policy=POLICY,
        content=kept.content,
        outcome=kept.outcome,
        check_access=lambda path: f"check `signing_secret_from` of {manifest}, and this machine's clock",
        check_address=f"check `base_url` of {manifest}",
        no_secret=f"the signing secret of {manifest} cannot be read here",
    )


def provider_client(
    name: str,
    transport: Transport,
    base_url: str,
    secret: Callable[[], Sensitive],
    clock: Clock,
    *,
    new_nonce: Callable[[], str],
    encoding: Encoding = "hex",
    user_agent: str = "reconciler",
    read_only: bool = False,
    jitter: Callable[[], float] = random.random,
) -> Client:
    """A client of the provisioning API of one provider; see `Client`, and `Signature` for the secret."""
    return Client(
        provider_service(name),
        Signature(secret, new_nonce, encoding),
        transport,
        base_url,
        clock,
        user_agent=user_agent,
        read_only=read_only,
        jitter=jitter,
    )
