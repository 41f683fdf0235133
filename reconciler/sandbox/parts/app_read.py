"""Apps as their own endpoints show them, which many clients ask first. They are made by control verbs.

Source: platform notes; what clients written by others send and read.
"""

from typing import Any

from reconciler.sandbox.exchange import Request, Response, reply
from reconciler.sandbox.part import Part
from reconciler.sandbox.parts.app import organization_name, required_app
from reconciler.sandbox.routing import Routes
from reconciler.sandbox.world import App, Machine, World
from reconciler.services.machines.wire import app as wires

route = Routes("app_read")


@route("GET", "/v1/apps/{app_name}", "Get an app", wires.App, errors=(403,), extended=True)
def get(world: World, request: Request, app_name: str) -> Response:
    return reply(_wire(world, required_app(world, app_name)))


@route(
    "GET",
    "/v1/apps",
    "List apps",
    wires.AppList,
    errors=(403,),
    extended=True,
    query={"org_slug": {"type": "string"}},
    gives={"app_name": "/apps/0/name"},
)
def list_all(world: World, request: Request) -> Response:
    """Those of the organization `org_slug`; of all that the token may touch without one."""
    slug = request.parameter("org_slug")
    apps = [
        _wire(world, app)
        for app in world.all(App)
        if slug in (None, app.org_slug) and request.may_touch(app.org_slug)
    ]
    return reply({"total_apps": len(apps), "apps": apps})


def _wire(world: World, app: App) -> dict[str, Any]:
    machines = sum(machine.present for machine in world.children(Machine, app.id))
    return {
        "id": app.id,
        "name": app.id,
        "organization": {"name": organization_name(app.org_slug), "slug": app.org_slug},
        "status": "deployed" if machines else "pending",
        "machine_count": machines,
    }


PART = Part(routes=route.found)
