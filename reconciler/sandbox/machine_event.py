"""Machine events: each new state of a machine is owed to the providers of its organization that want it.

Source: platform API, 2.11 and 6.2.
"""

from reconciler.sandbox.parts import delivery
from reconciler.sandbox.parts.machine import shown_state
from reconciler.sandbox.parts.provider import Provider
from reconciler.sandbox.world import App, Machine, Thing, World


def note(world: World, thing: Thing, before: str, at: float) -> None:
    """What the world's watcher is told. A machine that is registered was there before: no event."""
    if not isinstance(thing, Machine) or not before:
        return
    app = world.find(App, thing.app)
    word = shown_state(world, thing)
    for provider in world.all(Provider):
        if provider.events and app and app.org_slug == provider.organization:
            delivery.owe(
                world,
                provider,
                "event",
                thing.id,
                at,
                type=f"io.sandbox.machine.{word}",
                source=f"/v1/apps/{thing.app}/machines/{thing.id}",
                payload={"machine_id": thing.id, "status": word, "data": _data(thing, before)},
            )


def _data(machine: Machine, before: str) -> dict[str, str]:
    transition = {"Transition": f"{before} to {machine.state}"}
    return transition | ({"Error": "machine failed"} if machine.state == "failed" else {})
