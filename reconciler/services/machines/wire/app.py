"""Apps as the platform sends them. Source: what clients written by others read of them."""

from reconciler.core.wire import Wire
from reconciler.services.machines.wire.cluster import Organization


class App(Wire):
    id: str
    name: str
    organization: Organization
    status: str | None = None
    machine_count: int | None = None


class AppList(Wire):
    total_apps: int
    apps: list[App]
