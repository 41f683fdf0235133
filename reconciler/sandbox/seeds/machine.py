"""Machines of a seed."""

from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.sandbox import registration
from reconciler.sandbox.part import Seed
from reconciler.sandbox.parts.app import register
from reconciler.sandbox.parts.machine import shown_state, world_wire
from reconciler.sandbox.parts.volume import Volume
from reconciler.sandbox.seed_form import MOST, Count, DateOrUnknown, Item, Name, Text, moment, one_of
from reconciler.sandbox.world import Machine, World

# Source: platform notes, "Machines".
STATES = (
    "created",
    "started",
    "running",
    "stopped",
    "suspended",
    "failed",
    "starting",
    "stopping",
    "restarting",
    "suspending",
    "destroying",
    "launch_failed",
    "updating",
    "replacing",
    "destroyed",
    "replaced",
    "migrated",
)


class GuestItem(Item):
    cpus: Annotated[int, Field(ge=1, le=MOST)] | None = None
    cpu_kind: Literal["shared", "performance"] | None = None
    memory_mb: Annotated[int, Field(ge=1, le=MOST)] | None = None


class InitItem(Item):
    swap_size_mb: Count | None = None


class MountItem(Item):
    volume: Name
    path: str | None = None


class ConfigItem(Item):
    guest: GuestItem = GuestItem()
    init: InitItem = InitItem()
    schedule: Text | None = None
    mounts: list[MountItem] = Field(default_factory=list)


class MachineItem(GuestItem, InitItem):
    """As the world shows it, or the body of the control verb."""

    id: Name | None = None
    app: Name
    name: Text | None = None
    state: Annotated[str, one_of(*STATES)] | None = None
    region: Text | None = None
    volumes: list[Name] | None = None
    pending_restart: list[Name] = Field(default_factory=list)
    schedule: Text | None = None
    config: ConfigItem = ConfigItem()
    instance_id: Text | None = None
    snapshot: bool | None = None
    memory_kept: bool | None = None
    moved: bool = False
    host: str = ""
    created_at: DateOrUnknown | None = None
    updated_at: DateOrUnknown | None = None
    booted_at: DateOrUnknown | None = None
    private_ip: str | None = None
    host_status: str | None = None


def _plant(world: World, item: MachineItem) -> None:
    register(world, item.app)
    guest, init = item.config.guest, item.config.init
    body: dict[str, Any] = {
        **guest.model_dump(exclude_none=True),
        **init.model_dump(exclude_none=True),
        "schedule": item.config.schedule,
        **item.model_dump(
            exclude_none=True,
            exclude={"config", "volumes", "instance_id", "memory_kept", "moved", "host", "private_ip"},
        ),
        "id": item.id or world.new_id(14),
    }
    named = item.volumes if item.volumes is not None else [mount.volume for mount in item.config.mounts]
    held = [each.id for each in world.children(Volume, item.app) if each.attached_machine_id == body["id"]]
    if not set(named) <= set(held):
        body["volumes"] = list(dict.fromkeys([*held, *named]))
    registration.register_machine(world, body)
    machine = world.find(Machine, body["id"])
    assert machine is not None
    machine.instance_id = item.instance_id or machine.instance_id
    machine.moved, machine.host = item.moved, item.host
    if item.memory_kept is not None:  # it is the world's own: an unknown boot stays unknown
        machine.memory_kept = item.memory_kept
        machine.booted_at = moment(item.booted_at)
    world.put(machine)


SEED = Seed(
    "machines",
    Machine,
    shown=world_wire,
    titles=("id", "app", "name", "state", "region", "memory MB"),
    cells=lambda world, each: (
        *(each.id, each.app, each.name, shown_state(world, each)),
        *(each.region, each.memory_mb),
    ),
    plant=_plant,
    form=MachineItem,
    after=("volumes",),
)
