"""Runs the steps of a plan: in order, in parallel where allowed; each outcome is stored immediately.

A step starts when the steps in its `after` and the previous step of its lane are over. A failure skips only
the steps that depend on it. A failure of the store, or a signal, lets no new step start; calls under way may
still be answered, and their outcomes are stored.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

import anyio
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import ReconcilerError, StoreError, Unauthorized
from reconciler.core.model import READY_AFTER, made_at, took_s
from reconciler.core.steps import Result, Step, UnlessRecorded
from reconciler.core.tracing import span
from reconciler.core.words import since
from reconciler.execution.for_each import send_for_each
from reconciler.execution.judging import settled_by_restart
from reconciler.execution.recorder import OutcomeNotStored
from reconciler.execution.run import Run
from reconciler.execution.send_gate import CallNotSent, NotOpen
from reconciler.execution.sending import mutate
from reconciler.execution.waiting import Waited, wait_for
from reconciler.services.outcome import at_path

GRACE_S = 10.0  # how long calls under way may go on after the first signal


class Executor:
    """One run of one plan, under a lease, against what was observed under it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._sending: anyio.CancelScope | None = None

    @property
    def stopping(self) -> bool:
        """Whether no new step starts."""
        return self._run.stopping

    def stop(self) -> None:
        """Start no new step; those under way have `GRACE_S` seconds, then their outcome is unknown."""
        self._run.stopping = True
        if self._sending is not None:
            self._sending.deadline = anyio.current_time() + GRACE_S

    async def run(self) -> Sequence[Result]:
        """One result for each step, in the plan's order. Failures are results; only a bug raises."""
        steps = {step.id: step for step in self._run.plan.steps}
        sorter = TopologicalSorter(_predecessors(self._run.plan.steps))
        sorter.prepare()

        async def one(step: Step) -> None:
            known = self._run.bindings.get(step.address) or self._run.recorder.records.get(step.address)
            with span("step", {"reconciler.step": step.id, "reconciler.scope": known.scope if known else ""}):
                self._run.results[step.id] = await self._one(step)
            sorter.done(step.id)
            launch()

        def launch() -> None:
            for id in sorter.get_ready():
                group.start_soon(one, steps[id])

        with anyio.CancelScope() as self._sending:
            async with anyio.create_task_group() as group:
                launch()
        return [
            self._run.results.get(step.id, Result(step.address, step.id, "skipped", error="interrupted"))
            for step in self._run.plan.steps
        ]

    def notices(self) -> Sequence[Diagnostic]:
        """Why calls of this run were not sent: one diagnostic for each cause."""
        done = sum(result.outcome == "done" for result in self._run.results.values())
        return self._run.gate.notices(done, len(self._run.plan.steps))

    async def _one(self, step: Step) -> Result:
        """Carry out one step: skip it, or send its calls, wait for their effect, and report the result."""
        blocker = next((id for id in step.after if self._run.results[id].outcome != "done"), None)
        if blocker is not None:
            return self._skip(step, f"waits for {blocker}, which is {self._run.results[blocker].outcome}")
        started = self._run.clock.monotonic()
        try:
            if step.if_owed and not await self._is_owed(step, step.if_owed.machine):
                if step.address not in {record.address for record in self._run.recorder.owing(step.address)}:
                    return self._run.result(step, "done", "not needed: no restart is owed")
                return self._skip(step, f"{step.if_owed.machine} is not seen to hold what owes it; run again")
            if isinstance(step.guard, UnlessRecorded) and self._is_recorded(step, step.guard.field):
                return self._run.result(step, "done", "not needed: the value is the same")
            self._run.require_open(step)
            reply, baseline = None, frozenset[str]()
            if step.for_each is not None:
                result = await send_for_each(self._run, step)
            elif step.mutates:
                result, reply, baseline = await mutate(self._run, step)
            else:
                self._run.reporter.step_started(step)
                result = self._run.result(step, "done")
            if result.outcome == "done" and step.wait is not None:
                result = await _wait(self._run, step, reply, baseline)
            if result.outcome == "done":
                result = replace(result, note="; ".join(filter(None, (result.note, step.note))))
        except NotOpen as not_open:
            result = self._run.result(step, "pending", not_open.message)
        except CallNotSent as not_sent:
            return self._skip(step, not_sent.message)
        except Unauthorized as refused:  # by a read after it
            if refused.status == 401:
                self._run.gate.token_refused(self._run.services.of(step.call.service))
            result = self._run.result(step, "failed", refused.message)
        except ReconcilerError as failure:
            # Raised before a call, or by a read after it: the outcome of the call is already recorded.
            lost = isinstance(failure, OutcomeNotStored) and not failure.kept
            result = self._run.result(step, "unknown" if lost else "failed", failure.message)
            if isinstance(failure, StoreError):
                self._run.stopping = True
        elapsed_s = self._run.clock.monotonic() - started
        self._run.reporter.step_finished(step, result.outcome, elapsed_s, result.error or result.id or "")
        return result

    async def _is_owed(self, step: Step, machine: str) -> bool:
        """Whether `machine` must be restarted. This is read once, before the first call of its restart."""
        recorder = self._run.recorder
        if machine not in recorder.restarts:
            recorder.add_restart(
                machine, await settled_by_restart(self._run, machine, recorder.owing(step.address))
            )
        return bool(recorder.restarts[machine])

    def _is_recorded(self, step: Step, name: str) -> bool:
        """Whether the record has the value that the step would set, by its fingerprint."""
        record = self._run.recorder.records.get(step.address)
        return record is not None and record.applied.get(name) == self._run.applied(step)[name]

    def _skip(self, step: Step, why: str) -> Result:
        """The result of a step that is not started, which is also reported."""
        result = self._run.result(step, "skipped", why)
        self._run.reporter.step_finished(step, result.outcome, 0.0, why)
        return result


