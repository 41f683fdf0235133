"""Volumes: create (also from a snapshot or as a fork), read, update, extend, delete.

A volume is in one hardware zone of its region. With `require_unique_zone` (the default), no two volumes of
one name in an app share a zone, so their number is limited by the zones of the region. A volume only grows,
and only in state `created`; a machine may have to restart before it uses the new space. A volume that a
machine holds is not deleted. A deleted one stays listed for a day, and its snapshots outlive it.

Replies to mutations show zeros for blocks and no file system; reads show both.

Source: platform API, 2.2, 3.2 and 4.2; platform notes, "Volumes".
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from reconciler.sandbox import part
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import INVALID, Refusal, Request, Response, precondition, refused, reply
from reconciler.sandbox.parts.app import listed_in_app, register, required_app, required_in_app
from reconciler.sandbox.world import App, Machine, Thing, Transition, World
from reconciler.services.machines.wire import volume as wires

DEFAULT_SIZE_GB = 3
DEFAULT_RETENTION = 5
DEFAULT_FSTYPE = "ext4"
BLOCK_SIZE = 4096
DAY_S = 24 * 3600
GIB = 1024**3


@dataclass
class Volume(Thing):
    """`shown_size_gb` and `shown_state` are what reads answer until `shown_until` (switch read_lag_s).

    `blocks`: of a file system that does not use all of its volume; None: it does. `blocks_free`,
    `blocks_avail`: as somebody has set them; None: a share of all blocks.
    """

    kind = "volume"
    app: str
    name: str
    region: str
    zone: str
    size_gb: int
    encrypted: bool
    fstype: str
    snapshot_retention: int
    auto_backup_enabled: bool
    created_at: float
    attached_machine_id: str | None = None
    attached_alloc_id: str | None = None
    host_dedication_key: str = ""
    shown_size_gb: int | None = None
    shown_state: str | None = None
    shown_until: float = 0.0
    blocks: int | None = None
    blocks_free: int | None = None
    blocks_avail: int | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        """The app, and the volumes of the same name in it."""
        return (self.app, f"{self.app}/{self.name}")

    @property
    def present(self) -> bool:
        """Whether it still exists: deleted volumes stay listed for a while."""
        return self.state not in wires.GONE_STATES


@dataclass
class Day(Thing):
    """The present day of a volume's life, with the volume's `id`. Its end is in `snapshot`."""

    kind = "day"


@dataclass
class Snapshot(Thing):
    """A snapshot of a volume. Its rules are in `snapshot`; volumes are created from it.

    `size` is 0 until it is finished, `digest` None where it follows from the id.
    """

    kind = "snapshot"
    below = ("volume_id",)
    volume_id: str
    app: str
    volume_size_gb: int
    encrypted: bool
    fstype: str
    retention_days: int
    requested_at: float
    created_at: float | None = None
    size: int = 0
    digest: str | None = None


_VOLUMES = "/v1/apps/{app_name}/volumes"
_VOLUME = _VOLUMES + "/{volume_id}"
route = part.Routes("volume")


@route("GET", _VOLUMES, "List volumes", list[wires.Volume], gives={"volume_id": "/0/id"})
def list_all(world: World, request: Request, app_name: str) -> Response:
    """The volumes of the app, deleted ones for a while (switch deleted_volume)."""
    return reply([wire(world, volume) for volume in listed_in_app(world, Volume, app_name)])


@route(
    "POST",
    _VOLUMES,
    "Create a volume",
    wires.Volume,
    errors=(412,),
    body=wires.VolumeCreate,
    gives={"volume_id": "/id", "source_volume_id": "/id"},
    example={"name": "data", "region": "ams", "size_gb": 3, "require_unique_zone": False},
)
def create(world: World, request: Request, app_name: str) -> Response:
    """Create an empty volume, restore a snapshot or fork a volume. Source: platform API, 4.2.

    Restored and forked volumes have the file system and encryption of their source, and are not smaller.
    """
    app = required_app(world, app_name)
    wish = request.read(wires.VolumeCreate)
    snapshot, source = _snapshot(world, wish), _source(world, app, wish)
    region = wish.region or (source.region if source else app.primary_region)
    default_gb = source.size_gb if source and world.switches["fork_size"] == "source" else DEFAULT_SIZE_GB
    size_gb = wish.size_gb or default_gb
    smallest_gb = snapshot.volume_size_gb if snapshot else source.size_gb if source else 1
    if size_gb < smallest_gb:
        raise refused("size_gb", f"must be at least the source's size, {smallest_gb}")
    original = snapshot or source
    if snapshot:
        _check_region(world, app, region)
    _check_placement(world, region)
    volume = Volume(
        f"vol_{world.new_id()}",
        app=app.id,
        name=wish.name,
        region=region,
        zone=free_zone(world, app.id, wish.name, region, wish.require_unique_zone is not False),
        size_gb=size_gb,
        encrypted=original.encrypted if original else wish.encrypted is not False,
        fstype=original.fstype if original else wish.fstype or DEFAULT_FSTYPE,
        snapshot_retention=wish.snapshot_retention or DEFAULT_RETENTION,
        auto_backup_enabled=wish.auto_backup_enabled is not False,
        created_at=world.now,
    )
    settle_in(world, volume, "restoring" if snapshot else "hydrating" if source else "created")
    return reply(_mutated(world, volume))


@route("GET", _VOLUME, "Get a volume", wires.Volume)
def get(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """One volume of the app; deleted ones for a while (switch deleted_volume)."""
    return reply(wire(world, required_in_app(world, Volume, app_name, volume_id)))


@route(
    "PUT",
    _VOLUME,
    "Update a volume",
    wires.Volume,
    errors=(412,),
    body=wires.VolumeUpdate,
    example={"auto_backup_enabled": True, "snapshot_retention": 14},
)
def update(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """Change the retention or the daily backups. An equal value changes nothing."""
    volume = changeable(world, app_name, volume_id)
    wanted = request.read(wires.VolumeUpdate).model_dump(include={*wires.VolumeUpdate.model_fields})
    changes = {name: value for name, value in wanted.items() if value not in (None, getattr(volume, name))}
    for name, value in changes.items():
        setattr(volume, name, value)
    if changes:
        world.put(volume)
    return reply(_mutated(world, volume))


@route(
    "PUT",
    _VOLUME + "/extend",
    "Enlarge a volume",
    wires.VolumeExtended,
    errors=(412,),
    body=wires.VolumeExtend,
    example={"size_gb": 10},
)
def extend(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """Enlarge a volume; it is never made smaller. Source: platform API, 4.2 rule 1.

    Whether the machine must restart to use the space is a switch (extend_needs_restart).
    """
    volume = changeable(world, app_name, volume_id)
    if volume.state != "created":
        raise precondition(f"volume is {volume.state}")
    size_gb = request.read(wires.VolumeExtend).size_gb
    if size_gb <= volume.size_gb:
        status = world.switches["extend_not_larger"]
        if status != 200:
            raise Refusal(status, f"volume can only be extended; it has {volume.size_gb} GB", INVALID)
        return reply({"volume": _mutated(world, volume), "needs_restart": False})
    _hold_back(world, volume)
    rule = world.switches["extend_needs_restart"]
    needs_restart = rule == "always" or (rule == "attached" and volume.attached_machine_id is not None)
    grow(volume, size_gb, usable=not (needs_restart and volume.attached_machine_id))
    world.put(volume)
    return reply({"volume": _mutated(world, volume), "needs_restart": needs_restart})


@route("DELETE", _VOLUME, "Delete a volume", wires.Volume, errors=(410, 412))
def delete(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """Delete a volume that no machine holds. 410 when it was deleted before."""
    volume = required_in_app(world, Volume, app_name, volume_id)
    if not volume.present:
        raise Refusal(410, "volume has been destroyed", "gone")
    if volume.attached_machine_id is not None:
        raise Refusal(
            412, f"failed_precondition: volume is currently bound to machine: {volume.attached_machine_id}"
        )
    _hold_back(world, volume)
    world.enter(volume, world.switches["deleted_volume"])
    return reply({**_mutated(world, volume), "state": "destroyed", "snapshot_retention": 0})


def wire(world: World, volume: Volume) -> dict[str, Any]:
    """The volume as reads show it."""
    known = _UNDOCUMENTED if world.switches["volume_fields"] == "known" else {}
    lagging = world.now < volume.shown_until
    size_gb = volume.shown_size_gb if lagging and volume.shown_size_gb else volume.size_gb
    blocks = min(size_gb * GIB // BLOCK_SIZE, _blocks(volume))
    return {
        **_mutated(world, volume),
        "size_gb": size_gb,
        "state": volume.shown_state if lagging and volume.shown_state else volume.state,
        "blocks": blocks,
        "block_size": BLOCK_SIZE,
        "blocks_free": blocks * 19 // 20 if volume.blocks_free is None else volume.blocks_free,
        "blocks_avail": blocks * 9 // 10 if volume.blocks_avail is None else volume.blocks_avail,
        "fstype": volume.fstype,
        **known,
    }


def grow(volume: Volume, size_gb: int, *, usable: bool = True) -> None:
    """Give the volume its size; its file system uses all of it, or (not `usable`) waits for a cold start."""
    blocks = _blocks(volume)
    volume.size_gb, volume.blocks = size_gb, None if usable else blocks
    for name in ("blocks_free", "blocks_avail"):
        if (free := getattr(volume, name)) is not None:
            setattr(volume, name, free + _blocks(volume) - blocks)


def _blocks(volume: Volume) -> int:
    """The size of the file system."""
    return volume.size_gb * GIB // BLOCK_SIZE if volume.blocks is None else volume.blocks


def world_wire(world: World, volume: Volume) -> dict[str, Any]:
    """The volume as the world shows it to tests."""
    return {"app": volume.app, **wire(world, volume)}


def settle_in(world: World, volume: Volume, state: str) -> None:
    """Put a new volume into `state`, and start the day of its life that it is in."""
    world.enter(volume, state)
    age_s = max(0.0, world.now - volume.created_at)
    world.enter(Day(volume.id), "passing", volume.created_at + age_s // DAY_S * DAY_S)


def _mutated(world: World, volume: Volume) -> dict[str, Any]:
    """The volume as replies to mutations show it: no blocks and no file system. Source: platform API, 2.2."""
    shown: dict[str, Any] = {
        **volume.shown("id", "name", "state", "size_gb", "region", "zone", "encrypted", *_HOLDERS),
        "created_at": rfc3339(volume.created_at, 3),
        "blocks": 0,
        "block_size": 0,
        "blocks_free": 0,
        "blocks_avail": 0,
        "fstype": "",
        **volume.shown("snapshot_retention", "auto_backup_enabled", "host_dedication_key"),
    }
    form = world.switches["attached_none"]
    for name in [name for name in _HOLDERS if shown[name] is None and form != "null"]:
        if form == "empty":
            shown[name] = ""
        else:
            del shown[name]
    return shown


def changeable(world: World, app_name: str, volume_id: str) -> Volume:
    """The volume of the app. Raises Refusal: 404 without it, 412 while it is being deleted."""
    volume = required_in_app(world, Volume, app_name, volume_id)
    if not volume.present:
        raise precondition("volume is being destroyed")
    return volume


def _hold_back(world: World, volume: Volume) -> None:
    """Store the present size and state, for reads that lag behind a change (switch read_lag_s)."""
    lag_s = world.switches["read_lag_s"]
    if lag_s:
        volume.shown_size_gb, volume.shown_state = volume.size_gb, volume.state
        volume.shown_until = world.now + lag_s


def _snapshot(world: World, wish: wires.VolumeCreate) -> Snapshot | None:
    """The snapshot to restore. It may outlive its volume, and belong to any app."""
    if not wish.snapshot_id:
        return None
    if wish.source_volume_id:
        raise refused("snapshot_id", "excludes source_volume_id")
    if not wish.region:
        raise refused("region", "is required with snapshot_id")
    snapshot = world.find(Snapshot, wish.snapshot_id)
    if snapshot is None:
        raise Refusal(404, "snapshot not found", "not_found")
    if snapshot.state != "created":
        raise refused("snapshot_id", f"names a snapshot that is {snapshot.state}")
    return snapshot


def _source(world: World, app: App, wish: wires.VolumeCreate) -> Volume | None:
    """The volume to fork, which belongs to the app."""
    if not wish.source_volume_id:
        return None
    source = world.find(Volume, wish.source_volume_id)
    if source is None or source.app != app.id or not source.present:
        raise Refusal(404, "source volume not found", "not_found")
    if source.state != "created":
        raise refused("source_volume_id", f"names a volume that is {source.state}")
    return source


def _check_region(world: World, app: App, region: str) -> None:
    """Raises Refusal 422 where the app has machines, and none in the region. Source: platform API, 4.2."""
    regions = {machine.region for machine in world.children(Machine, app.id) if machine.present}
    if regions and region not in regions:
        raise refused("region", f"must be the region of a machine of the app: {', '.join(sorted(regions))}")


def _check_placement(world: World, region: str) -> None:
    """Raises Refusal where hardware has no room (switch placement). Source: platform notes, "Volumes"."""
    failure = world.switches["placement"]
    if failure != "ok":
        status = 412 if failure == "volume_placement_capacity" else 422
        raise Refusal(status, f"insufficient resources to place the volume in region {region}", failure)


def free_zone(world: World, app_name: str, name: str, region: str, unique: bool) -> str:
    """The hardware zone of the region with the fewest volumes of this name; the first of several.

    Raises Refusal when `unique` and every zone (switch zones_per_region) holds one.
    """
    taken = Counter(
        volume.zone
        for volume in world.children(Volume, f"{app_name}/{name}")
        if volume.region == region and volume.present
    )
    zones = [_zone_name(region, number) for number in range(int(world.switches["zones_per_region"]))]
    zone = min(zones, key=taken.__getitem__)
    if unique and zone in taken:
        texts = {"region": f"no unique zone is left in region {region}", "plain": "could not place volume"}
        status = world.switches["zones_used_up"]
        code = "volume_placement_capacity" if status == 412 else "insufficient_capacity"
        raise Refusal(status, texts.get(world.switches["zones_used_up_text"], ""), code)
    return zone


@lru_cache(maxsize=1024)
def _zone_name(region: str, number: int) -> str:
    return hashlib.sha256(f"{region}/{number}".encode("utf-8", "surrogatepass")).hexdigest()[:4]


_HOLDERS = ("attached_machine_id", "attached_alloc_id")
# Fields that public services of this shape send in addition to the documented ones.
_UNDOCUMENTED = {"host_status": "ok", "bytes_used": 0, "bytes_total": 0, "type": "local"}


# Source: platform notes, "Volumes".
STATES = (
    "creating",
    "created",
    "extending",
    "restoring",
    "enabling_remote_export",
    "hydrating",
    "recovering",
    *sorted(wires.GONE_STATES),
)


_KEPT = {
    *("app", "name", "size_gb", "encrypted", "fstype"),
    *("snapshot_retention", "auto_backup_enabled", "attached_machine_id"),
}


class VolumeItem(part.Item):
    """A volume in a seed: what the world shows of it."""

    id: part.Name | None = None
    app: part.Name
    name: part.Text
    region: str | None = None
    zone: part.Text | None = None
    state: Annotated[str, part.one_of(*STATES)] = "created"
    size_gb: part.Size = 3
    encrypted: bool = True
    fstype: Literal["ext4", "raw"] = "ext4"
    snapshot_retention: part.Retention = 5
    auto_backup_enabled: bool = True
    attached_machine_id: part.NameOrEmpty = None
    created_at: part.Date | None = None
    attached_alloc_id: str | None = None
    blocks: part.Count | None = None
    block_size: part.Count | None = None
    blocks_free: part.Count | None = None
    blocks_avail: part.Count | None = None
    host_dedication_key: str | None = None
    host_status: str | None = None
    bytes_used: part.Count | None = None
    bytes_total: part.Count | None = None
    type: str | None = None


def _plant(world: World, item: VolumeItem) -> None:
    """Without a zone at first, until the zones that are given are all known."""
    app = register(world, item.app)
    volume = Volume(
        item.id or f"vol_{world.new_id()}",
        **item.model_dump(include=_KEPT),
        region=item.region or app.primary_region,
        zone=item.zone or "",
        created_at=part.moment_or_now(world, item.created_at),
        attached_alloc_id=item.attached_alloc_id or None,
        host_dedication_key=item.host_dedication_key or "",
    )
    _fill(volume, item)
    settle_in(world, volume, item.state)


def _fill(volume: Volume, item: VolumeItem) -> None:
    """Fill it as the seed says, in blocks of any size; one that is filled as usual grows as usual."""
    if item.block_size == 0:  # as in replies to mutations
        return
    scale = (item.block_size or BLOCK_SIZE) / BLOCK_SIZE
    blocks, free, available = (
        None if count is None else round(count * scale)
        for count in (item.blocks, item.blocks_free, item.blocks_avail)
    )
    volume.blocks = blocks if blocks is not None and blocks < _blocks(volume) else None
    volume.blocks_free = None if free == _blocks(volume) * 19 // 20 else free
    volume.blocks_avail = None if available == _blocks(volume) * 9 // 10 else available


def _missing(items: part.Items) -> Iterator[str]:
    machines = {item.id: item.app for item in items["machines"]}
    for number, volume in enumerate(items["volumes"]):
        holder = volume.attached_machine_id
        if holder is not None and machines.get(holder) != volume.app:
            yield f"volumes[{number}].attached_machine_id: there is no machine {holder} in app {volume.app}"


def _choose_zones(world: World) -> None:
    for volume in world.all(Volume):
        if not volume.zone:
            volume.zone = free_zone(world, volume.app, volume.name, volume.region, unique=False)


_SEED = part.Seed(
    "volumes",
    Volume,
    shown=world_wire,
    columns=(
        "id",
        "app",
        "name",
        "state",
        ("size GB", "size_gb"),
        "region",
        "zone",
        ("machine", lambda world, volume: volume.attached_machine_id or ""),
    ),
    plant=_plant,
    form=VolumeItem,
    after=("apps",),
    missing=_missing,
    finish=_choose_zones,
)

PART = part.Part(
    routes=route.found,
    transitions={
        ("volume", "restoring"): Transition(20, "created"),
        ("volume", "hydrating"): Transition(30, "created"),
        ("volume", "pending_destroy"): Transition(24 * 3600, None),
    },
    things=(Volume, Day),
    seeds=(_SEED,),
)
