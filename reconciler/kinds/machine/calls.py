"""The calls that change a machine's power, and the waits for what they begin.

Source: platform API, 3.3 and 4.4; platform notes, "Machines".
"""

from typing import Any, Unpack

from msgspec.structs import replace

from reconciler.core.model import Address
from reconciler.core.steps import RUN_BEGAN, Already, Call, Condition, Read, Step, Wait
from reconciler.core.wire import one
from reconciler.kinds.base import Subject, segment
from reconciler.kinds.restarts import STALE
from reconciler.kinds.steps import Words, absolute
from reconciler.services.machines.wire.machine import RUNNING, Machine, MachineWaited

SLICE_S = 5  # one request of a wait: shorter than the deadline of a read, and than the grace after a signal
HOLDS_WITHIN_S = 15  # after a refusal: the state that was asked for may just be coming

_RULES = (
    "the platform suspends only running machines with at most 2 GB of memory, without swap or schedule, "
    "and updated since 2024-06-20 20:00 UTC"
)

CALLED_AT = "power_at"  # the field of a record: when the apply began that sent the last call

# By what is wanted, what the record holds until it is reached.
COMING = {"suspended": "suspending", "stopped": "stopping", "started": "starting"}


def recorded(subject: Subject) -> Any:
    return subject.record.applied.get("power") if subject.record is not None else None


def machine_path(address: Address, id: str) -> str:
    return f"/v1/apps/{address.app}/machines/{segment(id)}"


def suspend_step(subject: Subject) -> Step:
    # Many at once are advised against. Source: platform API, 8
    wait = until_suspended(subject)
    return _power_step(subject, "suspend", "suspending", wait, lane="suspend", if_refused=_RULES)


def start_step(subject: Subject) -> Step:
    note = f"{STALE}. It is not known whether its memory was kept"
    if "machine.get" in subject.capabilities:
        return _power_step(subject, "start", "started", until_started(subject), note=note)
    return _power_step(
        subject, "start", "starting", reached(subject, "started", {"power": "started"}), note=note
    )


def stop_step(subject: Subject) -> Step:
    return _power_step(subject, "stop", "stopping", until_stopped(subject))


def _power_step(subject: Subject, verb: str, power: str, wait: Wait, **words: Unpack[Words]) -> Step:
    """`power`: what is recorded from the call on until the wait is over."""
    return absolute(
        subject,
        verb,
        Call("POST", f"{machine_path(subject.address, subject.spec.id)}/{verb}"),
        known_id=subject.spec.id,
        applied={"power": power, CALLED_AT: RUN_BEGAN},
        wait=wait,
        guard=Already(_soon(wait)),
        **words,
    )


def until_wanted(subject: Subject) -> Wait:
    """Until the machine has the power that its manifest wants."""
    waits = {"suspended": until_suspended, "stopped": until_stopped, "started": until_started}
    return waits[subject.spec.power](subject)


def until_suspended(subject: Subject) -> Wait:
    return reached(subject, "suspended", {"power": "suspended"})


def until_stopped(subject: Subject) -> Wait:
    if "machine.get" not in subject.capabilities:
        return reached(subject, "stopped", {"power": "stopped"})
    return replace(until(subject, "stopped"), applied={"power": "stopped"})


def reached(subject: Subject, state: str, applied: dict[str, Any] | None = None) -> Wait:
    """The platform's own wait, in slices: it answers 408 when a slice is over, and is asked again."""
    slice_s = min(SLICE_S, subject.lifecycle.timeout_s)
    path = f"{machine_path(subject.address, subject.spec.id)}/wait?state={state}&timeout={slice_s}"
    return Wait(
        Read(path, one(MachineWaited)),
        Condition("reached", any_of=(True,)),
        subject.lifecycle.timeout_s,
        applied=applied or {},
    )


def until_started(subject: Subject) -> Wait:
    return until(subject, *RUNNING, fails=("launch_failed", "destroying", "destroyed"))


def until(subject: Subject, *states: str, fails: tuple[str, ...] = ("destroying", "destroyed")) -> Wait:
    read = Read(machine_path(subject.address, subject.spec.id), one(Machine))
    return Wait(read, Condition("state", any_of=states, fails=fails), subject.lifecycle.timeout_s)


def _soon(wait: Wait) -> Wait:
    return Wait(wait.read, wait.until, min(wait.timeout_s, HOLDS_WITHIN_S))
