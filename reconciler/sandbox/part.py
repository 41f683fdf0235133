"""What a part of the emulated platform is, and what a seed can hold of one: data that is discovered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from reconciler.sandbox.routing import Route
from reconciler.sandbox.seed_form import Item
from reconciler.sandbox.world import Thing, Transitions, World

Items = Mapping[str, Sequence[Any]]  # of a whole seed, by part; each item is checked against its form


def _nothing(*_: Any) -> Iterable[str]:
    return ()


class Part(Struct, frozen=True):
    """One part of the platform: the `PART` of a module of `sandbox/parts/`.

    `things`: the classes of what it keeps. `list_paths`: the path of every list of them that there is now.
    """

    routes: Sequence[Route] = ()
    transitions: Transitions = field(default_factory=dict)
    things: Sequence[type[Thing]] = ()
    list_paths: Callable[[World], Iterable[str]] = _nothing


class Seed(Struct, frozen=True):
    """What a world holds of one class, under `name`: the `SEED` of a module of `sandbox/seeds/`.

    `shown`: a thing as `GET /_sandbox/world` shows it, and as a seed has it. `titles` and `cells`: its table
    on the page for people. `plant` puts an item into a world where those of the seeds in `after` are
    planted. `form`: what the items are checked against first; without one, `plant` checks. `missing`: what
    items refer to and no item is, as `place: problem`. `finish`: what is done when everything is planted.
    """

    name: str
    cls: type[Thing]
    shown: Callable[[World, Any], Mapping[str, Any]]
    titles: Sequence[str]
    cells: Callable[[World, Any], Sequence[Any]]
    plant: Callable[[World, Any], object]
    form: type[Item] | None = None
    after: Sequence[str] = ()
    missing: Callable[[Items], Iterable[str]] = _nothing
    finish: Callable[[World], None] = lambda world: None


def apps_in(items: Items) -> set[str]:
    """The apps of a seed: one exists as soon as something of it does."""
    named = {app.name for app in items["apps"]}
    return named | {item.app for each in items.values() for item in each if getattr(item, "app", None)}


def said(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without a form: null means that the field is left out."""
    return {name: value for name, value in item.items() if value is not None}
