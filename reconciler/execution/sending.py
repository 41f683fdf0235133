"""One call of a step: its intent, the sending, and its outcome, which is stored before anything else.

In this order: wait for the turn, read the list that a lost create would be compared with, commit the intent,
check the lease, send once, commit the outcome with its effect on the record. A process that dies in between
leaves an open intent, which `open_intents` settles before the next run plans.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Literal

import anyio
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.lookup import NOTHING, Lookup
from reconciler.core.model import SCRATCH_NAME, Deletion, Obligation
from reconciler.core.steps import Call, Find, OutcomeWord, Read, Repeat, Result, Step
from reconciler.core.uses import Uses, sent_gb
from reconciler.execution.intents import Intent
from reconciler.execution.judging import (
    has_bad_id,
    holds_already,
    is_about_the_object,
    is_seen_to_be_gone,
    says_gone,
    settle,
    settled_by_restart,
)
from reconciler.execution.outputs import fill_body, fill_path
from reconciler.execution.recorder import OutcomeNotStored
from reconciler.execution.run import Run
from reconciler.execution.send_gate import CallNotSent, NotOpen, RateLimited
from reconciler.kinds.base import segment
from reconciler.services.client import Client
from reconciler.services.outcome import Outcome, Refusal, Verdict, at_path
from reconciler.services.retry import TOO_MANY

ATTEMPTS = 2  # a lost call is sent again at most once a run, and only if it is known to have had no effect
UNDER_WAY = ("running", "unfinished")  # states of a snapshot that a refusal may tell us to wait for
PAUSE_S = 5.0  # beyond the deadline of a request: only a process that was stopped takes so long


async def mutate(run: Run, step: Step, *, within: bool = False) -> tuple[Result, Any, frozenset[str]]:
    """Send the call of a step. Returns result, reply and baseline. Raises CallNotSent if it was never sent.

    Every intent is sent once. There are at most `ATTEMPTS` intents with an unknown outcome, and any number
    within `RATE_LIMIT_S` that are refused with 429. `within`: the call is part of a step that has started.
    """
    path = fill_path(step.call.path, run.outputs)
    why = _why_not(run, step, path) if not within else ""
    if why:
        raise Refused(f"{step.call.method} {path} {why}; it was not sent")
    body = fill_body(step.call.body, run.outputs, run.read_secret)
    call = dataclasses.replace(step.call, path=path, body=body)
    client = run.services.of(call.service)
    lost, limited = 0, RateLimited(run.clock)
    outcome = Outcome(Verdict.NO)
    for attempt in count(1):
        listed = [NOTHING]
        creates = not isinstance(step.recovery, Repeat)
        turn = run.gate.turn(
            client,
            call,
            creates=creates,
            again=limited.since_s is not None,
            prepare=partial(_list_before, run, step, listed, fresh=lost > 0),
            tell=partial(run.reporter.asked_to_wait, step) if limited.since_s is not None else _quiet,
        )
        try:
            async with turn as over:
                if run.stopping:
                    raise CallNotSent("interrupted before it was sent")
                if not within:  # the turn may have come hours after the step was ready
                    run.require_open(step)
                if attempt == 1 and not within:
                    run.reporter.step_started(step)
                intent, usable = _intend(run, step, path, listed[0], sent_gb(step.uses, body))
                sent_at = run.clock.now()
                answered = partial(_answered, run, client, creates, over)
                outcome = await _send(run, step, attempt, intent, call, answered)
        except CallNotSent as not_sent:
            if attempt == 1:
                raise
            again = isinstance(step.recovery, Repeat) or isinstance(not_sent, NotOpen)
            word: OutcomeWord = "pending" if again else "failed"
            return run.result(step, word, f"{outcome.message}; {not_sent.message}"), None, frozenset()
        if outcome.kind is Verdict.YES:
            return run.result(step, "done"), outcome.reply, usable
        if outcome.status == TOO_MANY:
            wait_s = limited.pause_s(outcome)
            if wait_s is None:
                why = limited.why_given_up(outcome)
                run.gate.give_up(client, call, outcome, why)
                why = f"{outcome.message}; rate-limited: {why}; run again later"
                return run.result(step, "failed", why), None, usable
            client.rate.refused(client.action(call), wait_s)
            run.reporter.asked_to_wait(step, wait_s)
            continue
        if outcome.kind is Verdict.NO:
            if await holds_already(run, step, outcome, repeated=lost > 0):
                await _landed(run, step, attempt, intent, "")
                return run.result(step, "done"), None, usable
            full = outcome.refusal is Refusal.NO_CAPACITY
            note = step.if_refused if full or is_about_the_object(outcome) else ""
            why = outcome.message
            if outcome.status == 403:
                why += f" (check that the token may change `{intent.scope}`)"
            return run.result(step, "failed", why, note), None, usable
        lost += 1
        if says_gone(step, outcome):
            if await is_seen_to_be_gone(run, step):
                await _landed(run, step, attempt, intent, "")
                return run.result(step, "done"), None, usable
            why = f"{outcome.message}; nothing shows yet that the object was deleted; run again"
            return run.result(step, "unknown", why), None, usable
        if lost == ATTEMPTS and has_bad_id(step, outcome):
            why = f"{outcome.message}; it is not sent again until a person decides"
            return run.result(step, "failed", why), None, usable
        if lost == ATTEMPTS and isinstance(step.recovery, Repeat):
            # Nobody has to decide: the next run finds out by sending it again.
            return run.result(step, "pending", f"{outcome.message}; run again"), None, usable
        settlement = await settle(run, step, intent, sent_at, outcome)
        if settlement.kind == "landed":
            await _landed(run, step, attempt, intent, settlement.id)
            return run.result(step, "done"), None, usable
        if settlement.kind == "undecided":
            why = f"{outcome.message}; {settlement.why}"
            if settlement.unread:  # nobody has to decide: the next run looks again
                return run.result(step, "pending", f"{why}; run again"), None, usable
            return replace(run.result(step, "unknown", why), undecided=True), None, usable
        await run.recorder.not_landed(step, attempt)
        if lost == ATTEMPTS:
            break
        owed = step.if_owed
        if owed is not None and not await settled_by_restart(
            run, owed.machine, run.recorder.owing(step.address)
        ):
            why = f"{outcome.message}; {owed.machine} is not seen to hold what owes it any more; run again"
            return run.result(step, "pending", why), None, usable
    why = f"{outcome.message}; the call had no effect, and is not sent again in this run"
    return run.result(step, "failed", why), None, usable


def _why_not(run: Run, step: Step, path: str) -> str:
    """Why the call must not be sent; "" if it is approved, and for the recorded object."""
    record, began = run.recorder.records.get(step.address), run.recorded.get(step.address)
    removes = step.effect.removes
    if removes != (step.call.method == "DELETE"):
        return "does not do what the step says"
    if removes and str(step.address) not in run.approved_deletes:
        return "was not approved"
    if removes and (record is None or began is None or record.id != began.id):
        return "would delete what was not recorded before this run"
    deletion = began.lifecycle.deletion if began is not None else Deletion.RETAIN
    if removes and record is not None and record.inferred and deletion is not Deletion.SCRATCH:
        return "would delete what was not recorded with certainty before this run"
    if removes and deletion is Deletion.SCRATCH and not step.address.name.startswith(SCRATCH_NAME):
        return "would delete what no drill has made"
    if removes and deletion is Deletion.RETAIN:
        return "would delete what is recorded with lifecycle deletion: retain"
    if step.effect.id_path is not None or step.effect.known_id:
        return ""
    id = step.if_owed.machine if step.if_owed is not None else record.id if record is not None else ""
    return (
        "" if segment(id) in path.split("/")[1:] else f"is not about the recorded object of `{step.address}`"
    )


def _intend(run: Run, step: Step, path: str, listed: Lookup, uses: Uses) -> tuple[Intent, frozenset[str]]:
    """The intent of the next call, and the ids of objects that the list showed as finished."""
    binding = run.bindings.get(step.address)
    record = run.recorder.records.get(step.address)
    known = binding or record
    if known is None:
        raise ReconcilerError(f"`{step.address}` is neither declared nor recorded")
    if step.find is not None:
        _refuse_namesake(run, step, step.find, listed)
    applied = run.applied(step)
    intent = Intent(
        method=step.call.method,
        path=path,
        if_unknown=step.recovery.how,
        creates=step.effect.id_path is not None,
        applied=applied,
        scope=known.scope,
        lifecycle=known.lifecycle,
        source=known.source,
        find=_where_found(run, step),
        match=step.find.match if step.find is not None else None,
        unattached=step.find.unattached if step.find is not None else (),
        grows=step.find.grows if step.find is not None else (),
        keep=step.find.keep if step.find is not None else "",
        one=step.find.one if step.find is not None else None,
        baseline=tuple(item.id for item in listed.possible(step.find.match)) if step.find else (),
        owes=step.effect.owes.because if step.effect.owes is not None else "",
        service=step.call.service,
        own_id=applied.get(step.recovery.own_id, "") if isinstance(step.recovery, Repeat) else "",
        service_at=run.services.time(step.call.service),
        holder=run.recorder.holder,
        uses={**uses, "calls": 1},
    )
    return intent, _finished(listed) if step.wait is not None and step.wait.item is not None else frozenset()


def _finished(listed: Lookup) -> frozenset[str]:
    """The ids of listed objects that are not being made any more."""
    return frozenset(item.id for item in listed.objects if getattr(item, "progress", "") not in UNDER_WAY)


def _refuse_namesake(run: Run, step: Step, find: Find, listed: Lookup) -> None:
    """Raises ReconcilerError if the object of a create may already exist without a record.

    This does not depend on the plan: a lost call may have created it, or a lost state may have recorded it.
    """
    if step.effect.id_path is None:
        return
    tracked = run.recorder.tracked_ids()
    ids = [item.id for item in listed.possible(find.match) if item.present and item.id not in tracked]
    if ids:
        named = ", ".join(sorted(ids))
        raise ReconcilerError(
            f"not sent: the platform has an equal object that no record owns: {named}; make a new plan"
        )


def _where_found(run: Run, step: Step) -> Read | None:
    """The read of the list in which the step's object would show up; None if there is none."""
    if step.find is None:
        return None
    return replace(step.find.read, path=fill_path(step.find.read.path, run.outputs))


