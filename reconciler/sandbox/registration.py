"""The bodies of the two control verbs that the description shows: nothing can be made without an app."""

from pydantic import Field

from reconciler.wire.base import Wire

# What every client can put into a path.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"


class AppRegistration(Wire):
    name: str = Field(pattern=NAME)
    org_slug: str | None = Field(None, pattern=NAME)
    primary_region: str | None = None


class AppRegistered(Wire):
    name: str
    org_slug: str
    primary_region: str


class MachineRegistration(Wire):
    """`volumes`, `schedule`, `updated_at` and more are taken too: see the manual."""

    app: str = Field(pattern=r"[^\x00-\x20]")
    name: str | None = None
    region: str | None = None
    memory_mb: int | None = Field(None, ge=1)
    swap_size_mb: int | None = Field(None, ge=0)
