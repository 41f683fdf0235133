"""Platform and provider as two real processes that know each other: each other's address, and the secrets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.services.signing import Encoding
from tests.cli.harness import Sandbox, serving
from tests.providers.postgres import Postgres
from tests.providers.serve import CLIENT_SECRET, SIGNING_SECRET, WEBHOOK_SECRET, Provider, serving_provider

NAME = "databases"
ORGANIZATION = "acme"


@dataclass(frozen=True, slots=True)
class Together:
    """`store`: the provider's own database."""

    sandbox: Sandbox
    provider: Provider
    store: Path

    def resources(self) -> list[dict[str, Any]]:
        """What the provider reported to the platform."""
        found: list[dict[str, Any]] = self.sandbox.call("GET", "/_sandbox/world")["resources"]
        return found

    def deliveries(self) -> list[dict[str, Any]]:
        """What the platform sent to the provider, or has to."""
        found: list[dict[str, Any]] = self.sandbox.call("GET", "/_sandbox/deliveries")
        return found


@contextmanager
def running_together(postgres: Postgres, folder: Path, encoding: Encoding = "hex") -> Iterator[Together]:
    """The sandbox, on a clock that stands still, and the reference provider."""
    store = folder / "provider.db"
    with (
        serving("--clock", "manual") as sandbox,
        serving_provider(
            postgres,
            store,
            *("--webhook-url", f"{sandbox.url}/webhooks/{NAME}", "--webhook-secret-from", "env:TEST_WEBHOOK"),
            *("--auth-url", sandbox.url, "--client-id", NAME, "--client-secret-from", "env:TEST_CLIENT"),
            *("--encoding", encoding),
            *("--proxy", "127.0.0.1"),
            name=NAME,
        ) as provider,
    ):
        registration = {
            "name": NAME,
            "organization": ORGANIZATION,
            "base_url": provider.url,
            "signing_secret": SIGNING_SECRET,
            "encoding": encoding,
            "webhook_secret": WEBHOOK_SECRET,
            "client_secret": CLIENT_SECRET,
            "redirect_uri": f"{provider.url}/sign-in/callback",
            "events": True,
            "costs_path": "/costs",
        }
        sandbox.call("POST", "/_sandbox/providers", registration)
        provider.platform.encoding = encoding
        yield Together(sandbox, provider, store)
