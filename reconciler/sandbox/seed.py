"""Planting a world: everything is checked first, against its form and for what it refers to."""

import json
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reconciler.core.errors import StoreError
from reconciler.sandbox.catalog import SEEDS
from reconciler.sandbox.exchange import Refusal
from reconciler.sandbox.fields import listed, located, problems
from reconciler.sandbox.part import Item, Seed
from reconciler.sandbox.parts import app, machine
from reconciler.sandbox.world import World


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
    empty = not any(any(world.all(each.cls)) for each in SEEDS)
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


def _plant_document(world: World, seed: Any) -> list[str]:
    """What is wrong with the seed, as `place: problem`. Then the world is not to be used."""
    if not isinstance(seed, Mapping):
        return ["a seed is a mapping"]
    known = [each.name for each in SEEDS]
    found = [f"{part}: is unknown; a seed has {', '.join(known)}" for part in seed if part not in known]
    items: dict[str, list[Any]] = {}
    for each in SEEDS:
        given = seed.get(each.name)
        if given is not None and not isinstance(given, list):
            found.append(f"{each.name}: must be a list")
        else:
            items[each.name] = [_checked(each, number, one, found) for number, one in enumerate(given or ())]
            found += _repeated(each.name, items[each.name])
    if found:
        return found
    found = [problem for each in SEEDS for problem in each.missing(items)]
    for each in _in_order():
        for number, item in enumerate(items[each.name]):
            try:
                each.plant(world, item)
            except Refusal as refusal:
                found.append(f"{located(each.name, [number])}: {refusal.message}")
    for each in SEEDS:
        each.finish(world)
    return found


def _in_order() -> Iterator[Seed]:
    """Each seed after those that it refers to."""
    seeds = {seed.name: seed for seed in SEEDS}
    for name in TopologicalSorter({seed.name: seed.after for seed in SEEDS}).static_order():
        yield seeds[name]


def _checked(seed: Seed, number: int, item: Any, found: list[str]) -> Any:
    place = located(seed.name, [number])
    if not isinstance(item, Mapping):
        found.append(f"{place}: must be a mapping")
        return item
    given = {name: value for name, value in item.items() if value is not None}
    if seed.form is None:
        return given
    try:
        return seed.form.model_validate(given)
    except ValidationError as error:
        known = f"; {seed.name} have {', '.join(seed.form.model_fields)}"
        found += [
            f"{each}{known}" if each.endswith("is unknown") else each for each in problems(error, place)
        ]
        return item


def _repeated(part: str, items: Sequence[Any]) -> Iterator[str]:
    seen: dict[tuple[str, ...], int] = {}
    for number, item in enumerate(items):
        key = item.key() if isinstance(item, Item) else None
        if key is not None and seen.setdefault(key, number) != number:
            yield f"{located(part, [number])}: {'/'.join(key)} is {located(part, [seen[key]])} already"
