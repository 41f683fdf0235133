"""What manifests want of the power of machines."""

from collections.abc import Iterable

from reconciler.core.model import Resource

# What a machine may be after a run that wanted it so. That a start was accepted is enough.
POWERS = {
    "started": ("started", "running", "starting", "restarting", "updating"),
    "suspended": ("suspended",),
}
# What is recorded from the call on until the wait for it ends.
COMING = {"started": "starting", "suspended": "suspending"}


def stays_suspended(resources: Iterable[Resource], machine: str) -> bool:
    """Whether a manifest wants `machine` suspended."""
    return any(
        each.address.kind == "Machine" and each.spec.id == machine and each.spec.power == "suspended"
        for each in resources
    )