async def _list_before(run: Run, step: Step, listed: list[Lookup], *, fresh: bool) -> None:
    """Put into `listed` the list of objects with which a lost create will be compared.

    The observation of this run serves all creates of an app; a second attempt reads the list again.
    """
    read = _where_found(run, step)
    if read is not None:
        known = None if fresh else run.shown(read)
        listed[0] = known or Lookup((await run.services.read(read)).objects)


def _answered(run: Run, client: Client, creates: bool, over: Callable[[], None], outcome: Outcome) -> None:
    """Free the slot for the next call: a remote state takes time to store an outcome."""
    run.gate.answered(client, outcome, creates=creates)
    over()


async def _send(
    run: Run, step: Step, attempt: int, intent: Intent, call: Call, answered: Callable[[Outcome], None]
) -> Outcome:
    """Record the intent, send the call, and record its outcome, even if this task is cancelled meanwhile.

    While the intent is stored, outcomes of earlier calls may be stored, too. The call is not sent before they
    are stored.
    """
    if run.reserve is not None:
        await run.reserve(step, intent.uses)
    with anyio.CancelScope(shield=True):
        await run.recorder.intent(step, attempt, intent)
        checked_at = run.clock.monotonic()
        await run.recorder.check_lease(step, run.limits.deadline_s)
    outcome = Outcome(Verdict.UNKNOWN, message="interrupted before an answer came")
    # Stands only when the grace period after a signal cuts the call off.
    run.results[step.id] = run.result(step, "unknown", outcome.message)
    try:
        if run.recorder.has_unstored_outcome:
            raise CallNotSent("not sent: the outcome of the call before it could not be stored")
        outcome = await run.services.of(call.service).send(
            call,
            id_path=step.effect.id_path,
            accepts=step.effect.accepts,
            deadline_s=run.limits.deadline_s,
        )
        if says_gone(step, outcome):
            # A token without access, or an edge that lags behind, gives the same answer: a read decides.
            outcome = dataclasses.replace(outcome, kind=Verdict.UNKNOWN)
        answered(outcome)
    except ReconcilerError as refused:  # by our own client, before anything was sent
        outcome = Outcome(Verdict.NO, message=refused.message)
        raise
    finally:
        with anyio.CancelScope(shield=True):
            _notice_pause(run, step, run.clock.monotonic() - checked_at)
            await _record(run, step, attempt, intent, outcome)
    return outcome


