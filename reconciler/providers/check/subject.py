"""What is checked: a provider's address, and the secrets that it shares with the platform."""

from dataclasses import dataclass, field

from msgspec import Struct

from reconciler.core.errors import ReconcilerError
from reconciler.services.signing import Encoding


class SignInSubject(Struct, frozen=True):
    """The sign-in service that the provider was set up with. `user_id`: who signs in at its page."""

    auth_url: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Subject:
    """`base_url`: {provider_base_url} as the provider knows it. Seconds are those of the clock that is given.

    Without `webhook_secret`, `costs_path` or `sign_in` what needs them is reported as not checked.
    `regions`: two codes that the provider knows, for the read replicas before and after a PATCH.
    """

    base_url: str
    signing_secret: bytes = field(repr=False)
    webhook_secret: bytes | None = field(default=None, repr=False)
    encoding: Encoding = "hex"
    costs_path: str | None = None
    sign_in: SignInSubject | None = None
    organization_id: str = "check-organization"
    user_id: str = "check-user"
    regions: tuple[str, str] = ("ams", "fra")
    deadline_s: float = 30.0
    ready_s: float = 240.0
    slow_body_s: float = 15.0

    def __post_init__(self) -> None:
        if not self.signing_secret:
            raise ReconcilerError("the signing secret is empty")
        if self.webhook_secret is not None and self.webhook_secret == self.signing_secret:
            raise ReconcilerError(
                "the webhook secret is the signing secret",
                help="they must differ (platform API, 5.2 rule 3): otherwise a webhook could be replayed "
                "as a request",
            )

    def url(self, path: str) -> str:
        return self.base_url.rstrip("/") + path
