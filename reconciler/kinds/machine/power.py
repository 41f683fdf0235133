"""The calls that bring a machine to the wanted power, the rules that refuse them, and the waits after them.

Source: platform API, 3.3, 4.4 and 8; platform notes, "Machines".
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Action, FieldChange, Impact
from reconciler.core.steps import RUN_BEGAN, Already, Call, Condition, Read, Step, Wait
from reconciler.core.wire import one, parse_time
from reconciler.kinds.base import Decision, Subject
from reconciler.kinds.restarts import STALE, machine_path
from reconciler.kinds.steps import StepOptions, absolute, wait_only
from reconciler.services.machines.wire.machine import RUNNING, Machine, MachineWaited

SLICE_S = 5  # one request of a wait: shorter than the deadline of a read, and than the grace after a signal
HOLDS_WITHIN_S = 15  # after a refusal: the state that was asked for may just be coming

_RULES = (
    "the platform suspends only running machines with at most 2 GB of memory, without swap or schedule, "
    "and updated since 2024-06-20 20:00 UTC"
)

CALLED_AT = "power_at"  # the field of a record: the start of the apply that sent the last call

# The recorded power, by the wanted one, until that is reached.
COMING = {"suspended": "suspending", "stopped": "stopping", "started": "starting"}


def recorded(subject: Subject) -> Any:
    """Return the power that the record holds, such as "suspending"; None without a record."""
    return subject.record.applied.get("power") if subject.record is not None else None


def suspend_step(subject: Subject) -> Step:
    """Return the call to suspend; such calls run one after another."""
    # Many at once are advised against. Source: platform API, 8
    wait = reached(subject, "suspended")
    return _power_step(subject, "suspend", "suspending", wait, lane="suspend", if_refused=_RULES)


def start_step(subject: Subject) -> Step:
    """Return the call to start, and the wait that the capabilities allow."""
    note = f"{STALE}. It is not known whether its memory was kept"
    if "machine.get" in subject.capabilities:
        return _power_step(subject, "start", "started", until_started(subject), note=note)
    return _power_step(subject, "start", "starting", reached(subject, "started"), note=note)


def stop_step(subject: Subject) -> Step:
    """Return the call to stop (capability `machine.stop`)."""
    return _power_step(subject, "stop", "stopping", until_stopped(subject))


def _power_step(subject: Subject, verb: str, power: str, wait: Wait, **options: Unpack[StepOptions]) -> Step:
    """Return the call `verb`. `power` is recorded from the call on until its wait is over."""
    return absolute(
        subject,
        verb,
        Call("POST", f"{machine_path(subject.address, subject.spec.id)}/{verb}"),
        known_id=subject.spec.id,
        applied={"power": power, CALLED_AT: RUN_BEGAN},
        wait=wait,
        guard=Already(_soon(wait)),
        **options,
    )


def until_wanted(subject: Subject) -> Wait:
    """Wait until the machine has the power that its manifest wants."""
    if subject.spec.power == "suspended":
        return reached(subject, "suspended")
    return until_stopped(subject) if subject.spec.power == "stopped" else until_started(subject)


def until_stopped(subject: Subject) -> Wait:
    """Wait until the machine is stopped: by reads, or else by the platform's own wait."""
    if "machine.get" not in subject.capabilities:
        return reached(subject, "stopped")
    return replace(until(subject, "stopped"), applied={"power": "stopped"})


def reached(subject: Subject, state: str) -> Wait:
    """Use the platform's own wait, in slices: it answers 408 at the end of a slice, and is asked again."""
    slice_s = min(SLICE_S, subject.lifecycle.timeout_s)
    path = f"{machine_path(subject.address, subject.spec.id)}/wait?state={state}&timeout={slice_s}"
    return Wait(
        Read(path, one(MachineWaited)),
        Condition("reached", any_of=(True,)),
        subject.lifecycle.timeout_s,
        applied={"power": state},
    )


def until_started(subject: Subject) -> Wait:
    """Wait until reads show the machine running."""
    return until(subject, *RUNNING, fails=("launch_failed", "destroying", "destroyed"))


def until(subject: Subject, *states: str, fails: tuple[str, ...] = ("destroying", "destroyed")) -> Wait:
    """Wait until reads of the machine (capability `machine.get`) show one of `states`."""
    read = Read(machine_path(subject.address, subject.spec.id), one(Machine))
    return Wait(read, Condition("state", any_of=states, fails=fails), subject.lifecycle.timeout_s)


def _soon(wait: Wait) -> Wait:
    return Wait(wait.read, wait.until, min(wait.timeout_s, HOLDS_WITHIN_S))


LARGEST_MB = 2048
UPDATED_SINCE = datetime(2024, 6, 20, 20, tzinfo=UTC)
STARTABLE = ("suspended", "stopped", "created", "failed")
STOPPABLE = ("started", "suspended", "failed")

_VERBS = {"started": Action.START, "suspended": Action.SUSPEND, "stopped": Action.STOP}


def bring(subject: Subject, fields: Sequence[FieldChange]) -> Decision:
    """Decide about a machine whose live state is not the wanted one."""
    moves = {"started": start, "suspended": suspend, "stopped": stop}
    return moves[subject.spec.power](subject, fields)


