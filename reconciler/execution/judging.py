"""The meaning of an answer for a step: from the answer itself, and from reads of the platform."""

from collections.abc import Collection, Iterable
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from reconciler.core.clock import sleep_telling
from reconciler.core.errors import AppMissing, NotFound, PlatformError
from reconciler.core.model import Address, Obligation, StateRecord
from reconciler.core.steps import Already, Repeat, Step
from reconciler.execution.intents import Intent
from reconciler.execution.outputs import fill_path
from reconciler.execution.recorder import Settled
from reconciler.execution.run import Run
from reconciler.execution.send_gate import RATE_LIMIT_S
from reconciler.execution.settling import Settlement, left_of_window
from reconciler.execution.waiting import wait_for
from reconciler.kinds.restarts import itself
from reconciler.services.outcome import Outcome
from reconciler.services.registry import Services

READ_LAG_S = 15  # a read may show the old size for 10 s. Source: platform notes, "Volumes"


async def settle(run: Run, step: Step, intent: Intent, sent_at: datetime, outcome: Outcome) -> Settlement:
    """The outcome of a lost call. Its Retry-After only delays the reads that decide."""
    if step.effect.removes and await is_gone(run, step):
        return Settlement("landed")
    least_s = min(outcome.retry_after_s or 0.0, RATE_LIMIT_S)
    if isinstance(step.recovery, Repeat):
        left_s = left_of_window(intent, sent_at, run.clock, run.services, run.limits.repeat_after_s)
        left_s = max(left_s, least_s)
        tell = partial(run.reporter.sent_again, step)
        tell(left_s)
        await sleep_telling(run.clock, left_s, tell)
        return Settlement("not_landed")
    return await run.evidence.settle(
        intent,
        sent_at,
        run.services,
        least_s=least_s,
        tell=partial(run.reporter.settling, step.address),
    )


async def holds_already(run: Run, step: Step, outcome: Outcome, *, repeated: bool) -> bool:
    """Whether a call was refused because the requested state is already reached.

    True if `Already` holds. Without it, true only for the repetition of a lost call that had taken effect.
    """
    wait = step.guard.wait if isinstance(step.guard, Already) else None
    if wait is not None and not is_about_the_object(outcome):
        return False
    if wait is None and not repeated:
        return False
    if wait is None and step.effect.removes:
        return await is_gone(run, step)
    if wait is None and isinstance(step.recovery, Repeat) and not step.if_owed:
        wait = step.wait  # but that a machine runs does not show that it was restarted
    if wait is None:
        return False
    waited = await wait_for(run, replace(wait, timeout_s=min(wait.timeout_s, READ_LAG_S)))
    return waited.ended == "done"


async def is_gone(run: Run, step: Step) -> bool:
    """Whether the platform shows that the deleted object is gone. False: unknown.

    The object itself is read: its absence from a list proves nothing.
    """
    if step.wait is None or not step.wait.or_gone:
        return False
    try:
        read = replace(step.wait.read, path=fill_path(step.wait.read.path, run.outputs))
        objects = (await run.services.read(read)).objects
    except AppMissing:
        return False
    except NotFound:
        return True
    except PlatformError:
        return False
    item = step.wait.item
    return not any(found.present for found in objects if item in (None, found.id))


async def is_seen_to_be_gone(run: Run, step: Step) -> bool:
    """Whether reads stop showing the deleted object within the time that they may lag."""
    assert step.wait is not None
    try:
        waited = await wait_for(run, step.wait, on_seen=partial(run.reporter.step_waiting, step))
    except PlatformError:
        return False
    return waited.ended == "done"


def says_gone(step: Step, outcome: Outcome) -> bool:
    """Whether a deletion was answered "not found" and a read can confirm that."""
    return step.effect.removes and step.wait is not None and outcome.refusal in step.effect.accepts


def has_bad_id(step: Step, outcome: Outcome) -> bool:
    """Whether the object was made, and sending the call again is the only way to ask for its id."""
    return outcome.bad_id and isinstance(step.recovery, Repeat)


def is_about_the_object(outcome: Outcome) -> bool:
    """Whether the refusal is about the object's state, not about the token or a missing object."""
    return outcome.refusal is None and outcome.status not in (0, 401, 403)


async def settled_by_restart(run: Run, machine: str, owing: Iterable[StateRecord]) -> Settled:
    """The obligations that a restart of `machine` settles; none if it is not seen to hold any object that
    owes.

    It settles the obligations that an answer tied to this machine, and all those of objects seen on it.
    Raises PlatformError.
    """
    found: dict[Address, Collection[Obligation]] = {}
    is_due = False
    for record in owing:
        settled = [owed for owed in record.obligations if owed.machine == machine]
        unsure = not is_due or len(settled) < len(record.obligations)
        if unsure and await is_held_by(run.services, record, machine):
            is_due, settled = True, list(record.obligations)
        if settled:
            found[record.address] = settled
    return found if is_due else {}


async def is_held_by(services: Services, record: StateRecord, machine: str) -> bool:
    """Whether the object of `record` itself shows that `machine` holds it. Raises PlatformError."""
    try:
        shown = (await services.read(itself(record.address, record.id))).objects
    except NotFound:
        return False
    return any(item.id == record.id and item.attached_machine_id == machine for item in shown)
