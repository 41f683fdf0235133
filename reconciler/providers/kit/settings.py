"""The settings of one provider: its addresses and the secrets that it shares with the platform."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from reconciler.core.errors import ReconcilerError
from reconciler.services.signing import Encoding
from reconciler.services.transport import http_parts, is_loopback

EVENTS_PATH = "/extensions/events"
CALLBACK_PATH = "/sign-in/callback"


@dataclass(frozen=True, slots=True)
class SignInSettings:
    """The provider as an OAuth client of the platform."""

    auth_url: str
    client_id: str
    client_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """`public_url`: {provider_base_url} as the platform writes it. Of two secrets the first is current.

    Without `webhook_url` nothing is reported; without `sign_in` nobody can sign in.
    `answer_s`: how long a call may take before it is answered "provisioning" or "deleting".
    `rate`: requests per second that are not authentic from one address, and of the platform's own in all
    (bursts of twice that); 0 for no limit. Secrets are bytes. Raises ReconcilerError for unusable ones.
    """

    public_url: str
    store: Path
    signing_secrets: Sequence[bytes] = field(repr=False)
    encoding: Encoding = "hex"
    webhook_url: str | None = field(default=None, repr=False)
    webhook_secret: bytes | None = field(default=None, repr=False)
    webhook_encoding: Encoding = "hex"
    sign_in: SignInSettings | None = None
    costs_path: str = "/costs"
    name: str = "provider"
    answer_s: float = 5.0
    rate: float = 200.0
    give_up_s: float = 24 * 3600

    def __post_init__(self) -> None:
        if not isinstance(self.store, Path):
            raise ReconcilerError("the store of a provider is a pathlib.Path")
        given = (*self.signing_secrets, *([] if self.webhook_secret is None else [self.webhook_secret]))
        if isinstance(self.signing_secrets, str | bytes) or not all(
            isinstance(value, bytes) for value in given
        ):
            raise ReconcilerError("the secrets of a provider are bytes: `signing_secrets` is a list of them")
        parts = http_parts(self.public_url)
        if parts is None or parts.query or parts.fragment:
            raise ReconcilerError(
                f"`{self.public_url}` is not the address of a provider",
                help="write it as https://HOST[:PORT][/PATH]",
            )
        if parts.scheme == "http" and not is_loopback(self.public_url):
            raise ReconcilerError(
                f"`{self.public_url}` is not encrypted",
                help="http is for loopback addresses; use the https address that the platform calls "
                "(--public-url, or `public_url` in reconcile.yaml)",
            )
        if not self.signing_secrets or not all(self.signing_secrets):
            raise ReconcilerError("a provider needs the secret that the platform signs its requests with")
        if self.webhook_url is not None and not self.webhook_secret:
            raise ReconcilerError("a provider that sends webhooks needs the secret to sign them with")
        if self.webhook_secret in self.signing_secrets:
            raise ReconcilerError(
                "the secret of webhooks is the same as the secret of the platform's requests",
                help="they must differ, otherwise a webhook could be replayed as a request",
            )
        if not self.costs_path.startswith("/") or self.costs_path.startswith("/extensions"):
            raise ReconcilerError(f"`{self.costs_path}` cannot be the path of the costs")

    @property
    def origin(self) -> str:
        """Scheme, host and port, to which a request's own path and query are added."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def prefix(self) -> str:
        """The path of `public_url`, without a slash at its end."""
        return urlsplit(self.public_url).path.rstrip("/")

    @property
    def secure(self) -> bool:
        """Whether cookies may travel over https only: always but on loopback."""
        return not is_loopback(self.public_url)

    def address(self, path: str) -> str:
        """The public address of one of the provider's paths."""
        return f"{self.public_url.rstrip('/')}{path}"