def _notice_pause(run: Run, step: Step, took_s: float) -> None:
    """Report that this process was stopped between the check of its lease and the answer.

    Whether somebody took the lease over meanwhile shows when the outcome is recorded.
    """
    if took_s > run.limits.deadline_s + PAUSE_S:
        since = f"{took_s:.0f} s passed between the check of its lease and the answer"
        run.reporter.note(f"{step.id}: this process was paused: {since}")


_WORDS = {
    Verdict.YES: "the call took effect",
    Verdict.NO: "the call had no effect",
    Verdict.UNKNOWN: "the outcome of the call is unknown",
}


async def _record(run: Run, step: Step, attempt: int, intent: Intent, outcome: Outcome) -> None:
    """Record the outcome. Raises OutcomeNotStored if the store fails: the next run reads the spool."""
    try:
        await _commit_outcome(run, step, attempt, intent, outcome)
    except OutcomeNotStored as failure:
        id_shown = f" ({outcome.id})" if outcome.id else ""
        message = f"{_WORDS[outcome.kind]}{id_shown}"
        if failure.message not in run.outages:
            message += f", but the state cannot be written: {failure.message}"
        else:
            message += f": {'written to the same file' if failure.kept else 'not stored either'}"
        run.outages.add(failure.message)
        raise OutcomeNotStored(message, kept=failure.kept) from failure


