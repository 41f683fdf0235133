"""The daily question after costs: what every day of a provider ends with.

Source: platform API, 4.5 rule 5. The path is not shown: each provider registers its own.
"""

from dataclasses import dataclass

from reconciler.sandbox.part import Part
from reconciler.sandbox.parts import delivery
from reconciler.sandbox.parts.provider import Provider, Resource
from reconciler.sandbox.parts.volume import DAY_S
from reconciler.sandbox.world import Thing, Transition, Transitions, World

ONE = "{id}"  # where it stands in the path, each resource is asked for; else all are at once
LEAST_S = 10.0  # real seconds between two questions, where the world's clock is faster


@dataclass
class BillingDay(Thing):
    """`id` is the provider's; `asked_at` by the real clock."""

    kind = "billing_day"
    asked_at: float = 0.0


def begin(world: World, provider: Provider) -> None:
    """Let the provider's days begin, if they have not."""
    if world.find(BillingDay, provider.id) is None:
        world.enter(BillingDay(provider.id), "passing")


def _end(world: World, day: BillingDay, at: float) -> None:
    """A long jump of the clock asks once; nothing is asked anew that has not been answered."""
    provider = world.find(Provider, day.id)
    soon = world.hurried and world.wall() < day.asked_at + LEAST_S
    if provider and provider.costs_path and not soon:
        day.asked_at = world.wall()
        known = [each.resource_id for each in world.children(Resource, provider.id) if each.present]
        wanted = known if ONE in provider.costs_path else [""] * bool(known)
        unanswered = {
            each.about
            for each in delivery.waiting(world)
            if (each.purpose, each.provider) == ("costs", provider.id)
        }
        for about in wanted:
            if about not in unanswered:
                delivery.owe(world, provider, "costs", about, at)
    world.enter(day, "passing", at + (world.now - at) // DAY_S * DAY_S)


_TRANSITIONS: Transitions = {("billing_day", "passing"): Transition(DAY_S, _end)}

PART = Part(transitions=_TRANSITIONS, things=(BillingDay,))
