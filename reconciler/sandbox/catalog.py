"""What the platform is made of, and how a world is planted from a seed.

The catalog is the `PART` of every module of `parts/`, in order of their names. A seed is checked whole before
it is planted: each item against its form, then for what it refers to.
"""

import importlib
import json
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from reconciler.core.errors import StoreError
from reconciler.sandbox import parts
from reconciler.sandbox.exchange import UNKNOWN, Refusal, listed, located, problems, without_nulls
from reconciler.sandbox.part import Item, Part, Route, Seed
from reconciler.sandbox.parts import app, machine, provider
from reconciler.sandbox.parts.volume import Volume
from reconciler.sandbox.world import App, Thing, Transitions, World

PARTS: tuple[Part, ...] = tuple(
    importlib.import_module(info.name).PART
    for info in pkgutil.iter_modules(parts.__path__, f"{parts.__name__}.")
)
ROUTES: tuple[Route, ...] = tuple(route for part in PARTS for route in part.routes)
TRANSITIONS: Transitions = {key: then for part in PARTS for key, then in part.transitions.items()}
KINDS: dict[str, type[Thing]] = {cls.kind: cls for part in PARTS for cls in part.things}
SEEDS: tuple[Seed, ...] = tuple(
    sorted((seed for part in PARTS for seed in part.seeds), key=attrgetter("name"))
)

# Outside of `/v1`: callers prove who they are in other ways than by the platform's token.
OPEN = ("/oauth/", provider.WEBHOOKS)


def routes(*, extended: bool) -> list[Route]:
    """The routes of a profile."""
    return [route for route in ROUTES if extended or not route.extended]


def lists(world: World) -> Iterator[tuple[str, Route, Mapping[str, str]]]:
    """Every list that there is now, extended ones too: its path, its route and its parameters."""
    for route in ROUTES:
        if route.name.endswith("_list_all"):
            parents: Iterable[dict[str, str]] = [{}]
            if "{volume_id}" in route.path:
                parents = ({"app_name": volume.app, "volume_id": volume.id} for volume in world.all(Volume))
            elif "{app_name}" in route.path:
                parents = ({"app_name": app.id} for app in world.all(App))
            for parameters in parents:
                quoted = {name: quote(value, safe="") for name, value in parameters.items()}
                yield route.path.format(**quoted), route, parameters


def plant(
    world: World,
    seed: Path | Mapping[str, Any] | None,
    apps: Sequence[Mapping[str, Any]],
    machines: Sequence[Mapping[str, Any]],
    *,
    name: str = "",
) -> None:
    """Plant `seed` into an empty world, then `apps` and `machines` into any.

    `apps` and `machines` are bodies of the control verbs. A seed has the form of `GET /_sandbox/world`; ids
    may be missing, and a secret may have its `value`. From a path it is read as JSON. Raises StoreError,
    which names `name` (or the path) and each place, when it cannot be read or planted.
    """
    empty = not any(any(world.all(part.cls)) for part in SEEDS)
    if seed is not None and empty:
        name = name or (str(seed) if isinstance(seed, Path) else "the seed")
        found = _plant_document(world, _document(seed, name) if isinstance(seed, Path) else seed)
        if found:
            raise StoreError(listed(found, name))
    try:
        for body in apps:
            app.register_body(world, body)
        for body in machines:
            machine.register_body(world, body)
    except Refusal as refusal:
        raise StoreError(f"the sandbox cannot store this: {refusal.message}") from None


def _document(file: Path, name: str) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{name} is not a seed: {error}") from error


def _plant_document(world: World, document: Any) -> list[str]:
    """What is wrong with the seed, as `place: problem`. Then the world is not to be used."""
    if not isinstance(document, Mapping):
        return ["a seed is a mapping"]
    try:
        items = dict(_Document.model_validate(without_nulls(document)))
    except ValidationError as error:
        return [f"{problem}{_known(problem)}" for problem in problems(error)]
    found = [problem for seed in SEEDS for problem in _repeated(seed.name, items[seed.name])]
    found += [problem for seed in SEEDS for problem in seed.missing(items)]
    seeds = {seed.name: seed for seed in SEEDS}
    for name in TopologicalSorter({seed.name: seed.after for seed in SEEDS}).static_order():
        for number, item in enumerate(items[name]):
            try:
                seeds[name].plant(world, item)
            except Refusal as refusal:
                found.append(f"{located(name, [number])}: {refusal.message}")
    for seed in SEEDS:
        seed.finish(world)
    return found


_fields: dict[str, Any] = {
    seed.name: (list[seed.form], [])  # type: ignore[name-defined] # a type that is found while this runs
    for seed in SEEDS
}
_settings = ConfigDict(extra="forbid", strict=True, defer_build=True)
_Document: type[BaseModel] = create_model("_Document", __config__=_settings, **_fields)


def _known(problem: str) -> str:
    """What is known instead of something unknown, to be added to `problem`; "" for other problems."""
    place, _, said = problem.partition(": ")
    if said != UNKNOWN:
        return ""
    part = next((seed for seed in SEEDS if place.startswith(f"{seed.name}[")), None)
    if part is None:
        return f"; a seed has {', '.join(seed.name for seed in SEEDS)}"
    return f"; {part.name} have {', '.join(part.form.model_fields)}"


def _repeated(part: str, items: Sequence[Item]) -> Iterator[str]:
    """Items of which an earlier one has the same key."""
    seen: dict[tuple[str, ...], int] = {}
    for number, item in enumerate(items):
        key = item.key()
        if key is not None and seen.setdefault(key, number) != number:
            yield f"{located(part, [number])}: {'/'.join(key)} is {located(part, [seen[key]])} already"
