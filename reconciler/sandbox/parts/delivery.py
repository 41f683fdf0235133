"""The outbox to providers: machine events, and questions about costs.

A new state of a machine is sent to the providers of its organization that want events. Every day of a
provider ends with the question about costs; the document does not show its path, so a provider registers it.

A delivery is stored together with the change that it reports, and stays `waiting` until the courier has
sent it, so that a killed process loses none. It may be sent twice then, under the same id.

Source: platform API, 2.11, 4.5 rule 5 and 6.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.part import Part
from reconciler.sandbox.parts.machine import shown_state
from reconciler.sandbox.parts.provider import BillingDay, Provider, Resource
from reconciler.sandbox.parts.volume import DAY_S
from reconciler.sandbox.world import App, Machine, Thing, Transition, World

WAITING, DELIVERED, FAILED = "waiting", "delivered", "failed"
MOST_KEPT = 1000
ONE = "{id}"  # where it stands in the path, each resource is asked for; else all are at once
LEAST_S = 10.0  # real seconds between two questions, where the world's clock is faster


@dataclass
class Delivery(Thing):
    """`about` is the id of the machine or resource, empty for all resources.

    `type`, `source` and `payload` are those of an event. `status`: of the last answer, None for none.
    `answer`: what it said of costs.
    """

    kind = "delivery"
    provider: str
    purpose: str
    about: str
    made_at: float
    type: str = ""
    source: str = ""
    payload: dict[str, Any] | None = None
    attempts: int = 0
    status: int | None = None
    problem: str = ""
    answer: Any = None


def owe(world: World, provider: Provider, purpose: str, about: str, at: float, **event: Any) -> None:
    """Add a delivery; the oldest of those that are done drop out."""
    done = [delivery for delivery in world.all(Delivery) if delivery.state != WAITING]
    for old in done[: max(0, len(done) - MOST_KEPT + 1)]:
        world.remove(old)
    delivery = Delivery(
        world.new_id(), provider=provider.id, purpose=purpose, about=about, made_at=at, **event
    )
    world.enter(delivery, WAITING, at)


def waiting(world: World) -> Iterator[Delivery]:
    """The deliveries that are not sent yet, oldest first."""
    return (delivery for delivery in world.all(Delivery) if delivery.state == WAITING)


def wire(delivery: Delivery) -> dict[str, Any]:
    """The delivery as the control verb shows it; the answer only of costs."""
    message = {
        "id": delivery.id,
        "at": rfc3339(delivery.made_at, 3),
        **delivery.shown("provider", "purpose", "about", "state", "attempts", "status", "problem"),
    }
    if delivery.purpose == "event":
        return message | {"type": delivery.type, "payload": delivery.payload}
    return message | {"answer": delivery.answer}


def _end_day(world: World, day: BillingDay, at: float) -> None:
    """Ask about costs once, also after a long jump of the clock; unanswered questions are not repeated."""
    provider = world.find(Provider, day.id)
    soon = world.hurried and world.wall() < day.asked_at + LEAST_S
    if provider and provider.costs_path and not soon:
        day.asked_at = world.wall()
        known = [
            resource.resource_id for resource in world.children(Resource, provider.id) if resource.present
        ]
        wanted = known if ONE in provider.costs_path else [""] * bool(known)
        unanswered = {
            delivery.about
            for delivery in waiting(world)
            if (delivery.purpose, delivery.provider) == ("costs", provider.id)
        }
        for about in wanted:
            if about not in unanswered:
                owe(world, provider, "costs", about, at)
    world.enter(day, "passing", at + (world.now - at) // DAY_S * DAY_S)


def note(world: World, thing: Thing, before: str, at: float) -> None:
    """Queue events of a new state of a machine. A registration is not an event: the machine was there."""
    if not isinstance(thing, Machine) or not before:
        return
    app = world.find(App, thing.app)
    word = shown_state(world, thing)
    data = {"Transition": f"{before} to {thing.state}"}
    if thing.state == "failed":
        data["Error"] = "machine failed"
    for provider in world.all(Provider):
        if provider.events and app and app.org_slug == provider.organization:
            owe(
                world,
                provider,
                "event",
                thing.id,
                at,
                type=f"io.sandbox.machine.{word}",
                source=f"/v1/apps/{thing.app}/machines/{thing.id}",
                payload={"machine_id": thing.id, "status": word, "data": data},
            )


PART = Part(transitions={("billing_day", "passing"): Transition(DAY_S, _end_day)}, things=(Delivery,))