def unseen(subject: Subject, change: FieldChange, known: str = "") -> Decision:
    """Decide about a machine of unknown state. `known`: the result of our last call; "" without one."""
    if change.after == "stopped" and not may_stop(subject):
        return _no_stop(subject, (change,))
    verb = _VERBS[change.after]
    why = f"; {known}" if known else ""
    reason = f"live state unknown (enable `machine.get` to read it){why}; {verb} will be sent"
    if verb is Action.START:
        return Decision(verb, (start_step(subject),), (change,), reason=reason)
    step = suspend_step(subject) if verb is Action.SUSPEND else stop_step(subject)
    return Decision(verb, (step,), (change,), Impact.DOWNTIME, reason)


def start(subject: Subject, fields: Sequence[FieldChange]) -> Decision:
    """Start a suspended or stopped machine, after a running stop has ended."""
    state = subject.live.state
    if subject.live.power not in STARTABLE:
        return _refused(subject, fields, f"is {state}, which a start does not change")
    steps = [start_step(subject)]
    if state == "stopping":
        steps.insert(0, wait_only(subject, until(subject, "stopped")))
    how = {
        "suspended": "resumes it, or starts it cold if its snapshot is lost",
        "suspending": "may cancel that",
    }.get(state, "starts it cold")
    return Decision(Action.START, tuple(steps), tuple(fields), reason=f"it is {state}; the call {how}")


def suspend(subject: Subject, fields: Sequence[FieldChange]) -> Decision:
    """Suspend a running machine, unless a rule of the platform forbids it."""
    state = subject.live.state
    if subject.live.power != "started":
        return _refused(subject, fields, f"is {state}: only a running machine can be suspended")
    broken = list(_broken_rules(subject.live))
    if broken:
        rules, recipes = zip(*broken, strict=True)
        why = f"cannot be suspended: {', '.join(rules)}"
        return _refused(subject, fields, why, f"{', '.join(recipes)}; or write `power: started`")
    steps = [suspend_step(subject)]
    if state not in RUNNING:
        steps.insert(0, wait_only(subject, until_started(subject)))
    reason = f"it is {state}; a later start resumes it only if its snapshot still exists"
    return Decision(Action.SUSPEND, tuple(steps), tuple(fields), Impact.DOWNTIME, reason)


def stop(subject: Subject, fields: Sequence[FieldChange]) -> Decision:
    """Stop a started or suspended machine, after a running operation has ended."""
    state = subject.live.state
    if subject.live.power not in STOPPABLE:
        return _refused(subject, fields, f"is {state}, which a stop does not change")
    if not may_stop(subject):
        return _no_stop(subject, fields)
    steps = [stop_step(subject)]
    if state == "suspending":
        steps.insert(0, wait_only(subject, until(subject, "suspended")))
    elif subject.live.power == "started" and state not in RUNNING:
        steps.insert(0, wait_only(subject, until_started(subject)))
    discards = "; its snapshot is discarded" if subject.live.power == "suspended" else ""
    reason = f"it is {state}{discards}; a later start is a cold one"
    return Decision(Action.STOP, tuple(steps), tuple(fields), Impact.DOWNTIME, reason)


def may_stop(subject: Subject) -> bool:
    """Whether the platform has a call to stop machines."""
    return "machine.stop" in subject.capabilities


def _no_stop(subject: Subject, fields: Sequence[FieldChange]) -> Decision:
    problem = error(
        "capability-missing",
        f"`{subject.address}`: `power: stopped` needs capability `machine.stop`, because no call to stop "
        "a machine is documented",
        subject.span("spec", "power"),
        help="if your platform supports it, add `machine.stop` to `platform.capabilities` in "
        "reconcile.yaml; otherwise "
        "write `power: suspended`, or stop the machine by hand and remove `power`",
    )
    return Decision(Action.REFUSED, fields=tuple(fields), diagnostics=(problem,), reason=problem.message)


def _refused(subject: Subject, fields: Sequence[FieldChange], why: str, recipe: str = "") -> Decision:
    message = f"machine `{subject.address.name}` ({subject.live.id}) {why}"
    problem: Diagnostic = error(
        "machine-power",
        message,
        subject.span("spec", "power"),
        label=f"the live state is {subject.live.state}",
        help=recipe or "start it first (`power: started`), look at it on the platform, or remove `power`",
    )
    return Decision(Action.REFUSED, fields=tuple(fields), diagnostics=(problem,), reason=message)


def _broken_rules(live: Any) -> Iterator[tuple[str, str]]:
    """Yield the rules that forbid to suspend the machine, with what to do about them.

    A value that the platform does not show breaks no rule. Source: platform API, 3.3 and 8.
    """
    guest = live.config.guest if live.config is not None else None
    init = live.config.init if live.config is not None else None
    if guest is not None and (guest.memory_mb or 0) > LARGEST_MB:
        yield f"it has {guest.memory_mb} MB of memory (at most {LARGEST_MB})", "give it less memory"
    if init is not None and init.swap_size_mb:
        yield f"it has {init.swap_size_mb} MB of swap", "remove its swap"
    if live.config is not None and live.config.schedule:
        yield f"it has a schedule ({live.config.schedule})", "remove its schedule"
    updated_at = parse_time(live.updated_at)
    if updated_at is not None and updated_at < UPDATED_SINCE:
        yield "it was last updated before 2024-06-20 20:00 UTC", "update it once (a deploy does)"
