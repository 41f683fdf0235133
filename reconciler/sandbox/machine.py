"""Machines, as far as volumes know of them: registered by a control verb, with the volumes they hold.

Source: platform notes, "Machines".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.sandbox.app import required_app
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import Refusal
from reconciler.sandbox.routing import Route
from reconciler.sandbox.volume import Volume
from reconciler.sandbox.world import Thing, Transitions, World


@dataclass
class Machine(Thing):
    """The volumes mounted are those whose `attached_machine_id` names it."""

    kind = "machine"
    app: str
    name: str
    region: str
    instance_id: str
    created_at: float
    updated_at: float
    cpu_kind: str = "shared"
    cpus: int = 1
    memory_mb: int = 256
    swap_size_mb: int | None = None
    schedule: str | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        return (self.app,)


def register(
    world: World,
    app_name: str,
    *,
    id: str | None = None,
    volumes: Sequence[str] | None = None,
    state: str | None = None,
    **settings: Any,
) -> Machine:
    """Create the machine, or change what is given of the one with this id; `volumes` replaces what it holds.

    Raises Refusal: 404 without the app, 422 for a volume that is not the app's or that another machine holds.
    """
    app = required_app(world, app_name)
    machine = world.find(Machine, id) if id else None
    if machine is not None and machine.app != app.id:
        raise Refusal(422, f"machine {machine.id} belongs to app {machine.app}")
    mounted = None if volumes is None else [_attachable(world, app.id, each, id) for each in volumes]
    given = {name: value for name, value in settings.items() if value is not None}
    if machine is None:
        machine = Machine(
            id or world.new_id(14),
            app=app.id,
            name=given.pop("name", "") or f"machine-{world.new_id(4)}",
            region=given.pop("region", app.primary_region),
            instance_id=world.new_id(26),
            created_at=world.now,
            updated_at=world.now,
        )
    for name, value in given.items():
        setattr(machine, name, value)
    machine.updated_at = world.now
    world.enter(machine, state or machine.state or "started")
    if mounted is not None:
        _attach(world, machine, mounted)
    return machine


def wire(world: World, machine: Machine) -> dict[str, Any]:
    config: dict[str, Any] = {
        "guest": {"cpus": machine.cpus, "cpu_kind": machine.cpu_kind, "memory_mb": machine.memory_mb},
        "init": {} if machine.swap_size_mb is None else {"swap_size_mb": machine.swap_size_mb},
        "mounts": [
            {"volume": volume.id, "path": f"/{volume.name}"}
            for volume in world.children(Volume, machine.app)
            if volume.attached_machine_id == machine.id
        ],
    }
    if machine.schedule is not None:
        config["schedule"] = machine.schedule
    return {
        "id": machine.id,
        "name": machine.name,
        "state": machine.state,
        "region": machine.region,
        "instance_id": machine.instance_id,
        "private_ip": "fdaa::1",
        "config": config,
        "created_at": rfc3339(machine.created_at),
        "updated_at": rfc3339(machine.updated_at),
    }


def _attachable(world: World, app_name: str, volume_id: str, machine_id: str | None) -> Volume:
    volume = world.find(Volume, volume_id)
    if volume is None or volume.app != app_name or not volume.present:
        raise Refusal(422, f"app {app_name} has no volume {volume_id}")
    if volume.attached_machine_id not in (None, machine_id):
        raise Refusal(422, f"volume {volume_id} is held by machine {volume.attached_machine_id}")
    return volume


def _attach(world: World, machine: Machine, volumes: Sequence[Volume]) -> None:
    held = {volume.id for volume in volumes}
    for volume in world.children(Volume, machine.app):
        holder = machine.id if volume.id in held else None
        if volume.attached_machine_id != holder and volume.attached_machine_id in (None, machine.id):
            volume.attached_machine_id = holder
            world.put(volume)


TRANSITIONS: Transitions = {}
ROUTES: tuple[Route, ...] = ()
