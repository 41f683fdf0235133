"""What the platform is made of. A new group of endpoints is its own file and one entry in `PARTS`."""

from collections.abc import Iterator
from urllib.parse import quote

from reconciler.sandbox import (
    billing,
    cluster,
    day,
    delivery,
    machine,
    machine_power,
    oauth,
    provider,
    secret,
    snapshot,
    volume,
    webhook,
)
from reconciler.sandbox.routing import Route
from reconciler.sandbox.world import App, Organization, Thing, Transitions, World

PARTS = (
    cluster,
    volume,
    snapshot,
    day,
    secret,
    machine,
    machine_power,
    provider,
    oauth,
    webhook,
    delivery,
    billing,
)

ROUTES: tuple[Route, ...] = tuple(route for part in PARTS for route in part.ROUTES)
TRANSITIONS: Transitions = {key: each for part in PARTS for key, each in part.TRANSITIONS.items()}
KINDS: dict[str, type[Thing]] = {
    cls.kind: cls
    for cls in (
        Organization,
        App,
        cluster.Cluster,
        volume.Volume,
        volume.Day,
        volume.Snapshot,
        secret.Secret,
        machine.Machine,
        provider.Provider,
        provider.User,
        provider.Resource,
        oauth.Credential,
        webhook.Taken,
        delivery.Delivery,
        billing.BillingDay,
    )
}

# Outside of `/v1`: callers prove who they are in other ways than by the platform's token.
OPEN = ("/oauth/", webhook.PREFIX)


def list_paths(world: World) -> Iterator[str]:
    """The path of every list that there is now, extended ones too."""
    yield "/v1/postgres"
    for app in world.all(App):
        for group in ("volumes", "secrets", "machines"):
            yield f"/v1/apps/{quote(app.id, safe='')}/{group}"
    for each in world.all(volume.Volume):
        yield f"/v1/apps/{quote(each.app, safe='')}/volumes/{each.id}/snapshots"
