"""Apps and the organizations that own them. Their own API is not shown: they are made by control verbs."""

from typing import Any

from reconciler.sandbox.exchange import Refusal
from reconciler.sandbox.part import Part
from reconciler.sandbox.world import App, Organization, World

PERSONAL = "personal"
DEFAULT_REGION = "ams"


def required_app(world: World, name: str) -> App:
    """Raises Refusal 404 in the platform's words. Source: platform notes, "Errors, limits, headers"."""
    app = world.find(App, name)
    if app is None:
        raise Refusal(404, "Could not find App")
    return app


def listed_app(world: World, name: str) -> App:
    """As `required_app`, but a new app is not found by its lists for a while (switch new_app_404_s)."""
    app = required_app(world, name)
    if world.now < app.created_at + world.switches["new_app_404_s"]:
        raise Refusal(404, "Could not find App")
    return app


def register(world: World, name: str, org_slug: str | None = None, primary_region: str | None = None) -> App:
    """Create the app, or change what is given of an existing one; its organization exists from then on."""
    app = world.find(App, name)
    if app is None:
        app = App(name, org_slug or PERSONAL, primary_region or DEFAULT_REGION, created_at=world.now)
        world.put(app)
    before = (app.org_slug, app.primary_region)
    app.org_slug, app.primary_region = org_slug or app.org_slug, primary_region or app.primary_region
    if (app.org_slug, app.primary_region) != before:
        world.put(app)
    register_organization(world, app.org_slug)
    return app


def register_organization(world: World, slug: str) -> None:
    if not world.has_organization(slug):
        world.put(Organization(slug))


def organization_name(slug: str) -> str:
    return "Personal" if slug == PERSONAL else slug


def wire(app: App) -> dict[str, str]:
    return {"name": app.id, "org_slug": app.org_slug, "primary_region": app.primary_region}


def world_wire(app: App) -> dict[str, Any]:
    """The app as the world shows it to tests."""
    return {**wire(app), "secrets_version": app.secrets_version}


PART = Part(
    things=(
        Organization,
        App,
    )
)
