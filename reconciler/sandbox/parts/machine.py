"""Machines: their fields, their volumes and their reads. Their power is in `machine_power`.

Machines are registered by control verbs and by seeds; the API only reads them and changes their power. The
sandbox knows which space of a volume the machine uses: space that an extend added waits for the next cold
start. Nothing in the API shows that; `GET /_sandbox/world` does, for tests.

Source: platform API, 2.6; platform notes, "Machines".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.core.wire import Wire
from reconciler.sandbox import part
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import NAME, NOT_BLANK, Refusal, Request, Response, read, reply
from reconciler.sandbox.parts.app import listed_in_app, required_app, required_in_app
from reconciler.sandbox.parts.app import register as register_app
from reconciler.sandbox.parts.volume import Volume, grow
from reconciler.sandbox.world import Machine, World
from reconciler.services.machines.wire import machine as wires

_WITH_MEMORY = (*wires.RUNNING, "suspending", "suspended")


class MachineRegistration(Wire):
    """Described of the control verb's body, which is a `MachineItem`: see the manual."""

    app: str = Field(pattern=NAME)
    name: str | None = Field(None, pattern=NOT_BLANK)
    region: str | None = Field(None, pattern=NOT_BLANK)
    memory_mb: int | None = Field(None, ge=1, le=part.MOST)
    swap_size_mb: int | None = Field(None, ge=0, le=part.MOST)


# Source: platform notes, "Machines".
STATES = (*wires.POWER, "updating", "replacing", *sorted(wires.GONE_STATES))


class GuestItem(part.Item):
    """The size of a machine."""

    cpus: part.Positive | None = None
    cpu_kind: Literal["shared", "performance"] | None = None
    memory_mb: part.Positive | None = None


class InitItem(part.Item):
    """How a machine starts."""

    swap_size_mb: part.Count | None = None


class MountItem(part.Item):
    """A volume that a machine holds, by id."""

    volume: part.Name
    path: str | None = None


class ConfigItem(part.Item):
    """The configuration of a machine as the world shows it."""

    guest: GuestItem = GuestItem()
    init: InitItem = InitItem()
    schedule: part.Text | None = None
    mounts: list[MountItem] = Field(default_factory=list)


class MachineItem(GuestItem, InitItem):
    """A machine as the world shows it, or as the control verb takes it.

    `pending_restart` names volumes with space that it does not use yet. `snapshot`: whether a start resumes
    the machine, if it is suspended. The control verb leaves out what only the world knows.
    """

    id: part.NameOrEmpty = None
    app: part.Name
    name: part.Text | None = None
    state: Annotated[str, part.one_of(*STATES)] | None = None
    region: part.Text | None = None
    volumes: list[part.Name] | None = None
    pending_restart: list[part.Name] = Field(default_factory=list)
    schedule: part.Text | None = None
    config: ConfigItem = ConfigItem()
    instance_id: part.Text | None = None
    snapshot: bool | None = None
    memory_kept: bool | None = None
    moved: bool = False
    host: str = ""
    created_at: part.DateOrUnknown | None = None
    updated_at: part.DateOrUnknown | None = None
    booted_at: part.DateOrUnknown | None = None
    private_ip: str | None = None
    host_status: str | None = None


_SETTINGS = {"name", "region", "cpu_kind", "cpus", "memory_mb", "swap_size_mb", "schedule"}
_TIMES = ("created_at", "updated_at", "booted_at")


