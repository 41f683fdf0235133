"""What manifests want of the power of machines."""

from collections.abc import Iterable

from reconciler.core.model import Resource

# What a machine may be after a run that wanted it so. That a start was accepted is enough.
POWERS = {
    "started": ("started", "running", "starting", "restarting", "updating"),
    "suspended": ("suspended",),
    "stopped": ("stopped",),
}
# What is recorded from the call on until the wait for it ends.
COMING = {"started": "starting", "suspended": "suspending", "stopped": "stopping"}
AT_REST = ("suspended", "stopped")


def wanted_power(resources: Iterable[Resource], machine: str) -> str | None:
    """What a manifest wants of `machine`; None where none does."""
    for each in resources:
        if each.address.kind == "Machine" and each.spec.id == machine:
            power: str | None = each.spec.power
            return power
    return None
