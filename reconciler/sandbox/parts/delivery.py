"""What the platform owes providers: machine events, and questions after costs. An outbox in the world.

A delivery is stored together with the change that it tells of, and stays `waiting` until the courier has
sent it, so that a killed process loses none. It may be sent twice then, under the same id.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.part import Part
from reconciler.sandbox.parts.provider import Provider
from reconciler.sandbox.world import Thing, World

WAITING, DELIVERED, FAILED = "waiting", "delivered", "failed"
MOST_KEPT = 1000


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
    """Add one; of those that are done, the oldest are forgotten."""
    _forget(world)
    delivery = Delivery(
        world.new_id(), provider=provider.id, purpose=purpose, about=about, made_at=at, **event
    )
    world.enter(delivery, WAITING, at)


def waiting(world: World) -> Iterator[Delivery]:
    """The oldest first."""
    return (each for each in world.all(Delivery) if each.state == WAITING)


def wire(delivery: Delivery) -> dict[str, Any]:
    message = {
        "id": delivery.id,
        "at": rfc3339(delivery.made_at, 3),
        "provider": delivery.provider,
        "purpose": delivery.purpose,
        "about": delivery.about,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "status": delivery.status,
        "problem": delivery.problem,
    }
    if delivery.purpose == "event":
        return message | {"type": delivery.type, "payload": delivery.payload}
    return message | {"answer": delivery.answer}


def _forget(world: World) -> None:
    done = [each for each in world.all(Delivery) if each.state != WAITING]
    for each in done[: max(0, len(done) - MOST_KEPT + 1)]:
        world.remove(each)


PART = Part(things=(Delivery,))