def register(world: World, item: MachineItem) -> Machine:
    """Create the machine, or change what is given of the one with this id; `volumes` replaces what it holds.

    `updated_at` is now unless it is given. Raises Refusal: 404 without the app, 422 for a volume that is not
    the app's or that another machine holds, or for a machine of another app.
    """
    app = required_app(world, item.app)
    machine = world.find(Machine, item.id) if item.id else None
    if machine is not None and machine.app != app.id:
        raise Refusal(422, f"machine {machine.id} belongs to app {machine.app}")
    held = None if item.volumes is None else [_attachable(world, app.id, id, item.id) for id in item.volumes]
    given = item.model_dump(include=_SETTINGS, exclude_none=True)
    given |= {name: part.moment(text) for name in _TIMES if (text := getattr(item, name)) is not None}
    state = item.state
    if machine is None:
        state = state or "started"
        machine = Machine(
            item.id or world.new_id(14),
            app=app.id,
            name=given.pop("name", "") or f"machine-{world.new_id(4)}",
            region=given.pop("region", app.primary_region),
            instance_id=world.new_id(26),
            created_at=world.now,
            updated_at=world.now,
        )
    if held is not None:
        _attach(world, machine, held)
    if state is not None:
        if state in wires.RUNNING and machine.state not in _WITH_MEMORY:
            boot(world, machine, world.now, item.pending_restart)
        machine.memory_kept = state in _WITH_MEMORY
        world.enter(machine, state)
    for name, value in {"updated_at": world.now, **given}.items():
        setattr(machine, name, value)
    if machine.state == "suspended" and item.snapshot is not None:
        machine.memory_kept = item.snapshot
    for volume in mounted(world, machine):  # since the last boot: all of it is in use
        machine.used_gb.setdefault(volume.id, volume.size_gb)
    machine.used_gb |= dict.fromkeys(item.pending_restart, 0)
    world.put(machine)
    return machine


def register_body(world: World, body: Mapping[str, Any]) -> dict[str, Any]:
    """Register the body of the control verb; fields that it does not know are left out."""
    return world_wire(world, register(world, read(body, MachineItem, extra="ignore")))


_MACHINES = "/v1/apps/{app_name}/machines"
route = part.Routes("machine")


@route.extended("GET", _MACHINES, "List machines", list[wires.Machine], gives={"machine_id": "/0/id"})
def list_all(world: World, request: Request, app_name: str) -> Response:
    """The machines of the app, destroyed ones, too."""
    return reply([wire(world, machine) for machine in listed_in_app(world, Machine, app_name)])


