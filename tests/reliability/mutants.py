"""Bugs of our own protocol, planted one at a time: the simulation has to catch each, or it proves nothing.

`python -m tests.reliability.mutants [--jobs 2] [--seeds 2000] [NAME …]` prints which seed and which
invariant caught each one, or which test, and exits 1 when one survives.
"""

# ruff: noqa: T201 - what it prints is what it is for

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from tests.reliability.mutants_approvals import APPROVALS
from tests.reliability.mutants_shared import SHARED
from tests.reliability.mutants_watched import OF_WATCHED
from tests.reliability.planting import Change, Mutant, hunt_all

SEEDS = 2000


def _mutant(name: str, file: str, old: str, new: str, test: str = "") -> Mutant:
    return Mutant(name, (Change(file, old, new),), test=test)


OUTCOME = "services/outcome.py"
EXECUTOR = "execution/executor.py"
RUN = "execution/run.py"
SENDING = "execution/sending.py"
JUDGING = "execution/judging.py"
SETTLING = "execution/settling.py"
OPEN_INTENTS = "execution/open_intents.py"
RECORDER = "execution/recorder.py"
INTENTS = "execution/intents.py"
APPLY = "project/apply.py"
RUN_PLAN = "project/run.py"
PRECONDITIONS = "project/preconditions.py"
VOLUME = "kinds/volume/changing.py"
MACHINE = "kinds/machine/kind.py"
MACHINE_POWER = "kinds/machine/power.py"
RESTARTS = "kinds/restarts.py"
DECIDE = "planning/decide.py"
MATCH = "planning/match.py"
DECIDING = "planning/deciding.py"
CLIENT = "services/client.py"
REFUSALS = "services/platform.py"
RULES = "state/rules.py"

