"""Apps and the organizations that own them: registered by control verbs, read over endpoints of their own.

The endpoints are those that clients written by others call first. An app exists as soon as something of it
does: a seed registers it with its volumes, secrets and machines. Its lists may answer 404 for a while (switch
new_app_404_s). An organization exists as soon as an app, a cluster or a user names it.

Source: platform notes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ConfigDict, Field

from reconciler.core.wire import Wire
from reconciler.sandbox.exchange import NAME, Refusal, Request, Response, read, refused, reply
from reconciler.sandbox.part import Count, Item, Name, Part, Routes, Seed, Text
from reconciler.sandbox.world import App, Machine, Organization, T, World
from reconciler.services.machines.wire import cluster as wires

PERSONAL = "personal"
DEFAULT_REGION = "ams"
_NAME_OR_ORGANIZATION: Any = [
    {"required": [name], "properties": {name: {"type": "string"}}} for name in ("name", "org_slug")
]

route = Routes("app_read")


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


@route.extended("GET", "/v1/apps/{app_name}", "Get an app", wires.App, errors=(403,))
def get(world: World, request: Request, app_name: str) -> Response:
    """One app with its organization."""
    return reply(_read_wire(world, required_app(world, app_name)))


@route.extended(
    "GET",
    "/v1/apps",
    "List apps",
    wires.AppList,
    errors=(403,),
    query={"org_slug": {"type": "string"}},
    gives={"app_name": "/apps/0/name"},
)
def list_all(world: World, request: Request) -> Response:
    """List those of the organization `org_slug`; without one, all that the token may touch."""
    slug = request.parameter("org_slug")
    apps = [
        _read_wire(world, app)
        for app in world.all(App)
        if slug in (None, app.org_slug) and request.may_touch(app.org_slug)
    ]
    return reply({"total_apps": len(apps), "apps": apps})


def required_app(world: World, name: str) -> App:
    """Raises Refusal 404 in the platform's words. Source: platform notes, "Errors, limits, headers"."""
    app = world.find(App, name)
    if app is None:
        raise Refusal(404, "Could not find App")
    return app


def required_in_app(world: World, cls: type[T], app_name: str, id: str) -> T:
    """Raises Refusal 404 when the app is not there or the thing is not the app's."""
    required_app(world, app_name)
    thing = world.find(cls, id)
    if thing is None or app_name not in thing.parents:
        raise Refusal(404, f"{cls.kind} not found", "not_found")
    return thing


def listed_in_app(world: World, cls: type[T], app_name: str) -> Iterable[T]:
    """List the things of the app. Its lists do not find a new one for a while (switch new_app_404_s)."""
    app = required_app(world, app_name)
    if world.now < app.created_at + world.switches["new_app_404_s"]:
        raise Refusal(404, "Could not find App")
    return world.children(cls, app_name)


def register(world: World, name: str, org_slug: str | None = None, primary_region: str | None = None) -> App:
    """Create the app, or change what is given of an existing one; its organization exists from then on."""
    app = world.find(App, name)
    before = app and (app.org_slug, app.primary_region)
    app = app or App(name, PERSONAL, DEFAULT_REGION, created_at=world.now)
    app.org_slug, app.primary_region = org_slug or app.org_slug, primary_region or app.primary_region
    if (app.org_slug, app.primary_region) != before:
        world.put(app)
    register_organization(world, app.org_slug)
    return app


def register_body(world: World, body: Mapping[str, Any]) -> dict[str, Any]:
    """Register an `AppRegistration`; without a name, only the organization."""
    wanted = read(body, AppRegistration)
    if wanted.name is not None:
        return wire(register(world, wanted.name, wanted.org_slug, wanted.primary_region))
    if wanted.org_slug is None:
        raise refused("name", "is required")
    register_organization(world, wanted.org_slug)
    return {"org_slug": wanted.org_slug}


def register_organization(world: World, slug: str) -> None:
    """Make the organization exist."""
    if not world.has_organization(slug):
        world.put(Organization(slug))


def organization_wire(slug: str) -> dict[str, str]:
    """The organization as apps and clusters show it."""
    return {"name": "Personal" if slug == PERSONAL else slug, "slug": slug}


def wire(app: App) -> dict[str, Any]:
    """The app as the control verb shows it."""
    return {"name": app.id, "org_slug": app.org_slug, "primary_region": app.primary_region}


def _read_wire(world: World, app: App) -> dict[str, Any]:
    machines = sum(machine.present for machine in world.children(Machine, app.id))
    return {
        "id": app.id,
        "name": app.id,
        "organization": organization_wire(app.org_slug),
        "status": "deployed" if machines else "pending",
        "machine_count": machines,
    }


class AppItem(Item):
    """An app in a seed."""

    name: Name
    org_slug: Name | None = None
    primary_region: Text | None = None
    secrets_version: Count | None = None

    unique = ("name",)


def _plant(world: World, item: AppItem) -> None:
    app = register(world, item.name, item.org_slug, item.primary_region)
    app.secrets_version = item.secrets_version or 0
    world.put(app)


_SEED = Seed(
    "apps",
    App,
    shown=lambda world, app: {**wire(app), "secrets_version": app.secrets_version},
    columns=(("name", "id"), ("organization", "org_slug"), ("region", "primary_region")),
    plant=_plant,
    form=AppItem,
)

PART = Part(routes=route.found, things=(Organization, App), seeds=(_SEED,))