async def _commit_outcome(run: Run, step: Step, attempt: int, intent: Intent, outcome: Outcome) -> None:
    """Commit the outcome with its effect on the record, and note the reply for later steps."""
    if outcome.kind is Verdict.NO:
        await run.recorder.failed(step, attempt, outcome.message, outcome.status)
    elif outcome.kind is Verdict.UNKNOWN:
        owed, bad_id = _owed(run, step, None), has_bad_id(step, outcome)
        await run.recorder.unknown(
            step, attempt, intent, outcome.message, owed, status=outcome.status, bad_id=bad_id
        )
    else:
        run.outputs.put(step.id, outcome.reply)
        path = step.effect.object_path
        live = at_path(outcome.reply, path) if path is not None else None
        if live is not None:
            run.outputs.put(str(step.address), live)
        await run.recorder.done(
            step,
            attempt,
            intent,
            id=outcome.id,
            applied=run.applied(step),
            owed=_owed(run, step, outcome.reply),
        )


def _owed(run: Run, step: Step, reply: Any) -> Obligation | None:
    """The obligation that the reply causes; a lost reply, or one that does not say, leaves it unknown."""
    owes = step.effect.owes
    if owes is None:
        return None
    said = at_path(reply, owes.when)
    if said is False:
        return None
    certainty: Literal["owed", "unknown"] = "owed" if said is True else "unknown"
    machine = str(at_path(reply, owes.machine) or "")
    return Obligation(owes.work, owes.because, certainty, run.clock.now(), machine)


async def _landed(run: Run, step: Step, attempt: int, intent: Intent, id: str) -> None:
    """Record a call that evidence shows to have had its effect. `id`: of its object."""
    if step.effect.id_path is not None:
        run.outputs.put(str(step.address), {"id": id})
    await run.recorder.done(
        step,
        attempt,
        intent,
        id=id if step.effect.id_path is not None else None,
        applied=run.applied(step) | ({intent.keep: id} if intent.keep else {}),
        inferred=True,
    )


def _quiet(left_s: float) -> None:
    """Reports nothing, for a short wait that is not part of the plan."""
