"""Volumes of a seed."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from reconciler.sandbox.part import Items, Seed
from reconciler.sandbox.parts.app import register
from reconciler.sandbox.parts.volume import Volume, free_zone, settle_in, world_wire
from reconciler.sandbox.seed_form import Count, Date, Item, Name, Retention, Size, Text, moment_or_now, one_of
from reconciler.sandbox.world import World

# Source: platform notes, "Volumes".
STATES = (
    "creating",
    "created",
    "extending",
    "restoring",
    "enabling_remote_export",
    "hydrating",
    "recovering",
    "scheduling_destroy",
    "pending_destroy",
    "fork_cleanup",
    "waiting_for_detach",
    "destroying",
    "destroyed",
)


def _nothing_for_empty(value: Any) -> Any:
    return None if value == "" else value


class VolumeItem(Item):
    id: Name | None = None
    app: Name
    name: Text
    region: str | None = None
    zone: Text | None = None
    state: Annotated[str, one_of(*STATES)] = "created"
    size_gb: Size = 3
    encrypted: bool = True
    fstype: Literal["ext4", "raw"] = "ext4"
    snapshot_retention: Retention = 5
    auto_backup_enabled: bool = True
    attached_machine_id: Annotated[Name | None, BeforeValidator(_nothing_for_empty)] = None
    created_at: Date | None = None
    attached_alloc_id: str | None = None
    blocks: Count | None = None
    block_size: Count | None = None
    blocks_free: Count | None = None
    blocks_avail: Count | None = None
    host_dedication_key: str | None = None
    host_status: str | None = None
    bytes_used: Count | None = None
    bytes_total: Count | None = None
    type: str | None = None


def _plant(world: World, item: VolumeItem) -> None:
    """Without a zone at first, until the zones that are given are all known."""
    app = register(world, item.app)
    volume = Volume(
        item.id or f"vol_{world.new_id()}",
        app=item.app,
        name=item.name,
        region=item.region or app.primary_region,
        zone=item.zone or "",
        size_gb=item.size_gb,
        encrypted=item.encrypted,
        fstype=item.fstype,
        snapshot_retention=item.snapshot_retention,
        auto_backup_enabled=item.auto_backup_enabled,
        created_at=moment_or_now(world, item.created_at),
        attached_machine_id=item.attached_machine_id,
        attached_alloc_id=item.attached_alloc_id or None,
        host_dedication_key=item.host_dedication_key or "",
    )
    settle_in(world, volume, item.state)


def _missing(items: Items) -> Iterator[str]:
    machines = {item.id: item.app for item in items["machines"]}
    for number, volume in enumerate(items["volumes"]):
        holder = volume.attached_machine_id
        if holder is not None and machines.get(holder) != volume.app:
            yield f"volumes[{number}].attached_machine_id: there is no machine {holder} in app {volume.app}"


def _choose_zones(world: World) -> None:
    for volume in world.all(Volume):
        if not volume.zone:
            volume.zone = free_zone(world, volume.app, volume.name, volume.region, unique=False)


SEED = Seed(
    "volumes",
    Volume,
    shown=world_wire,
    titles=("id", "app", "name", "state", "size GB", "region", "zone", "machine"),
    cells=lambda world, each: (
        *(each.id, each.app, each.name, each.state, each.size_gb, each.region, each.zone),
        each.attached_machine_id or "",
    ),
    plant=_plant,
    form=VolumeItem,
    after=("apps",),
    missing=_missing,
    finish=_choose_zones,
)
