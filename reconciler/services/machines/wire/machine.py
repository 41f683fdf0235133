"""Machines as the platform sends them. Source: platform API, 2.6 and 4.4; platform notes, "Machines"."""

from typing import Annotated, ClassVar

from pydantic import Field

from reconciler.core.wire import Wire

RUNNING = ("started", "running")  # two words for one state: answers hold either
GONE_STATES = frozenset({"destroying", "destroyed"})

_LARGEST = 2**53 - 1  # the largest integer that numbers of all clients can hold

# The state that a machine is in, or will reach by itself. Other states (`updating`, unknown words) tell
# neither.
POWER = {
    **dict.fromkeys((*RUNNING, "starting", "restarting"), "started"),
    **dict.fromkeys(("suspended", "suspending"), "suspended"),
    **dict.fromkeys(("stopped", "stopping"), "stopped"),
    **{state: state for state in ("created", "failed", "launch_failed", "replaced", "migrated")},
}


class Guest(Wire):
    """The size of a machine."""

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
    """The part of a machine's configuration that rules about power read."""

    guest: Guest | None = None
    init: Init | None = None
    schedule: str | None = None
    mounts: list[Mount] | None = None


class Machine(Wire):
    """Capabilities `machine.get` and `machine.list`. The state `running` is another word for `started`."""

    shape: ClassVar = "machine"

    id: str
    name: str | None = None
    state: str | None = None
    region: str | None = None
    instance_id: str | None = None
    private_ip: str | None = None
    config: MachineConfig | None = None
    host_status: str | None = None
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def present(self) -> bool:
        return self.state not in GONE_STATES

    @property
    def power(self) -> str | None:
        """`started`, `suspended`, `stopped` or another final state; None while it cannot be known."""
        return POWER.get(self.state or "")


class MachineAccepted(Wire):
    """The answer to suspend, stop and restart: the operation has started, and is not done."""

    ok: bool | None = None


class MachineStarted(Wire):
    """Nothing in it tells a resume from a cold start; all but `previous_state` may be missing."""

    previous_state: str | None = None
    migrated: bool | None = None
    new_host: str | None = None


class MachineWaited(Wire):
    """The answer to a wait that ended in the wanted state; its body is not shown, so it may hold nothing."""

    shape: ClassVar = "machine_wait"
    may_be_empty: ClassVar = True

    ok: bool | None = None
    state: str | None = None

    @property
    def reached(self) -> bool:
        return self.ok is not False


class MachineStop(Wire):
    """Capability `machine.stop`. `timeout`: seconds, or a duration as text; its type is not shown."""

    signal: str | None = None
    timeout: Annotated[int, Field(ge=0, le=_LARGEST)] | str | None = None


class MachineLeaseRequest(Wire):
    """`ttl`: seconds."""

    ttl: int | None = Field(None, ge=1, le=24 * 3600)
    description: str | None = None


class LeaseData(Wire):
    nonce: str
    expires_at: int
    owner: str | None = None
    description: str | None = None
    version: str | None = None


class MachineLease(Wire):
    status: str
    data: LeaseData
