"""What the platform is made of: the `PART` of every module of `parts/`, in order of their names."""

import importlib
import pkgutil
from collections.abc import Iterator
from operator import attrgetter

from reconciler.sandbox import parts
from reconciler.sandbox.part import Part, Seed
from reconciler.sandbox.parts import webhook
from reconciler.sandbox.routing import Route
from reconciler.sandbox.world import Thing, Transitions, World

PARTS: tuple[Part, ...] = tuple(
    importlib.import_module(info.name).PART
    for info in pkgutil.iter_modules(parts.__path__, f"{parts.__name__}.")
)
ROUTES: tuple[Route, ...] = tuple(route for part in PARTS for route in part.routes)
TRANSITIONS: Transitions = {key: each for part in PARTS for key, each in part.transitions.items()}
KINDS: dict[str, type[Thing]] = {cls.kind: cls for part in PARTS for cls in part.things}
SEEDS: tuple[Seed, ...] = tuple(
    sorted((seed for part in PARTS for seed in part.seeds), key=attrgetter("name"))
)

# Outside of `/v1`: callers prove who they are in other ways than by the platform's token.
OPEN = ("/oauth/", webhook.PREFIX)


def list_paths(world: World) -> Iterator[str]:
    """The path of every list that there is now, extended ones too."""
    for part in PARTS:
        yield from part.list_paths(world)
