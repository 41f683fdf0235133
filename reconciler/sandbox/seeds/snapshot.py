"""Snapshots of a seed."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from reconciler.sandbox.clock import YEAR_ONE, rfc3339
from reconciler.sandbox.part import Items, Seed
from reconciler.sandbox.parts.app import register
from reconciler.sandbox.parts.snapshot import world_wire
from reconciler.sandbox.parts.volume import DAY_S, GIB, Snapshot, Volume
from reconciler.sandbox.seed_form import (
    Count,
    Date,
    DateOrUnknown,
    Item,
    Name,
    Retention,
    moment,
    moment_or_now,
    one_of,
)
from reconciler.sandbox.world import World
from reconciler.services.machines.wire.volume import LARGEST_GB

# Source: platform notes, "Snapshots".
STATES = ("waiting", "running", "created", "failed")


class SnapshotItem(Item):
    """`app` and `volume_size` (bytes) make one whose volume is gone."""

    id: Name | None = None
    app: Name | None = None
    volume_id: Name
    status: Annotated[str, one_of(*STATES)] | None = None
    size: Count | None = None
    digest: str | None = None
    retention_days: Retention = 5
    volume_size: Annotated[int, Field(ge=1, le=LARGEST_GB * 1024**3)] | None = None
    encrypted: bool | None = None
    fstype: Literal["ext4", "raw"] | None = None
    created_at: DateOrUnknown | None = None
    requested_at: Date | None = None


def _plant(world: World, item: SnapshotItem) -> None:
    source = world.find(Volume, item.volume_id)
    app = item.app or (source.app if source else "")
    register(world, app)
    unknown = item.created_at is not None and item.created_at.startswith(YEAR_ONE[:5])
    state = item.status or ("running" if unknown else "created")
    finished = state == "created" or (state == "failed" and item.created_at is not None and not unknown)
    created_at = moment_or_now(world, item.created_at) if finished else None
    requested_at = moment(item.requested_at)
    snapshot = Snapshot(
        item.id or f"vs_{world.new_id()}",
        volume_id=item.volume_id,
        app=app,
        volume_size_gb=math.ceil(item.volume_size / GIB)
        if item.volume_size
        else source.size_gb
        if source
        else 1,
        encrypted=(source is None or source.encrypted) if item.encrypted is None else item.encrypted,
        fstype=item.fstype or (source.fstype if source else "ext4"),
        retention_days=item.retention_days,
        requested_at=(created_at or world.now) if requested_at is None else requested_at,
        created_at=created_at,
        size=item.size or 0,
        digest=item.digest or None,
    )
    lasts_s = item.retention_days * DAY_S if state == "created" else None
    world.enter(snapshot, state, created_at if state == "created" else None, lasts_s)


def _missing(items: Items) -> Iterator[str]:
    volumes = {item.id: item.app for item in items["volumes"]}
    for number, snapshot in enumerate(items["snapshots"]):
        alone = snapshot.app is not None and snapshot.volume_size is not None
        if snapshot.volume_id not in volumes and not alone:
            yield (
                f"snapshots[{number}].volume_id: there is no volume {snapshot.volume_id}; a snapshot "
                "without its volume needs `app` and `volume_size`"
            )
        elif snapshot.app not in (None, volumes.get(snapshot.volume_id, snapshot.app)):
            yield f"snapshots[{number}].app: its volume belongs to app {volumes[snapshot.volume_id]}"


SEED = Seed(
    "snapshots",
    Snapshot,
    shown=lambda world, each: world_wire(each),
    titles=("id", "volume", "state", "created at", "days kept"),
    cells=lambda world, each: (
        *(each.id, each.volume_id, each.state),
        "" if each.created_at is None else rfc3339(each.created_at),
        each.retention_days,
    ),
    plant=_plant,
    form=SnapshotItem,
    after=("volumes",),
    missing=_missing,
)
