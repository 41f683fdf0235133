"""The bodies of the two control verbs that the description shows: nothing can be made without an app."""

from typing import Any

from pydantic import ConfigDict, Field

from reconciler.services.wire import Wire

# What every client can put into a path.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"


_NAME_OR_ORGANIZATION: Any = [
    {"required": [one], "properties": {one: {"type": "string"}}} for one in ("name", "org_slug")
]


class AppRegistration(Wire):
    """Without a name, only the organization is registered."""

    model_config = ConfigDict(json_schema_extra={"anyOf": _NAME_OR_ORGANIZATION})

    name: str | None = Field(None, pattern=NAME)
    org_slug: str | None = Field(None, pattern=NAME)
    primary_region: str | None = None


class AppRegistered(Wire):
    """Only the organization has no name."""

    org_slug: str
    name: str = ""
    primary_region: str = ""


class MachineRegistration(Wire):
    """`volumes`, `schedule`, `updated_at` and more are taken too: see the manual."""

    app: str = Field(pattern=r"[^\x00-\x20]")
    name: str | None = None
    region: str | None = None
    memory_mb: int | None = Field(None, ge=1)
    swap_size_mb: int | None = Field(None, ge=0)