@route.extended("GET", _MACHINES + "/{machine_id}", "Get a machine", wires.Machine)
def get(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """One machine of the app."""
    return reply(wire(world, required_in_app(world, Machine, app_name, machine_id)))


def boot(world: World, machine: Machine, at: float, waiting: Collection[str] = ()) -> None:
    """A cold start: memory begins anew, and all of every volume is used. The caller puts the machine.

    `waiting`: ids of volumes that were made larger after it.
    """
    machine.booted_at = at
    machine.memory_kept = True
    machine.moved = False
    _use_all(world, machine, waiting)


def _use_all(world: World, machine: Machine, waiting: Collection[str] = ()) -> None:
    """Let it use all of every volume but those `waiting`, and their file systems fill them."""
    machine.used_gb = {volume.id: volume.size_gb for volume in mounted(world, machine)}
    for volume in mounted(world, machine):
        if volume.blocks is not None and volume.id not in waiting:
            grow(volume, volume.size_gb)
            world.put(volume)


def mounted_by_hand(world: World, volume: Volume) -> None:
    """Let the machine that `volume` was attached to use all of it."""
    machine = world.find(Machine, volume.attached_machine_id or "")
    if machine is not None:
        machine.used_gb[volume.id] = volume.size_gb
        world.put(machine)
        grow(volume, volume.size_gb)
        world.put(volume)


def use_added_space(world: World) -> None:
    """Let every machine use all of its volumes, as under switch extend_needs_restart `never`."""
    for machine in world.all(Machine):
        _use_all(world, machine)
        world.put(machine)


def wire(world: World, machine: Machine) -> dict[str, Any]:
    """The machine as reads show it."""
    config: dict[str, Any] = {
        "guest": {"cpus": machine.cpus, "cpu_kind": machine.cpu_kind, "memory_mb": machine.memory_mb},
        "init": {} if machine.swap_size_mb is None else {"swap_size_mb": machine.swap_size_mb},
        "mounts": [{"volume": volume.id, "path": f"/{volume.name}"} for volume in mounted(world, machine)],
    }
    if machine.schedule is not None:
        config["schedule"] = machine.schedule
    return {
        **machine.shown("id", "name"),
        "state": shown_state(world, machine),
        **machine.shown("region", "instance_id"),
        "private_ip": "fdaa::1",
        "host_status": "ok",
        "config": config,
        "created_at": rfc3339(machine.created_at),
        "updated_at": rfc3339(machine.updated_at),
    }


def world_wire(world: World, machine: Machine) -> dict[str, Any]:
    """The machine as the world shows it to tests.

    `pending_restart`: ids of mounted volumes with space that it does not use before its next
    boot, no matter who added it. `snapshot`: it is suspended, and a start resumes it. `memory_kept`: the same
    in every state. `booted_at`: its last cold start, null when that is not known.
    """
    usable_at_once = world.switches["extend_needs_restart"] == "never"
    return {
        "app": machine.app,
        **wire(world, machine),
        "pending_restart": [
            volume.id
            for volume in mounted(world, machine)
            if not usable_at_once and volume.size_gb > machine.used_gb.get(volume.id, volume.size_gb)
        ],
        "snapshot": machine.state == "suspended" and machine.memory_kept,
        **machine.shown("memory_kept", "host", "moved"),
        "booted_at": None if machine.booted_at is None else rfc3339(machine.booted_at),
    }


def shown_state(world: World, machine: Machine) -> str:
    """The state as answers spell it (switch started_word)."""
    word: str = world.switches["started_word"]
    return word if machine.state in wires.RUNNING else machine.state


def mounted(world: World, machine: Machine) -> Sequence[Volume]:
    """The volumes that it holds."""
    volumes = world.children(Volume, machine.app)
    return [volume for volume in volumes if volume.attached_machine_id == machine.id]


def _attachable(world: World, app_name: str, volume_id: str, machine_id: str | None) -> Volume:
    volume = world.find(Volume, volume_id)
    if volume is None or volume.app != app_name or not volume.present:
        raise Refusal(422, f"app {app_name} has no volume {volume_id}")
    if volume.attached_machine_id not in (None, machine_id):
        raise Refusal(422, f"volume {volume_id} is attached to machine {volume.attached_machine_id}")
    return volume


def _attach(world: World, machine: Machine, volumes: Sequence[Volume]) -> None:
    held = {volume.id for volume in volumes}
    for volume in world.children(Volume, machine.app):
        holder = machine.id if volume.id in held else None
        if volume.attached_machine_id != holder and volume.attached_machine_id in (None, machine.id):
            volume.attached_machine_id = holder
            machine.used_gb.pop(volume.id, None)
            world.put(volume)


def _plant(world: World, item: MachineItem) -> None:
    """Register the app and the machine, then set what only the world knows of it."""
    register_app(world, item.app)
    config, id = item.config, item.id or world.new_id(14)
    settings = {
        **config.guest.model_dump(exclude_none=True),
        **config.init.model_dump(exclude_none=True),
        **config.model_dump(include={"schedule"}, exclude_none=True),
        **item.model_dump(include=_SETTINGS, exclude_none=True),
    }
    named = item.volumes if item.volumes is not None else [mount.volume for mount in config.mounts]
    held = [volume.id for volume in world.children(Volume, item.app) if volume.attached_machine_id == id]
    volumes = None if set(named) <= set(held) else list(dict.fromkeys([*held, *named]))
    machine = register(world, item.model_copy(update={**settings, "id": id, "volumes": volumes}))
    machine.instance_id = item.instance_id or machine.instance_id
    machine.moved, machine.host = item.moved, item.host
    if item.memory_kept is not None:  # it is the world's own: an unknown boot stays unknown
        machine.memory_kept = item.memory_kept
        machine.booted_at = part.moment(item.booted_at)
    world.put(machine)


_SEED = part.Seed(
    "machines",
    Machine,
    shown=world_wire,
    columns=("id", "app", "name", ("state", shown_state), "region", ("memory MB", "memory_mb")),
    plant=_plant,
    form=MachineItem,
    after=("volumes",),
)

PART = part.Part(routes=route.found, things=(Machine,), seeds=(_SEED,))
