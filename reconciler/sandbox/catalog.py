"""What the platform is made of. A new group of endpoints is its own file and one entry in `PARTS`."""

from reconciler.sandbox import cluster, machine, machine_power, secret, snapshot, volume
from reconciler.sandbox.routing import Route
from reconciler.sandbox.world import App, Organization, Thing, Transitions

PARTS = (cluster, volume, snapshot, secret, machine, machine_power)

ROUTES: tuple[Route, ...] = tuple(route for part in PARTS for route in part.ROUTES)
TRANSITIONS: Transitions = {key: each for part in PARTS for key, each in part.TRANSITIONS.items()}
KINDS: dict[str, type[Thing]] = {
    cls.kind: cls
    for cls in (
        Organization,
        App,
        cluster.Cluster,
        volume.Volume,
        volume.Snapshot,
        secret.Secret,
        machine.Machine,
    )
}
