"""The five functions that the author of a provider writes, and the values that they take and give.

All five may be called again with the same arguments: after a crash, a lost answer or a restart, the kit
learns the outcome in this way. `Resource.secret` helps: it gives the same text every time.
"""

import dataclasses
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, Field

Role = Literal["admin", "member"]

_ID = r"^[A-Za-z0-9][A-Za-z0-9._~-]*$"  # an id stands in paths: nothing in it needs an escape


class Order(BaseModel):
    """An order of the platform for a resource. Source: platform API, 2.7."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    id: str = Field(min_length=1, max_length=255, pattern=_ID)
    name: str = Field(min_length=1, max_length=255)
    organization_id: str = Field(min_length=1, max_length=255)
    organization_name: str = Field(max_length=1024)
    user_id: str = Field(min_length=1, max_length=255)
    user_email: str = Field(max_length=1024)
    user_role: Role
    primary_region: str | None = Field(None, max_length=64)
    read_regions: list[str] | None = Field(None, max_length=256)
    ip_address: str | None = Field(None, max_length=64)


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One resource as the kit knows it. `id`: the provider's own; `order.id`: the platform's."""

    id: str
    order: Order
    name: str
    status: str
    plan: str | None = None
    key: bytes = dataclasses.field(default=b"", repr=False)

    def secret(self, purpose: str) -> str:
        """A secret text of this resource: 43 letters, digits, `-` and `_`, the same at every call.

        Derived from the key file next to the store, so that nobody has to store it.
        """
        from base64 import urlsafe_b64encode

        digest = hmac.digest(self.key, f"{purpose}\0{self.order.id}".encode(), "sha256")
        return urlsafe_b64encode(digest).decode("ascii").rstrip("=")


@dataclasses.dataclass(frozen=True, slots=True)
class Provisioned:
    """The answer to an order. `config` becomes secrets of the app, and no repr shows it.

    `status`: "provisioning" says that the work goes on at the provider; `get` tells when it ended.
    `id`: the resource's id at the provider, when it is not the platform's. Source: platform API, 2.8.
    """

    config: Mapping[str, str] = dataclasses.field(repr=False)
    id: str | None = None
    name: str | None = None
    platform_app_name: str | None = None
    status: str = "ready"
    plan: str | None = None


class Report(Struct, frozen=True):
    """The present state of a resource. `details`: further fields of the GET, and rows of the page."""

    status: str
    plan: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Cost(Struct, frozen=True):
    """The costs of one resource. `amount`: decimal digits, as text; `per`: "month", "day" or "hour"."""

    resource_id: str
    amount: str
    currency: str = "USD"
    per: str = "month"
    details: Mapping[str, Any] = field(default_factory=dict)


class Visitor(Struct, frozen=True):
    """A person who signed in, as the platform described them at that time."""

    user_id: str
    name: str
    email: str
    organization_id: str
    role: Role


class MachineEvent(Struct, frozen=True):
    """A change of a machine. `type` and `id` are not signed: read the machine again."""

    machine_id: str
    status: str | None
    data: Mapping[str, Any]
    type: str
    id: str


class Declined(Exception):
    """Raised by a function that refuses an order. The platform is shown the text (422): no secret in it."""


class Functions(Protocol):
    """The five functions. Anything but `Declined` that they raise is answered 500, without its text."""

    async def provision(self, resource: Resource) -> Provisioned:
        """Make the missing parts of the resource, leave the others, and return the same every time.

        Called again for a resource that is all there, it must answer within seconds.
        """
        ...

    async def update(self, resource: Resource) -> None:
        """Make the resource as its `order` now says. A second call with the same order changes nothing."""
        ...

    async def get(self, resource: Resource, visitor: Visitor | None) -> Report:
        """The present state. `visitor`: the reader of the detail page; None for the platform itself."""
        ...

    async def deprovision(self, resource: Resource) -> None:
        """Remove all parts of the resource. A part that is gone already is not a failure."""
        ...

    async def costs(self, resources: Sequence[Resource]) -> Sequence[Cost]:
        """The present costs of the resources, in any order."""
        ...
