"""What a provider's author writes: five functions, and the values that they take and give.

All five may be called again with what they were called with before: after a crash, a lost answer or a
restart that is how the kit finds out. `Resource.secret` helps: it gives the same text every time.
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
    """What the platform asks for. Source: platform API, 2.7."""

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

        Derived from the key file beside the store, so that nobody has to keep it.
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
    """How a resource is. `details`: further fields of the platform's GET and rows of the detail page."""

    status: str
    plan: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Cost(Struct, frozen=True):
    """What one resource costs. `amount`: decimal digits, as text; `per`: "month", "day" or "hour"."""

    resource_id: str
    amount: str
    currency: str = "USD"
    per: str = "month"
    details: Mapping[str, Any] = field(default_factory=dict)


class Visitor(Struct, frozen=True):
    """A person who signed in, as the platform introduced them at that time."""

    user_id: str
    name: str
    email: str
    organization_id: str
    role: Role


class MachineEvent(Struct, frozen=True):
    """A machine of the provider changed. `type` and `id` are not signed: read the machine again."""

    machine_id: str
    status: str | None
    data: Mapping[str, Any]
    type: str
    id: str


class Declined(Exception):
    """A function will not do what it was asked. The platform is shown the text (422), so no secret in it."""


class Functions(Protocol):
    """The five functions. Anything but `Declined` that they raise is answered 500, without its text."""

    async def provision(self, resource: Resource) -> Provisioned:
        """Make what is missing of the resource, leave what is there, and return the same every time.

        Called again for a resource that is all there, it must answer within seconds.
        """
        ...

    async def update(self, resource: Resource) -> None:
        """Make the resource as its `order` now says. Absolute: doing it twice changes nothing more."""
        ...

    async def get(self, resource: Resource, visitor: Visitor | None) -> Report:
        """How the resource is. `visitor`: who reads the detail page; None: the platform asks."""
        ...

    async def deprovision(self, resource: Resource) -> None:
        """Take away all of the resource. What is gone already is done."""
        ...

    async def costs(self, resources: Sequence[Resource]) -> Sequence[Cost]:
        """What the resources cost now, in any order."""
        ...
