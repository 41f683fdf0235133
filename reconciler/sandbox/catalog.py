"""What the platform is made of: the `PART` of each module of `parts/`, the `SEED` of each one of `seeds/`."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from reconciler.sandbox.part import Part, Seed
from reconciler.sandbox.parts import webhook
from reconciler.sandbox.routing import Route
from reconciler.sandbox.world import Thing, Transitions, World


def _found(folder: str, name: str) -> Iterator[Any]:
    """In order of the modules' names."""
    package = importlib.import_module(f"{__package__}.{folder}")
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield getattr(importlib.import_module(info.name), name)


PARTS: tuple[Part, ...] = tuple(_found("parts", "PART"))
ROUTES: tuple[Route, ...] = tuple(route for part in PARTS for route in part.routes)
TRANSITIONS: Transitions = {key: each for part in PARTS for key, each in part.transitions.items()}
KINDS: dict[str, type[Thing]] = {cls.kind: cls for part in PARTS for cls in part.things}
SEEDS: tuple[Seed, ...] = tuple(_found("seeds", "SEED"))

# Outside of `/v1`: callers prove who they are in other ways than by the platform's token.
OPEN = ("/oauth/", webhook.PREFIX)


def list_paths(world: World) -> Iterator[str]:
    """The path of every list that there is now, extended ones too."""
    for part in PARTS:
        yield from part.list_paths(world)