async def _wait(run: Run, step: Step, reply: Any, baseline: Collection[str]) -> Result:
    """Wait for the effect of a step that is done, and record how the wait ended."""
    assert step.wait is not None
    # Stands only when the grace period after a signal cuts a read off: the call itself is done.
    run.results[step.id] = run.result(step, "pending", "interrupted; run again to continue waiting")
    on_seen = partial(run.reporter.step_waiting, step)
    waited = await wait_for(run, step.wait, reply=reply, baseline=baseline, on_seen=on_seen)
    if waited.ended == "done":
        if step.wait.item is None and waited.live is not None and "id" in waited.live:
            run.outputs.put(str(step.address), waited.live)
        shown = {path: at_path(waited.live, path) for path in step.wait.kept}
        known = {path: value for path, value in shown.items() if value is not None}
        applied = {**step.wait.applied, **known, **_timed(run, step, waited)}
        if applied:
            await run.recorder.reached(step, applied)
        return run.result(step, "done")
    if step.effect.removes:
        # Accepted, so nothing is left to send; only lists lag behind.
        still = "and has not answered since" if waited.silent_s else "but still lists the object"
        return run.result(step, "done", f"the platform accepted the deletion, {still}")
    if waited.ended == "failed":
        return run.result(step, "failed", f"ended as {waited.seen}; its id is recorded")
    if waited.silent_s:
        client = run.services.of(step.wait.read.service)
        run.gate.unanswered(client, step.address, waited.seen, waited.silent_s)
    timed_out = not run.stopping and not waited.silent_s
    await run.recorder.pending(step, waited.seen, timed_out=timed_out)
    return run.result(
        step, "pending", f"still {waited.seen}{_since(run, step)}; run again to continue waiting"
    )


def _timed(run: Run, step: Step, waited: Waited) -> Mapping[str, Any]:
    """The seconds until the object was ready, if the wait measures them and saw it become ready."""
    record = run.recorder.records.get(step.address)
    began = made_at(record) if record is not None else None
    if step.wait is None or not step.wait.timed or began is None or not (waited.watched or step.mutates):
        return {}
    return {READY_AFTER: round((run.clock.now() - began).total_seconds())}


def _since(run: Run, step: Step) -> str:
    """Since when the object is being made, and how long others took; "" if nobody measures that."""
    record = run.recorder.records.get(step.address)
    began = made_at(record) if record is not None else None
    if step.wait is None or not step.wait.timed or began is None:
        return ""
    others_s = took_s(run.recorder.records.values(), step.address.kind)
    return f", {since(began, run.clock.now(), others_s)}"


def _predecessors(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """By step, the steps that must be over before it: those in `after`, and the previous one of its lane."""
    before: dict[str, tuple[str, ...]] = {}
    newest: dict[str, str] = {}
    for step in steps:
        before[step.id] = step.after
        if step.lane:
            if step.lane in newest:
                before[step.id] = (*step.after, newest[step.lane])
            newest[step.lane] = step.id
    return before
