"""What control verbs and the page for people see of a sandbox."""

from collections.abc import Mapping
from typing import Any, Protocol

from reconciler.sandbox.clock import WorldClock
from reconciler.sandbox.database import Database
from reconciler.sandbox.faults import Faults
from reconciler.sandbox.world import World


class Controlled(Protocol):
    """`core.Sandbox`, without its front door: the verbs change the world, and ask it nothing."""

    world: World
    clock: WorldClock
    faults: Faults
    database: Database
    extended: bool
    strict: bool

    def settle(self) -> None:
        """See `core.Sandbox.settle`."""

    def set_switches(self, wanted: Mapping[str, Any]) -> None:
        """See `core.Sandbox.set_switches`."""

    def lists(self, glob: str) -> dict[str, Any]:
        """See `core.Sandbox.lists`."""
