"""What the platform is made of: parts, which are the modules here with `ROUTES` and `TRANSITIONS`.

A part may have `list_paths(world)` as well: the path of every list of its objects that there is now.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from reconciler.sandbox.parts import webhook
from reconciler.sandbox.routing import Route
from reconciler.sandbox.world import App, Organization, Thing, Transitions, World

# Of a part, looked for in its text: other modules import this one, or need what serves HTTP.
_SIGN = "\nTRANSITIONS: Transitions = "


def _parts() -> Iterator[ModuleType]:
    """In order of name."""
    for file in sorted((Path(__file__).parent / "parts").glob("*.py")):
        module = f"{__package__}.parts.{file.stem}"
        if _SIGN in file.read_text(encoding="utf-8"):
            yield importlib.import_module(module)


PARTS = tuple(_parts())
ROUTES: tuple[Route, ...] = tuple(route for part in PARTS for route in part.ROUTES)
TRANSITIONS: Transitions = {key: each for part in PARTS for key, each in part.TRANSITIONS.items()}
KINDS: dict[str, type[Thing]] = {
    cls.kind: cls
    for cls in (Organization, App, *(each for part in PARTS for each in vars(part).values()))
    if isinstance(cls, type) and issubclass(cls, Thing) and cls is not Thing
}

# Outside of `/v1`: callers prove who they are in other ways than by the platform's token.
OPEN = ("/oauth/", webhook.PREFIX)


def list_paths(world: World) -> Iterator[str]:
    """The path of every list that there is now, extended ones too."""
    for part in PARTS:
        if hasattr(part, "list_paths"):
            yield from part.list_paths(world)