OWN: tuple[Mutant, ...] = (
    # --- what an answer means ---
    _mutant(
        "a 503 is taken as a refusal, and the create is sent again",
        REFUSALS,
        "by_anyone=frozenset({401,",
        "by_anyone=frozenset({503, 401,",
    ),
    _mutant(
        "a 408 is taken as a refusal",
        REFUSALS,
        "by_itself=frozenset({400,",
        "by_itself=frozenset({408, 400,",
    ),
    _mutant(
        "a proxy's HTML page is taken as the platform's refusal",
        OUTCOME,
        "    if is_html(answer):\n        return Verdict.UNKNOWN\n",
        "",
    ),
    _mutant(
        "a 2xx without an id is taken as done",
        OUTCOME,
        "Verdict.UNKNOWN if problem else Verdict.YES",
        "Verdict.YES",
    ),
    _mutant(
        "a 2xx that cannot be read is taken as a refusal",
        OUTCOME,
        "Verdict.UNKNOWN if problem else Verdict.YES",
        "Verdict.NO if problem else Verdict.YES",
    ),
    _mutant(
        "a lost connection is taken as not sent",
        OUTCOME,
        "Verdict.NO if isinstance(error, NotSent) else Verdict.UNKNOWN",
        "Verdict.NO",
    ),
    _mutant(
        "every error is taken as a refusal",
        OUTCOME,
        "return Verdict.NO if answer.status in policy.by_itself else Verdict.UNKNOWN",
        "return Verdict.NO",
    ),
    _mutant(
        "the 404 of an app is taken as that of the object, so that a delete counts as done",
        REFUSALS,
        '        Row(Refusal.APP_MISSING, (404,), r"could not find app\\b"),\n',
        "",
    ),
    # --- sending ---
    _mutant(
        "a call is sent without an intent",
        SENDING,
        "        await run.recorder.intent(step, attempt, intent)\n",
        "",
    ),
    Mutant(
        "a call is sent before its intent",
        (
            Change(SENDING, "        await run.recorder.intent(step, attempt, intent)\n", ""),
            Change(
                SENDING,
                "            await _record(run, step, attempt, intent, outcome)",
                "            await run.recorder.intent(step, attempt, intent)\n"
                "            await _record(run, step, attempt, intent, outcome)",
            ),
        ),
    ),
    _mutant(
        "the lease is not checked before a call",
        SENDING,
        "        await run.recorder.check_lease(step, run.limits.deadline_s)\n",
        "",
    ),
    _mutant(
        "the client sends a lost mutation once more",
        CLIENT,
        "            outcome = unanswered(error)\n"
        '            message = f"{method} {path} at {self.address} got no answer: {outcome.message}"\n'
        "            return replace(outcome, message=message)\n",
        "            answer = await self._request(method, path, call.body, deadline_s)\n",
    ),
    _mutant(
        "the client sends again after a 503",
        CLIENT,
        "        outcome = classify(answer,",
        "        if answer.status == 503:\n"
        "            answer = await self._request(method, path, call.body, deadline_s)\n"
        "        outcome = classify(answer,",
    ),
    _mutant(
        "what a step waits for need not have succeeded",
        EXECUTOR,
        'if self._run.results[id].outcome != "done"',
        "if False",
    ),
    _mutant(
        "nothing is waited for after a call",
        EXECUTOR,
        'if result.outcome == "done" and step.wait is not None:',
        "if False:",
    ),
    _mutant(
        "a wait that failed counts as done",
        "execution/waiting.py",
        'return "failed"',
        'return "done"',
    ),
    # --- settling ---
    _mutant(
        "a lost create is sent again without settling it",
        JUDGING,
        "    if isinstance(step.recovery, Repeat):\n        left_s",
        "    if True:\n        left_s",
    ),
    _mutant(
        "what evidence cannot decide is sent again",
        SENDING,
        'if settlement.kind == "undecided":',
        "if False:",
    ),
    _mutant(
        "the settle window is zero",
        SETTLING,
        "return min(max(0.0, left_s), settle_s)",
        "return 0.0",
    ),
    _mutant(
        "one list without a trace is enough",
        SETTLING,
        "LISTS_WITHOUT_A_TRACE = 3",
        "LISTS_WITHOUT_A_TRACE = 1",
    ),
    _mutant(
        "an attached object is taken as the lost one",
        SETTLING,
        "not item.bad_id and not less and not any(getattr(item, name, None) for name in intent.unattached)",
        "not less",
    ),
    _mutant(
        "an attached object is passed over as if it were not there",
        SETTLING,
        "        if item.present and item.id not in intent.baseline and item.id not in tracked",
        "        if item.present and item.id not in intent.baseline and item.id not in tracked\n"
        "        and not any(getattr(item, name, None) for name in intent.unattached)",
    ),
    _mutant(
        "the first of several candidates is taken",
        SETTLING,
        "if len(found) == 1 and may_infer",
        "if found and may_infer",
    ),
    _mutant(
        "what a list shows is taken without a look at the object itself",
        SETTLING,
        'if settlement.kind == "landed" and intent.one is not None:',
        "if False:",
    ),
    _mutant(
        "a deletion that is answered 404 counts as done",
        SENDING,
        "        if says_gone(step, outcome):\n            # A token",
        "        if False:\n            # A token",
        test="tests/execution/test_deleting.py",
    ),
    _mutant(
        "the baseline is not looked at",
        SETTLING,
        " and item.id not in intent.baseline",
        "",
        test="tests/kinds/test_cases.py",
    ),
    _mutant(
        "the baseline is not kept",
        SENDING,
        "baseline=tuple(item.id for item in listed.possible(step.find.match)) if step.find else ()",
        "baseline=()",
        test="tests/execution/test_resolving.py",
    ),
    Mutant(
        "what is tracked already is a candidate, and is not looked for once more",
        (
            Change(SETTLING, " and item.id not in tracked", ""),
            Change(SETTLING, "if settlement.id in tracked():", "if False:"),
        ),
    ),
    _mutant(
        "a list that cannot be read counts as empty",
        SETTLING,
        'return Settlement("undecided", why=why, unread=down or isinstance(failure, Down))',
        'return Settlement("not_landed")',
    ),
    _mutant(
        "creates that a list cannot tell apart run side by side",
        "planning/order.py",
        "if key in previous_create:",
        "if False:",
    ),
    _mutant(
        "an undecided call of an earlier run is closed",
        OPEN_INTENTS,
        "                undecided[opened.address] = settlement\n                continue\n",
        "                undecided[opened.address] = settlement\n",
    ),
    _mutant(
        "calls of earlier runs are not settled",
        APPLY,
        "settle_left(project, state, partial(concerned_scopes, desired, holders=holders))",
        "settle_left(project, state, lambda state: ())",
    ),
    _mutant(
        "what is undecided is planned anyway",
        DECIDING,
        "for address, question in self._request.undecided.items():",
        "for address, question in {}.items():",
        test="tests/execution/test_settling.py",
    ),
    _mutant(
        "a saved plan runs although a call was lost since",
        PRECONDITIONS,
        "    if unknown:\n        raise Moved(\"a call's outcome",
        "    if False:\n        raise Moved(\"a call's outcome",
    ),
    _mutant(
        "an inferred object is recorded as if an answer had named it",
        RECORDER,
        "self._clock.now(), inferred=found)",
        "self._clock.now(), inferred=False)",
    ),
    _mutant(
        "an object inferred by a later run is recorded as certain",
        INTENTS,
        "made = self.record(address, id, sent_at, inferred=True)",
        "made = self.record(address, id, sent_at, inferred=False)",
    ),
    _mutant(
        "a secret whose lost call may have landed is still taken for the recorded one",
        INTENTS,
        "return replace(record, applied=kept)",
        "return record",
    ),
    # --- what is owed ---
    _mutant(
        "an owed restart is forgotten",
        RECORDER,
        "        if owed is not None:\n            record = owing(record, owed)\n",
        "",
    ),
    _mutant(
        "a lost answer owes nothing",
        SENDING,
        "if said is False:",
        "if said is not True:",
    ),
    _mutant(
        "a dead process's extend owes nothing",
        OPEN_INTENTS,
        "    if after is None or not intent.owes:\n",
        "    if True:\n",
    ),
    _mutant(
        "a machine is restarted although nothing is owed",
        JUDGING,
        "return found if is_due else {}",
        "return found or {run.plan.steps[0].address: ()}",
        test="tests/execution/test_owing.py::test_a_machine_that_has_left_what_owes_is_not_restarted",
    ),
    # --- machines ---
    _mutant(
        "a machine is suspended although it is suspended",
        MACHINE,
        "        if state in AT_REST or state in RUNNING:\n",
        '        if state == "suspended":\n'
        '            return unseen(subject, FieldChange("power", UNKNOWN, want, Effect.IN_PLACE))\n'
        "        if state in RUNNING:\n",
    ),
    _mutant(
        "a machine is suspended although it is recorded as suspended",
        MACHINE,
        "power.recorded(subject) in (want, power.COMING[want])",
        "power.recorded(subject) == power.COMING[want]",
    ),
    _mutant(
        "a machine that a manifest wants suspended is started",
        MACHINE_POWER,
        "return moves[subject.spec.power](subject, fields)",
        'return moves["suspended" if subject.live.power == "started" else "started"](subject, fields)',
    ),
    _mutant(
        "a suspend is not waited for",
        MACHINE_POWER,
        '        applied={"power": power, CALLED_AT: RUN_BEGAN},\n        wait=wait,\n',
        '        applied={"power": "suspended" if verb == "suspend" else power, CALLED_AT: RUN_BEGAN},\n'
        '        wait=None if verb == "suspend" else wait,\n',
    ),
    _mutant(
        "a slice of a wait that is over counts as the end of it",
        "execution/waiting.py",
        "            seen = f\"not {'there' if",
        '            if isinstance(failure, NotYet):\n                return Waited("done", "reached", {})\n'
        "            seen = f\"not {'there' if",
    ),
    _mutant(
        "an owed restart is sent to a machine that must stay suspended",
        RESTARTS,
        'if power is not None and power.wanted == "suspended":',
        "if False:",
    ),
    _mutant(
        "an owed restart is sent to a machine that is to stay stopped",
        RESTARTS,
        'if power is not None and power.wanted == "stopped":',
        "if False:",
    ),
    _mutant(
        "a stop is not waited for",
        MACHINE_POWER,
        '        applied={"power": power, CALLED_AT: RUN_BEGAN},\n        wait=wait,\n',
        '        applied={"power": "stopped" if verb == "stop" else power, CALLED_AT: RUN_BEGAN},\n'
        '        wait=None if verb == "stop" else wait,\n',
    ),
    _mutant(
        "an owed restart is never sent",
        RESTARTS,
        'if subject.lifecycle.restart != "auto" or not',
        "if True or not",
    ),
    _mutant(
        "a machine is restarted once for each of its volumes",
        "planning/order.py",
        "    steps = _one_restart_per_machine(steps)\n",
        "    steps = [group for group in steps if group]\n",
    ),
    _mutant(
        "one restart is done for one of its volumes only",
        RECORDER,
        "put = self._settled(put[0], self.restarts[step.if_owed.machine])",
        "put = [replace(put[0], obligations=())]",
    ),
    _mutant(
        "a restart goes to the machine that the plan saw, and settles what another one owes",
        JUDGING,
        " and item.attached_machine_id == machine",
        "",
    ),
    _mutant(
        "a restart settles only what its plan has listed",
        JUDGING,
        "    for record in owing:\n",
        "    steps = [each for each in run.plan.steps if each.if_owed or each.effect.owes]\n"
        "    seen = [item for read in run.observed for item in run.observed[read].objects]\n"
        "    on = {each.id for each in seen if getattr(each, 'attached_machine_id', None) == machine}\n"
        "    for record in [each for each in owing if each.id in on and each.address in\n"
        "                   {step.address for step in steps}]:\n",
    ),
    _mutant(
        "a resume does what is owed",
        RESTARTS,
        'STOPPED = ("stopped", "created")',
        'STOPPED = ("stopped", "created", "suspended")',
    ),
    # --- what may run ---
    Mutant(
        "a delete needs no approval",
        (
            Change(APPLY, "if str(address) not in approved_deletes", "if False"),
            Change(SENDING, "if removes and str(step.address) not in run.approved_deletes:", "if False:"),
        ),
    ),
    _mutant(
        "what is refused does not stop the rest",
        APPLY,
        "if unapproved or refuse_all(plan.diagnostics) or (idle and has_errors(plan.diagnostics)):",
        "if unapproved:",
    ),
    _mutant(
        "a plan runs although the person said no",
        APPLY,
        "            if not approved:\n",
        "            if approved is None:\n",
    ),
    _mutant(
        "a plan runs although something moved",
        PRECONDITIONS,
        "    if moved:\n        raise Moved(",
        "    if False:\n        raise Moved(",
    ),
    _mutant(
        "a plan runs although its record has been replaced",
        PRECONDITIONS,
        "if (record.serial if record is not None else 0) != expected.serial:",
        "if False:",
    ),
    _mutant(
        "a plan runs although its object changed",
        PRECONDITIONS,
        "if now.complete and digest_now(expected, shown[expected.read]) != expected.digest:",
        "if False:",
        test="tests/execution/test_doubts.py::"
        "test_an_apply_that_does_not_wait_is_refused_when_something_moved",
    ),
    _mutant(
        "a retained object may be deleted",
        DECIDE,
        "    keeps = not subject.to_delete\n",
        "    keeps = False\n",
    ),
    _mutant(
        "an inferred object may be deleted",
        DECIDE,
        "    elif record.inferred:\n        adopt",
        "    elif False:\n        adopt",
    ),
    _mutant(
        "what is missing is made again",
        DECIDE,
        "    if is_remade(kind, subject):\n",
        "    if True:\n",
    ),
    _mutant(
        "an object of another address is adopted",
        MATCH,
        "if item.present and item.id not in owned]",
        "if item.present]",
    ),
    Mutant(
        "one of several objects of a name is adopted",
        (
            Change(
                MATCH,
                "candidates and (len(manifests) > 1 or len(candidates) > len(resources))",
                "candidates and len(manifests) > 1",
            ),
            Change(MATCH, "[*candidates, *[None]", "[*candidates[: len(resources)], *[None]"),
        ),
    ),
    # --- volumes and secrets ---
    _mutant(
        "a retention change is dropped when the size changes too",
        VOLUME,
        "    if in_place:\n",
        "    if in_place and grow is None:\n",
    ),
    _mutant(
        "a smaller size is sent as an extend",
        VOLUME,
        "    if live < want:\n",
        "    if live != want:\n",
    ),
    _mutant(
        "no snapshot is taken before an extend",
        VOLUME,
        'elif grow is not None and "extend" in subject.lifecycle.snapshot_before:',
        "elif False:",
    ),
    _mutant(
        "no snapshot is taken before a delete",
        VOLUME,
        'before = [snapshots.take_before(subject)] if "delete" in subject.lifecycle.snapshot_before else []',
        "before: list[Step] = []",
    ),
    _mutant(
        "an attached volume may be deleted",
        VOLUME,
        "    if holder:\n",
        "    if False:\n",
    ),
    _mutant(
        "a changed secret is not set",
        "kinds/secret/kind.py",
        'subject.fingerprint is not None and subject.fingerprint != recorded.get("fingerprint")',
        "False",
    ),
    _mutant(
        "the value of a secret goes into the journal",
        RUN,
        "return fingerprint(self.fingerprint_key, step.address, self.read_secret(ref, self.outputs.need))",
        "return self.read_secret(ref, self.outputs.need).reveal()",
    ),
    _mutant(
        "the platform's words about a secret are repeated",
        "services/platform.py",
        "return _without_values(outcome, call.body) if call.sensitive else outcome",
        "return outcome",
    ),
    # --- the state ---
    _mutant(
        "an old epoch may write",
        "state/log/open_state.py",
        "if lease.epochs[lease.scope] != seen.head.epoch:",
        "if False:",
    ),
    _mutant(
        "epochs do not rise",
        "state/log/leases.py",
        "        epoch = seen.head.epoch + 1\n        if not self._scopes.advance(seen, epoch=epoch,",
        "        epoch = max(1, seen.head.epoch)\n        if not self._scopes.advance(seen, epoch=epoch,",
    ),
    _mutant(
        "two processes hold one lease",
        "state/places/sqlite/locks.py",
        "return None if is_locked(self._lock_file, _byte(beat.id)) else 0.0",
        "return 0.0",
    ),
    _mutant(
        "the lease is given back before the calls",
        RUN_PLAN,
        "        results = await executor.run()\n",
        "        await project.store.release(lease)\n        results = await executor.run()\n",
    ),
    _mutant(
        "what was spooled is never taken in",
        "state/spooling.py",
        "            await self._take_in(lease)\n",
        "",
    ),
    _mutant(
        "intents are not listed as open",
        RULES,
        "    if event == Event.INTENT:\n        return Effect(opens=key)\n",
        "",
    ),
    _mutant(
        "an unknown outcome closes its intent",
        RULES,
        "CLOSING = frozenset({Event.DONE,",
        "CLOSING = frozenset({Event.UNKNOWN, Event.DONE,",
    ),
    _mutant(
        "an outcome does not close its intent",
        RULES,
        "CLOSING = frozenset({Event.DONE, ",
        "CLOSING = frozenset({",
    ),
)

MUTANTS = (*OWN, *SHARED, *APPROVALS, *OF_WATCHED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.mutants")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="words of the names; default: all")
    options = parser.parse_args(arguments)
    chosen = [
        each for each in MUTANTS if not options.names or any(word in each.name for word in options.names)
    ]
    survived = 0
    with _served(chosen):
        for caught in hunt_all(chosen, range(options.seeds), options.jobs):
            survived += not caught.by
            print(f"{caught.name:85} {caught.seconds:6.1f} s  {caught.by or 'SURVIVED'}", flush=True)
    print(f"{len(chosen)} mutants, {survived} survived (at most {options.seeds} seeds each)")
    return 1 if survived else 0


def _served(chosen: Sequence[Mutant]) -> AbstractContextManager[None]:
    """One PostgreSQL server for all histories that are to catch one of these."""
    if all(mutant.test or mutant.state != "postgresql" for mutant in chosen):
        return nullcontext()
    # Where this module is imported for a mutant, nothing of the product may be yet.
    from tests.reliability.simulation.database import serving

    return serving("postgresql")


if __name__ == "__main__":
    sys.exit(main())
