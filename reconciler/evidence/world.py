"""The world that a run began with, from what its journal says that it saw."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.core.wire import Shape
from reconciler.rehearsal.seed import Seed, seed_of


def seed_from(
    seen: Mapping[str, Any], records: Mapping[Address, StateRecord], resources: Collection[Resource]
) -> Seed:
    """Raises ValueError or KeyError where the entry is from a program that wrote it differently."""
    return seed_of(dict(_observed(each, seen["objects"]) for each in seen["reads"]), resources, records)


def _observed(read: Mapping[str, Any], objects: Mapping[str, Any]) -> tuple[Read, Observation]:
    shape = Shape.named(read["shape"])
    items: Sequence[Any] = [shape.model.model_validate(objects[digest]) for digest in read["objects"]]
    return (
        Read(read["path"], shape, read["service"]),
        Observation(items, read.get("complete", True), datetime.fromisoformat(read["at"])),
    )
