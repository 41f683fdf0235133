"""The restart that an extend may leave owed: carried out where manifest, platform and machine allow it.

Suspend and resume does not do it: the machine has to stop. Source: platform notes, "Volumes".
"""

from collections.abc import Sequence
from typing import Any

from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.model import Address
from reconciler.core.steps import Call, Condition, IfOwed, Read, Step, Wait
from reconciler.core.wire import one
from reconciler.kinds.base import Subject, segment
from reconciler.kinds.steps import absolute
from reconciler.services.machines.wire.machine import RUNNING, Machine
from reconciler.services.machines.wire.volume import Volume

STOPPED = ("stopped", "created")  # nothing is in memory: the next start is a cold one
STALE = "its earlier connections may have been closed; clients should reconnect"

_STOP_AND_START = frozenset({"machine.stop", "machine.get"})
_NEEDED = "this needs capability machine.restart, or machine.stop and machine.get"


def machine_reads(subject: Subject, *, grows: bool) -> Sequence[Read]:
    """Return the GET of the machine, where an owed restart depends on its state and the platform shows it.

    `grows`: this plan extends the volume.
    """
    auto = subject.lifecycle.restart == "auto"
    machine = subject.live.attached_machine_id
    if not machine or "machine.get" not in subject.capabilities or not (_owes(subject) or (auto and grows)):
        return ()
    return (Read(machine_path(subject.address, machine), one(Machine)),)


def restart_steps(subject: Subject) -> list[Step]:
    """Return the restart of the attached machine, if it is wanted and can be carried out now."""
    if subject.lifecycle.restart != "auto" or not subject.live.attached_machine_id or _hindrance(subject):
        return []
    if "machine.restart" in subject.capabilities:
        return [_machine_step(subject, "restart", *RUNNING, after=_woken(subject), settles=True)]
    return [
        _machine_step(subject, "stop", "stopped", after=_woken(subject)),
        _machine_step(subject, "start", *RUNNING, settles=True),
    ]


def settled_by_a_stop(subject: Subject) -> bool:
    """Whether the machine's next start is a cold one, which does the restart that is owed so far.

    True also for a volume that no machine holds: the machine that it is attached to next sees all of it.
    """
    return _owes(subject) and (_state(subject) in STOPPED or _is_seen_detached(subject))


def detached_reads(subject: Subject) -> Sequence[Read]:
    """Return the GET of a detached volume that owes a restart: a list may lag behind an attachment."""
    if not (_owes(subject) and _is_detached(subject.live)):
        return ()
    return (itself(subject.address, subject.live.id),)


def itself(address: Address, id: str) -> Read:
    """Return the GET of the volume that owes a restart; its answer names the machine."""
    return Read(f"/v1/apps/{address.app}/volumes/{segment(id)}", one(Volume))


def _is_seen_detached(subject: Subject) -> bool:
    seen = subject.extra.get(one(Volume), ())
    return _is_detached(subject.live) and bool(seen) and all(map(_is_detached, seen))


def _is_detached(live: Any) -> bool:
    """Whether the platform shows that nothing holds the volume. A field that is missing proves nothing."""
    is_shown = "attached_machine_id" in live.model_fields_set
    return is_shown and not live.attached_machine_id and not live.attached_alloc_id


def restart_remarks(subject: Subject, *, grows: bool) -> tuple[Diagnostic, ...]:
    """Return remarks about a restart that is owed, or soon may be, and is not carried out.

    Also about one that is no longer owed.
    """
    machine = subject.live.attached_machine_id
    if settled_by_a_stop(subject):
        settled = "it is attached to no machine: the next one sees the added space"
        if machine:
            settled = f"machine {machine} is {_state(subject)}: its next start uses the added space"
        return (_remark("restart-settled", subject, f"{settled}, so no restart is owed any more"),)
    hindrance = _hindrance(subject)
    grows = grows and _state(subject) not in STOPPED  # its next start is a cold one anyway
    if machine and hindrance and (_owes(subject) or grows) and subject.lifecycle.restart == "auto":
        which = "the owed restart" if _owes(subject) else "a restart that the extend requires"
        return (_remark("restart-waits", subject, f"{which} is not carried out: {hindrance}"),)
    return ()


def _remark(code: str, subject: Subject, message: str) -> Diagnostic:
    return Diagnostic(
        code, Severity.INFO, f"`{subject.address}`: {message}", subject.span("metadata", "name")
    )


def _owes(subject: Subject) -> bool:
    return subject.record is not None and bool(subject.record.obligations)


def _state(subject: Subject) -> str | None:
    """Return the machine's state, `not found`, or None when it was not read."""
    if one(Machine) not in subject.extra:
        return None
    return next((found.state or "in an unknown state" for found in subject.extra[one(Machine)]), "not found")


def _hindrance(subject: Subject) -> str:
    """Return why the machine must not or cannot be restarted now; "" when nothing is known to prevent it."""
    machine = subject.live.attached_machine_id
    power = subject.powers.get(machine)
    if power is not None and power.wanted == "suspended":
        return (
            f"a manifest keeps machine {machine} suspended, and a resume does not use the added space; "
            "stop and start it"
        )
    if power is not None and power.wanted == "stopped":
        return f"a manifest keeps machine {machine} stopped, and its next start uses the added space"
    if "machine.restart" not in subject.capabilities and not subject.capabilities >= _STOP_AND_START:
        return _NEEDED
    state = _state(subject)
    if state is None or state in RUNNING or _woken(subject):
        return ""
    return f"machine {machine} is {state}; it is restarted when it is running"


def _woken(subject: Subject) -> tuple[str, ...]:
    """Return the id of the step that resumes the machine, because a manifest wants it to run."""
    power = subject.powers.get(subject.live.attached_machine_id)
    if power is None or power.wanted != "started" or _state(subject) != "suspended":
        return ()
    return (f"{power.address}#start",)


def machine_path(address: Address, id: str) -> str:
    """Return the path of the machine `id` of the app of `address`."""
    return f"/v1/apps/{address.app}/machines/{segment(id)}"


def _machine_step(
    subject: Subject, verb: str, *until: str, after: tuple[str, ...] = (), settles: bool = False
) -> Step:
    path = machine_path(subject.address, subject.live.attached_machine_id)
    wait = Wait(Read(path, one(Machine)), Condition("state", any_of=until), subject.lifecycle.timeout_s)
    return absolute(
        subject,
        verb,
        Call("POST", f"{path}/{verb}"),
        after=after,
        wait=wait if "machine.get" in subject.capabilities else None,
        guard=IfOwed(subject.live.attached_machine_id, settles),
        note=STALE if settles else "",
        uses={"restarts": 1} if settles else {},
    )
