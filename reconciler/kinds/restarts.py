"""The restart that an extend may leave owed, carried out where the manifest and the platform allow it."""

from reconciler.kinds.base import Subject, segment
from reconciler.steps import Call, Condition, Read, Step, Wait

RUNNING = ("started", "running")  # two words for one state. Source: platform notes, "Machines"


def restart_steps(subject: Subject) -> list[Step]:
    """The restart of the attached machine, if it is wanted and the platform can do it.

    Suspend and resume does not do it: the machine has to stop. Source: platform notes, "Volumes".
    """
    machine = subject.live.attached_machine_id
    if subject.lifecycle.restart != "auto" or not machine:
        return []
    path = f"/v1/apps/{subject.address.app}/machines/{segment(machine)}"
    if "machine.restart" in subject.capabilities:
        return [_machine_step(subject, "restart", path, *RUNNING, settles=True)]
    if {"machine.stop", "machine.get"} <= subject.capabilities:
        return [
            _machine_step(subject, "stop", path, "stopped"),
            _machine_step(subject, "start", path, *RUNNING, settles=True),
        ]
    return []


def _machine_step(subject: Subject, verb: str, path: str, *until: str, settles: bool = False) -> Step:
    wait = Wait(Read(path, "machine"), Condition("state", any_of=until), subject.lifecycle.timeout_s)
    return Step(
        id=f"{subject.address}#{verb}",
        address=subject.address,
        call=Call("POST", f"{path}/{verb}"),
        if_unknown="repeat",
        wait=wait if "machine.get" in subject.capabilities else None,
        if_owed=(subject.address,),
        settles=settles,
    )
