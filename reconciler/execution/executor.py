"""Runs the steps of a plan: in order, in parallel where allowed; each outcome is stored immediately."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from graphlib import TopologicalSorter
from itertools import count
from typing import Any, Literal

import anyio

from reconciler.core.clock import Clock, sleep_telling
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.durations import since
from reconciler.core.errors import (
    AppMissing,
    NotFound,
    PlatformError,
    ReconcilerError,
    Refused,
    StoreError,
    Unauthorized,
)
from reconciler.core.model import READY_AFTER, Address, Obligation, Observation, made_at, took_s
from reconciler.core.reporter import Reporter
from reconciler.core.steps import (
    Already,
    Binding,
    Call,
    Find,
    OutcomeWord,
    Plan,
    Read,
    Repeat,
    Result,
    SecretRef,
    Step,
    UnlessRecorded,
)
from reconciler.execution.for_each import send_each
from reconciler.execution.intents import Intent
from reconciler.execution.limits import Limits
from reconciler.execution.outputs import Outputs, SecretReader, dig, fill_body, fill_path, fill_record
from reconciler.execution.own_calls import OwnCalls, OwnReader
from reconciler.execution.recorder import Recorder, Unrecorded
from reconciler.execution.settling import Evidence, Settlement, left_of_window
from reconciler.execution.traffic import RATE_LIMIT_S, Limited, Traffic, Unsent
from reconciler.execution.waiting import Waited, wait_for
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import SetsSecrets
from reconciler.planning.match import possible
from reconciler.secrets.fingerprint import fingerprint
from reconciler.services.outcome import Outcome, Verdict
from reconciler.services.refusals import Refusal
from reconciler.services.registry import Services
from reconciler.services.retry import TOO_MANY

ATTEMPTS = 2  # a lost call is sent again at most once per run, and only when it is known not to have landed
READ_LAG_S = 15  # a read may show the old size for 10 s. Source: platform notes, "Volumes"
UNDER_WAY = ("running", "unfinished")  # of a snapshot: it may be the one that a refusal tells us to wait for
PAUSE_S = 5.0  # over the deadline of a request: only a process that was stopped takes so long
GRACE_S = 10.0  # how long calls under way may go on after the first signal


class Executor:
    """One run of one plan, under a lease, against what was observed under it."""

    def __init__(
        self,
        plan: Plan,
        *,
        services: Services,
        own: OwnCalls,
        recorder: Recorder,
        observed: Mapping[Read, Observation],
        outputs: Outputs,
        read_secret: SecretReader,
        fingerprint_key: bytes,
        clock: Clock,
        reporter: Reporter,
        limits: Limits,
    ) -> None:
        self._plan = plan
        self._services = services
        self._own = own
        self._recorder = recorder
        self._observed = observed
        self._outputs = outputs
        self._read_secret = read_secret
        self._key = fingerprint_key
        self._clock = clock
        self._reporter = reporter
        self._limits = limits
        self._bindings: dict[Address, Binding] = {binding.address: binding for binding in plan.bindings}
        self._results: dict[str, Result] = {}
        self._traffic = Traffic(limits.concurrency, clock)
        self._evidence = Evidence(clock, limits, recorder.tracked_ids)
        self.stopping = False
        self._sending: anyio.CancelScope | None = None

    def stop(self) -> None:
        """Start no new step; those under way have `GRACE_S` seconds, then their outcome is unknown."""
        self.stopping = True
        if self._sending is not None:
            self._sending.deadline = anyio.current_time() + GRACE_S

    async def run(self) -> Sequence[Result]:
        """One result per step, in the plan's order. Failures are results; only a bug raises."""
        steps = {step.id: step for step in self._plan.steps}
        sorter = TopologicalSorter(_predecessors(self._plan.steps))
        sorter.prepare()

        async def one(step: Step) -> None:
            self._results[step.id] = await self._one(step)
            sorter.done(step.id)
            launch()

        def launch() -> None:
            for id in sorter.get_ready():
                group.start_soon(one, steps[id])

        with anyio.CancelScope() as self._sending:
            async with anyio.create_task_group() as group:
                launch()
        return [
            self._results.get(step.id, Result(step.address, step.id, "skipped", error="interrupted"))
            for step in self._plan.steps
        ]

    def notices(self) -> Sequence[Diagnostic]:
        """Why calls of this run were not sent, once for each cause."""
        done = sum(result.outcome == "done" for result in self._results.values())
        return self._traffic.notices(done, len(self._plan.steps))

    async def _one(self, step: Step) -> Result:
        blocker = next((id for id in step.after if self._results[id].outcome != "done"), None)
        if blocker is not None:
            return self._skip(step, f"waits for {blocker}, which is {self._results[blocker].outcome}")
        if step.if_owed and not any(map(self._recorder.owes_restart, step.if_owed.addresses)):
            return self.result(step, "done", "not needed: no restart is owed")
        started = self._clock.monotonic()
        try:
            if isinstance(step.guard, UnlessRecorded) and self._is_recorded(step, step.guard.field):
                return self.result(step, "done", "not needed: the value is the same")
            reply, baseline = None, frozenset[str]()
            if step.for_each is not None:
                result = await self._each(step)
            elif step.mutates:
                result, reply, baseline = await self._mutate(step)
            else:
                self._reporter.step_started(step)
                result = self.result(step, "done")
            if result.outcome == "done" and step.wait is not None:
                result = await self._wait(step, reply, baseline)
            if result.outcome == "done":
                result = replace(result, note="; ".join(filter(None, (result.note, step.note))))
        except Unsent as unsent:
            return self._skip(step, unsent.message)
        except Unauthorized as refused:  # by a read after it
            if refused.status == 401:
                self._traffic.token_refused(self._services.of(step.call.service))
            result = self.result(step, "failed", refused.message)
        except ReconcilerError as failure:
            # Raised before a call or by a read after it: what the call did is already recorded.
            lost = isinstance(failure, Unrecorded) and not failure.kept
            result = self.result(step, "unknown" if lost else "failed", failure.message)
            if isinstance(failure, StoreError):
                self.stopping = True
        elapsed_s = self._clock.monotonic() - started
        self._reporter.step_finished(step, result.outcome, elapsed_s, result.error or result.id or "")
        return result

    def _is_recorded(self, step: Step, name: str) -> bool:
        record = self._recorder.records.get(step.address)
        return record is not None and record.applied.get(name) == self._applied(step)[name]

    def _skip(self, step: Step, why: str) -> Result:
        result = self.result(step, "skipped", why)
        self._reporter.step_finished(step, result.outcome, 0.0, why)
        return result

    def result(self, step: Step, outcome: OutcomeWord, error: str = "", note: str = "") -> Result:
        record = self._recorder.records.get(step.address)
        return Result(step.address, step.id, outcome, (record.id or None) if record else None, error, note)

    # --- one mutation ---

    async def _mutate(self, step: Step, *, within: bool = False) -> tuple[Result, Any, frozenset[str]]:
        """Send the call of a step. Returns result, reply and baseline. Raises Unsent if it was never sent.

        At most `ATTEMPTS` intents whose outcome is unknown, each sent once; and any number within
        `RATE_LIMIT_S` that are refused with 429. `within`: a part of a step that has begun.
        """
        path = fill_path(step.call.path, self._outputs)
        foreign = self._own.why_foreign(step, path, self._recorder.records)
        if foreign:
            raise Refused(f"{foreign}; it was not sent")
        body = fill_body(step.call.body, self._outputs, self._read_secret)
        call = replace(step.call, path=path, body=body)
        client = self._services.of(call.service)
        lost, limited = 0, Limited(self._clock)
        outcome = Outcome(Verdict.NO)
        for attempt in count(1):
            listed: list[Any] = []
            creates = not isinstance(step.recovery, Repeat)
            turn = self._traffic.turn(
                client,
                call,
                creates=creates,
                again=limited.since_s is not None,
                prepare=partial(self._list_before, step, listed, fresh=lost > 0),
                tell=partial(self._reporter.asked_to_wait, step) if limited.since_s is not None else _quiet,
            )
            try:
                async with turn:
                    if self.stopping:
                        raise Unsent("interrupted before it was sent")
                    if attempt == 1 and not within:
                        self._reporter.step_started(step)
                    intent, usable = self._intend(step, path, listed)
                    sent_at = self._clock.now()
                    outcome = await self._send(step, attempt, intent, call)
                    self._traffic.answered(client, outcome, creates=creates)
            except Unsent as unsent:
                if attempt == 1:
                    raise
                word: OutcomeWord = "pending" if isinstance(step.recovery, Repeat) else "failed"
                return self.result(step, word, f"{outcome.message}; {unsent.message}"), None, frozenset()
            if outcome.kind is Verdict.YES:
                return self.result(step, "done"), outcome.reply, usable
            if outcome.status == TOO_MANY:
                wait_s = limited.pause_s(outcome)
                if wait_s is None:
                    why = limited.told(outcome)
                    self._traffic.give_up(client, call, outcome, why)
                    why = f"{outcome.message}; rate-limited: {why}; run again later"
                    return self.result(step, "failed", why), None, usable
                client.refused(call, wait_s)
                self._reporter.asked_to_wait(step, wait_s)
                continue
            if outcome.kind is Verdict.NO:
                if await self._holds_already(step, outcome, repeated=lost > 0):
                    await self._landed(step, attempt, intent, "")
                    return self.result(step, "done"), None, usable
                full = outcome.refusal is Refusal.NO_CAPACITY
                note = step.if_refused if full or _is_about_the_object(outcome) else ""
                why = outcome.message
                if outcome.status == 403:
                    why += f" (check that the token may change `{intent.scope}`)"
                return self.result(step, "failed", why, note), None, usable
            lost += 1
            if _says_gone(step, outcome):
                if await self._is_seen_to_be_gone(step):
                    await self._landed(step, attempt, intent, "")
                    return self.result(step, "done"), None, usable
                why = f"{outcome.message}; nothing shows yet that the object was deleted; run again"
                return self.result(step, "unknown", why), None, usable
            if lost == ATTEMPTS and _has_bad_id(step, outcome):
                why = f"{outcome.message}; it is not sent again until a person decides"
                return self.result(step, "failed", why), None, usable
            if lost == ATTEMPTS and isinstance(step.recovery, Repeat):
                # Nobody has to decide: the next run finds out by sending it again.
                return self.result(step, "pending", f"{outcome.message}; run again"), None, usable
            settlement = await self._settle(step, intent, sent_at, outcome)
            if settlement.kind == "landed":
                await self._landed(step, attempt, intent, settlement.id)
                return self.result(step, "done"), None, usable
            if settlement.kind == "undecided":
                why = f"{outcome.message}; {settlement.why}"
                if settlement.unread:  # nobody has to decide: the next run looks again
                    return self.result(step, "pending", f"{why}; run again"), None, usable
                return self.result(step, "unknown", why), None, usable
            await self._recorder.not_landed(step, attempt)
            if lost == ATTEMPTS:
                break
        why = f"{outcome.message}; the call had no effect, and is not sent again in this run"
        return self.result(step, "failed", why), None, usable

    # --- one call for each key of an answer ---

    async def _each(self, step: Step) -> Result:
        assert step.for_each is not None
        if self.stopping:
            raise Unsent("interrupted before it was sent")
        self._reporter.step_started(step)
        over = step.for_each.over
        if step.for_each.again and self._outputs.get(over) is None:
            asked = next(each for each in self._plan.steps if each.id == over.source)
            result, reply, _ = await self._mutate(replace(asked, id=f"{asked.id}-again"), within=True)
            if result.outcome != "done":
                return replace(result, step=step.id)
            self._outputs.put(over.source, reply)
        return await send_each(step, self._outputs, self._recorder, self._key, self)

    async def set_by_strangers(self, step: Step, keys: Collection[str]) -> Collection[str]:
        """The `keys` that the app already has and the manifest does not name; none if no list shows them."""
        sets = find_kinds()[step.address.kind].role(SetsSecrets)
        read = sets.app_secrets(step.address, self._own.capabilities) if sets is not None else None
        if sets is None or read is None:
            return ()
        there = {item.name for item in (await self._reader(step).read(read)).objects}
        resource = self._own.resource(step.address)
        return [key for key in keys if key in there and not sets.may_replace(resource, key)]

    async def send_part(self, step: Step, call: Step, cut_off: str) -> Result:
        """One of several calls of `step`. `cut_off`: the error if it is interrupted. Raises Unsent."""
        # Stands only when the grace period after a signal cuts the call off.
        self._results[step.id] = self.result(step, "pending", cut_off)
        result, _, _ = await self._mutate(call, within=True)
        return result

    def _intend(self, step: Step, path: str, listed: Sequence[Any]) -> tuple[Intent, frozenset[str]]:
        """The intent of the next call, and the ids of the objects that the list showed as finished."""
        binding = self._bindings.get(step.address)
        record = self._recorder.records.get(step.address)
        known = binding or record
        if known is None:
            raise ReconcilerError(f"`{step.address}` is neither declared nor recorded")
        if step.find is not None:
            self._refuse_namesake(step, step.find, listed)
        applied = self._applied(step)
        intent = Intent(
            method=step.call.method,
            path=path,
            if_unknown=step.recovery.how,
            creates=step.effect.id_path is not None,
            applied=applied,
            scope=known.scope,
            lifecycle=known.lifecycle,
            source=known.source,
            find=self._where_found(step),
            match=step.find.match if step.find is not None else None,
            unattached=step.find.unattached if step.find is not None else (),
            keep=step.find.keep if step.find is not None else "",
            one=step.find.one if step.find is not None else None,
            baseline=tuple(item.id for item in possible(step.find.match, listed)) if step.find else (),
            owes=step.effect.owes.because if step.effect.owes is not None else "",
            service=step.call.service,
            own_id=applied.get(step.recovery.own_id, "") if isinstance(step.recovery, Repeat) else "",
            service_at=self._services.time(step.call.service),
        )
        return intent, frozenset(item.id for item in listed if getattr(item, "progress", "") not in UNDER_WAY)

    def _reader(self, step: Step) -> OwnReader:
        """The reader for the reads and waits of a step."""
        return OwnReader(self._own, step.address, self._services, self._recorder.records)

    def _refuse_namesake(self, step: Step, find: Find, listed: Sequence[Any]) -> None:
        """Raises ReconcilerError if the object of a create may already exist, in no record.

        Independent of the plan: a lost call may have created it, or a lost state may have recorded it.
        """
        if step.effect.id_path is None:
            return
        tracked = self._recorder.tracked_ids()
        ids = [item.id for item in possible(find.match, listed) if item.present and item.id not in tracked]
        if ids:
            named = ", ".join(sorted(ids))
            raise ReconcilerError(
                f"not sent: the platform has an equal object that no record owns: {named}; make a new plan"
            )

    def _where_found(self, step: Step) -> Read | None:
        if step.find is None:
            return None
        return replace(step.find.read, path=fill_path(step.find.read.path, self._outputs))

    async def _list_before(self, step: Step, listed: list[Any], *, fresh: bool) -> None:
        """Put into `listed` the objects with which a lost create will be compared.

        This run's observation serves all creates of an app; a second attempt looks again.
        """
        read = self._where_found(step)
        if read is not None:
            reader = self._reader(step)
            reader.check(read)  # also what it shares with others, here and when it is settled
            known = None if fresh else self._observed.get(read)
            listed[:] = (known or await reader.read(read)).objects

    async def _send(self, step: Step, attempt: int, intent: Intent, call: Call) -> Outcome:
        """Intent, send, outcome: the outcome is recorded even if this task is cancelled meanwhile."""
        with anyio.CancelScope(shield=True):
            await self._recorder.intent(step, attempt, intent)
            checked_at = self._clock.monotonic()
            await self._recorder.check_lease(self._limits.deadline_s)
        outcome = Outcome(Verdict.UNKNOWN, message="interrupted before an answer came")
        # Stands only when the grace period after a signal cuts the call off.
        self._results[step.id] = self.result(step, "unknown", outcome.message)
        try:
            outcome = await self._services.of(call.service).send(
                call,
                id_path=step.effect.id_path,
                accepts=step.effect.accepts,
                deadline_s=self._limits.deadline_s,
            )
            if _says_gone(step, outcome):
                # A token without access, or an edge that lags behind, gives the same answer: a read decides.
                outcome = replace(outcome, kind=Verdict.UNKNOWN)
        except ReconcilerError as refused:  # by our own client, before anything was sent
            outcome = Outcome(Verdict.NO, message=refused.message)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                self._notice_pause(step, self._clock.monotonic() - checked_at)
                await self._record(step, attempt, intent, outcome)
        return outcome

    def _notice_pause(self, step: Step, took_s: float) -> None:
        """Report that this process was stopped between the check of its lease and the answer.

        Whether somebody took the lease over meanwhile shows when the outcome is recorded.
        """
        if took_s > self._limits.deadline_s + PAUSE_S:
            since = f"{took_s:.0f} s passed between the check of its lease and the answer"
            self._reporter.note(f"{step.id}: this process was paused: {since}")

    async def _record(self, step: Step, attempt: int, intent: Intent, outcome: Outcome) -> None:
        """Raises Unrecorded if the store cannot be written: the next run continues from the spool."""
        try:
            await self._commit_outcome(step, attempt, intent, outcome)
        except Unrecorded as failure:
            id_shown = f" ({outcome.id})" if outcome.id else ""
            message = (
                f"the outcome of the call is {outcome.kind}{id_shown}, but the state cannot be written: "
            )
            raise Unrecorded(message + failure.message, kept=failure.kept) from failure

    async def _commit_outcome(self, step: Step, attempt: int, intent: Intent, outcome: Outcome) -> None:
        if outcome.kind is Verdict.NO:
            await self._recorder.failed(step, attempt, outcome.message, outcome.status)
        elif outcome.kind is Verdict.UNKNOWN:
            owed, bad_id = self._owed(step, None), _has_bad_id(step, outcome)
            await self._recorder.unknown(step, attempt, intent, outcome.message, owed, bad_id=bad_id)
        else:
            self._outputs.put(step.id, outcome.reply)
            path = step.effect.object_path
            live = dig(outcome.reply, path) if path is not None else None
            if live is not None:
                self._outputs.put(str(step.address), live)
            await self._recorder.done(
                step,
                attempt,
                intent,
                id=outcome.id,
                applied=self._applied(step),
                owed=self._owed(step, outcome.reply),
            )

    def _owed(self, step: Step, reply: Any) -> Obligation | None:
        """What the reply says is owed; a lost or silent reply leaves it unknown."""
        if step.effect.owes is None:
            return None
        said = dig(reply, step.effect.owes.when)
        if said is False:
            return None
        certainty: Literal["owed", "unknown"] = "owed" if said is True else "unknown"
        return Obligation(step.effect.owes.work, step.effect.owes.because, certainty, self._clock.now())

    def _applied(self, step: Step) -> dict[str, Any]:
        def print_of(ref: SecretRef) -> str:
            return fingerprint(self._key, step.address, self._read_secret(ref, self._outputs.need))

        return fill_record(step.effect.applied, self._outputs, print_of)

    async def _settle(self, step: Step, intent: Intent, sent_at: datetime, outcome: Outcome) -> Settlement:
        """The outcome of a lost call. A Retry-After only says when to look."""
        if step.effect.removes and await self._is_gone(step):
            return Settlement("landed")
        least_s = min(outcome.retry_after_s or 0.0, RATE_LIMIT_S)
        if isinstance(step.recovery, Repeat):
            left_s = left_of_window(intent, sent_at, self._clock, self._services, self._limits.repeat_after_s)
            left_s = max(left_s, least_s)
            tell = partial(self._reporter.sent_again, step)
            tell(left_s)
            await sleep_telling(self._clock, left_s, tell)
            return Settlement("not_landed")
        return await self._evidence.settle(
            intent,
            sent_at,
            self._reader(step),
            least_s=least_s,
            tell=partial(self._reporter.settling, step.address),
        )

    async def _holds_already(self, step: Step, outcome: Outcome, *, repeated: bool) -> bool:
        """Whether a call was refused because the requested state is already reached.

        True if `Already` holds; otherwise only for a repetition of a lost call that had taken effect.
        """
        wait = step.guard.wait if isinstance(step.guard, Already) else None
        if wait is not None and not _is_about_the_object(outcome):
            return False
        if wait is None and not repeated:
            return False
        if wait is None and step.effect.removes:
            return await self._is_gone(step)
        if wait is None and isinstance(step.recovery, Repeat) and not step.if_owed:
            wait = step.wait  # but that a machine runs does not show that it was restarted
        if wait is None:
            return False
        waited = await wait_for(
            replace(wait, timeout_s=min(wait.timeout_s, READ_LAG_S)),
            services=self._reader(step),
            outputs=self._outputs,
            clock=self._clock,
            stopping=lambda: self.stopping,
        )
        return waited.ended == "done"

    async def _is_gone(self, step: Step) -> bool:
        """Whether the platform shows that the deleted object is gone. False: unknown.

        The object itself is read: a list that lacks it proves nothing.
        """
        if step.wait is None or not step.wait.or_gone:
            return False
        try:
            read = replace(step.wait.read, path=fill_path(step.wait.read.path, self._outputs))
            objects = (await self._reader(step).read(read)).objects
        except AppMissing:
            return False
        except NotFound:
            return True
        except PlatformError:
            return False
        item = step.wait.item
        return not any(each.present for each in objects if item in (None, each.id))

    async def _is_seen_to_be_gone(self, step: Step) -> bool:
        """Whether reads stop showing the deleted object within the time that they may lag."""
        assert step.wait is not None
        try:
            waited = await wait_for(
                step.wait,
                services=self._reader(step),
                outputs=self._outputs,
                clock=self._clock,
                on_seen=lambda seen, waited_s: self._reporter.step_waiting(step, seen, waited_s),
                stopping=lambda: self.stopping,
            )
        except PlatformError:
            return False
        return waited.ended == "done"

    async def _landed(self, step: Step, attempt: int, intent: Intent, id: str) -> None:
        if step.effect.id_path is not None:
            self._outputs.put(str(step.address), {"id": id})
        await self._recorder.done(
            step,
            attempt,
            intent,
            id=id if step.effect.id_path is not None else None,
            applied=self._applied(step) | ({intent.keep: id} if intent.keep else {}),
            inferred=True,
        )

    # --- after it ---

    async def _wait(self, step: Step, reply: Any, baseline: Collection[str]) -> Result:
        assert step.wait is not None
        # Stands only when the grace period after a signal cuts a read off: the call itself is done.
        self._results[step.id] = self.result(step, "pending", "interrupted; run again to continue waiting")
        waited = await wait_for(
            step.wait,
            services=self._reader(step),
            outputs=self._outputs,
            clock=self._clock,
            reply=reply,
            baseline=baseline,
            on_seen=lambda seen, waited_s: self._reporter.step_waiting(step, seen, waited_s),
            stopping=lambda: self.stopping,
        )
        if waited.ended == "done":
            if step.wait.item is None and waited.live is not None and "id" in waited.live:
                self._outputs.put(str(step.address), waited.live)
            applied = {**step.wait.applied, **self._timed(step, waited)}
            if applied:
                await self._recorder.reached(step, applied)
            return self.result(step, "done")
        if step.effect.removes:
            # Accepted, so nothing is left to send; only lists lag behind.
            still = "and has not answered since" if waited.silent_s else "but still lists the object"
            return self.result(step, "done", f"the platform accepted the deletion, {still}")
        if waited.ended == "failed":
            return self.result(step, "failed", f"ended as {waited.seen}; its id is recorded")
        if waited.silent_s:
            self._traffic.unanswered(self._services.of(step.wait.read.service), step.address, waited)
        timed_out = not self.stopping and not waited.silent_s
        await self._recorder.pending(step, waited.seen, timed_out=timed_out)
        return self.result(
            step, "pending", f"still {waited.seen}{self._since(step)}; run again to continue waiting"
        )

    def _timed(self, step: Step, waited: Waited) -> Mapping[str, Any]:
        """How long the object took to be ready, if the wait measures that and saw it become ready."""
        record = self._recorder.records.get(step.address)
        began = made_at(record) if record is not None else None
        if step.wait is None or not step.wait.timed or began is None or not (waited.watched or step.mutates):
            return {}
        return {READY_AFTER: round((self._clock.now() - began).total_seconds())}

    def _since(self, step: Step) -> str:
        record = self._recorder.records.get(step.address)
        began = made_at(record) if record is not None else None
        if step.wait is None or not step.wait.timed or began is None:
            return ""
        others_s = took_s(self._recorder.records.values(), step.address.kind)
        return f", {since(began, self._clock.now(), others_s)}"


def _quiet(left_s: float) -> None:
    """Reports nothing: for a short wait that is not part of the plan."""


def _predecessors(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """The steps that must be over before each one: those in `after`, and the one before it in its lane."""
    before: dict[str, tuple[str, ...]] = {}
    newest: dict[str, str] = {}
    for step in steps:
        before[step.id] = step.after
        if step.lane:
            if step.lane in newest:
                before[step.id] = (*step.after, newest[step.lane])
            newest[step.lane] = step.id
    return before


def _says_gone(step: Step, outcome: Outcome) -> bool:
    """Whether a deletion was answered "not found" and a read can confirm that."""
    return step.effect.removes and step.wait is not None and outcome.refusal in step.effect.accepts


def _has_bad_id(step: Step, outcome: Outcome) -> bool:
    """Whether the object was made, and sending the call again is the only way to ask for its id."""
    return outcome.bad_id and isinstance(step.recovery, Repeat)


def _is_about_the_object(outcome: Outcome) -> bool:
    """Whether the refusal is about the object's state, not about the token or a missing object."""
    return outcome.refusal is None and outcome.status not in (0, 401, 403)
