"""What a test or a seed puts into the world by hand: apps, machines and providers.

The models are the bodies that the description shows: nothing can be made without an app.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field

from reconciler.core.wire import Wire, parse_time
from reconciler.sandbox import fields
from reconciler.sandbox.clock import YEAR_ONE_S
from reconciler.sandbox.parts import app, billing, machine, provider
from reconciler.sandbox.world import World

_NAME_OR_ORGANIZATION: Any = [
    {"required": [one], "properties": {one: {"type": "string"}}} for one in ("name", "org_slug")
]


class AppRegistration(Wire):
    """Without a name, only the organization is registered."""

    model_config = ConfigDict(json_schema_extra={"anyOf": _NAME_OR_ORGANIZATION})

    name: str | None = Field(None, pattern=fields.NAME)
    org_slug: str | None = Field(None, pattern=fields.NAME)
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
    memory_mb: int | None = Field(None, ge=1, le=fields.MOST)
    swap_size_mb: int | None = Field(None, ge=0, le=fields.MOST)


def register_provider(world: World, body: Mapping[str, Any]) -> dict[str, Any]:
    """See `provider.register`; its days begin."""
    registered = provider.register(world, body)
    billing.begin(world, registered)
    return provider.wire(registered)


def register_app(world: World, body: Mapping[str, Any]) -> dict[str, Any]:
    """`{name?, org_slug?, primary_region?}`; without a name, only the organization is made."""
    name, org_slug = fields.text(body, "name"), fields.text(body, "org_slug")
    primary_region = fields.text(body, "primary_region")
    if name is None and org_slug is not None:
        app.register_organization(world, _plain(org_slug, "org_slug"))
        return {"org_slug": org_slug}
    name = _plain(fields.required_text(body, "name"), "name")
    slug = None if org_slug is None else _plain(org_slug, "org_slug")
    return app.wire(app.register(world, name, slug, primary_region))


def register_machine(world: World, body: Mapping[str, Any]) -> dict[str, Any]:
    """`{app, id?, name?, state?, volumes?: [id], memory_mb?, swap_size_mb?, schedule?, updated_at?, …}`."""
    id = fields.text(body, "id")
    registered = machine.register(
        world,
        fields.required_text(body, "app"),
        id=id and _plain(id, "id"),
        volumes=_volume_ids(body, "volumes"),
        pending_restart=_volume_ids(body, "pending_restart"),
        snapshot=fields.flag(body, "snapshot"),
        state=fields.text(body, "state"),
        name=fields.text(body, "name"),
        region=fields.text(body, "region"),
        cpu_kind=fields.choice(body, "cpu_kind", ("shared", "performance")),
        cpus=fields.whole(body, "cpus", 1),
        memory_mb=fields.whole(body, "memory_mb", 1),
        swap_size_mb=fields.whole(body, "swap_size_mb", 0),
        schedule=fields.text(body, "schedule"),
        created_at=_moment(body, "created_at"),
        updated_at=_moment(body, "updated_at"),
        booted_at=_moment(body, "booted_at"),
    )
    return machine.world_wire(world, registered)


def _volume_ids(body: Mapping[str, Any], name: str) -> list[str] | None:
    ids = body.get(name)
    if ids is not None and not (isinstance(ids, list) and all(isinstance(each, str) for each in ids)):
        raise fields.refused(name, "must be an array of volume ids")
    return ids


def _moment(body: Mapping[str, Any], name: str) -> float | None:
    """Seconds since the epoch, `YEAR_ONE_S` for year 1. Raises Refusal for others before 1970."""
    text = fields.text(body, name)
    if text is None:
        return None
    if text.startswith("0001-"):
        return YEAR_ONE_S
    moment = parse_time(text)
    if moment is None or moment.timestamp() < 0:
        raise fields.refused(name, "must be a date and time since 1970, or in year 1")
    return moment.timestamp()


def _plain(name: str, field: str) -> str:
    if not re.fullmatch(fields.NAME, name):
        raise fields.refused(field, "must be letters, digits, dots, dashes and underscores, at most 200")
    return name
