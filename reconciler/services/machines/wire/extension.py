"""Extensions as platform and provider exchange them.

Source: platform API, 2.7 to 2.11, 3.4, 4.5, 5.3 and 6; platform notes, "Extension providers". The signing
parameters (`url`, `nonce`, `timestamp`) belong to `signing`, not to these bodies.
"""

from typing import Any, ClassVar

from pydantic import Field, field_validator

from reconciler.core.wire import Wire

SETTLED_STATUSES = ("ready", "sleeping")  # provisioned: in use, or put to rest by the provider itself
FAILED_STATUSES = ("error",)
GONE_STATUSES = frozenset({"deleting", "deleted", "deprovisioned"})

ACTIONS = ("resource.created", "resource.updated", "resource.deleted")


class Extension(Wire):
    """The answer to GET, without `config`. Its body is not documented: all but the id may be missing."""

    shape: ClassVar = "extension"

    id: str
    name: str | None = None
    status: str | None = None
    plan: str | None = None
    primary_region: str | None = None
    read_regions: list[str] | None = None
    ip_address: str | None = None
    platform_app_name: str | None = None
    organization_id: str | None = None
    user_id: str | None = None

    @property
    def present(self) -> bool:
        return self.status not in GONE_STATUSES


class ExtensionCosts(Wire):
    """The answer of the billing API, whose path and payload are not documented: any fields."""

    shape: ClassVar = "extension_costs"


class ExtensionWebhook(Wire):
    """Provider to platform. `timestamp` is sent as text; `action` is one of `ACTIONS`, or refused."""

    timestamp: str
    action: str
    resource: Extension


class OAuthToken(Wire):
    """The answer of the token endpoint: both tokens are secrets. `expires_in`: seconds."""

    access_token: str = Field(repr=False)
    token_type: str = "Bearer"  # noqa: S105 - a word of OAuth
    expires_in: int
    refresh_token: str | None = Field(None, repr=False)
    scope: str | None = None
    created_at: int | None = None


class Membership(Wire):
    """One organization of a person."""

    id: str
    role: str | None = None


class OAuthApplication(Wire):
    uid: str | None = None


class TokenInfo(Wire):
    """The answer of the introspection endpoint. Some services send `scope` as text: it is split at spaces."""

    resource_owner_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    email: str | None = None
    organizations: list[Membership] = Field(default_factory=list)
    scope: list[str] = Field(default_factory=list)
    expires_in: int | None = None
    application: OAuthApplication | None = None
    created_at: int | None = None

    @field_validator("scope", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return value.split() if isinstance(value, str) else value
