"""Machines as the platform sends them. Source: platform API, 2.6 and 4.4; platform notes, "Machines"."""

from typing import Annotated

from pydantic import Field

from reconciler.wire.base import Wire

GONE_STATES = frozenset({"destroying", "destroyed"})


class Guest(Wire):
    cpus: int | None = None
    cpu_kind: str | None = None
    memory_mb: int | None = None


class Init(Wire):
    swap_size_mb: int | None = None


class Mount(Wire):
    """`volume` is the volume's id."""

    volume: str | None = None
    path: str | None = None


class MachineConfig(Wire):
    guest: Guest | None = None
    init: Init | None = None
    schedule: str | None = None
    mounts: list[Mount] | None = None


class Machine(Wire):
    """Capabilities `machine.get` and `machine.list`. The state `running` is another word for `started`."""

    id: str
    name: str | None = None
    state: str | None = None
    region: str | None = None
    instance_id: str | None = None
    private_ip: str | None = None
    config: MachineConfig | None = None
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def present(self) -> bool:
        return self.state not in GONE_STATES


class MachineAccepted(Wire):
    """The answer to suspend, stop and restart: begun, not done."""

    ok: bool | None = None


class MachineStarted(Wire):
    """Nothing in it tells a resume from a cold start; all but `previous_state` may be missing."""

    previous_state: str | None = None
    migrated: bool | None = None
    new_host: str | None = None


class MachineWaited(Wire):
    ok: bool | None = None
    state: str | None = None


class MachineStop(Wire):
    """Capability `machine.stop`. `timeout`: seconds, or a duration as text; its type is not shown."""

    signal: str | None = None
    timeout: Annotated[int, Field(ge=0)] | str | None = None
