"""One cell of the matrix: the plan runs on a fresh twin, one call suffers one fault, and it ends somehow."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from reconciler.approvals.creates import Everything
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, Severity, error
from reconciler.core.errors import Diagnosed, ReconcilerError
from reconciler.core.model import Action, owed_work
from reconciler.core.steps import Plan, Result
from reconciler.core.words import counted
from reconciler.moves.compare import only_left
from reconciler.project.apply import apply
from reconciler.project.run import Applied, run_plan
from reconciler.rehearsal.matrix import Cell, End
from reconciler.rehearsal.process import Killed, Process, Sent
from reconciler.rehearsal.twin import Original, Twin

APPLIES = 3  # so many may follow the struck run
BETWEEN_S = 60.0


class Played(Struct, frozen=True):
    """`sent`: every call, in order. `differences`: between what the plan says and what a clean run did.

    `asked`: the switches of the sandbox that answers depended on.
    """

    cell: Cell
    sent: tuple[Sent, ...]
    differences: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()


class _Ended(Struct, frozen=True):
    """How one run ended; all of it is empty for one that was killed. `problems`: errors."""

    applied: Applied | None = None
    problems: tuple[Diagnostic, ...] = ()
    results: Sequence[Result] = ()

    @property
    def is_rest(self) -> bool:
        """There was nothing to do, and nothing to say."""
        if self.applied is None or self.problems:
            return False
        return not _is_busy(self.applied.plan) and all(map(only_left, self.applied.plan.bindings))


def play(original: Original, step: str, fault: str) -> Played:
    """Raises ReconcilerError where there can be no twin."""
    twin = Twin(original)
    try:
        return twin.run(_play(twin, step, fault))
    finally:
        twin.close()


async def _play(twin: Twin, step: str, fault: str) -> Played:
    struck = Process(step, fault)
    began_s = twin.timeline.time()
    first = last = await _ended(twin, struck, _run(twin, struck))
    sent, ends = list(struck.sent), []
    busy_s = twin.timeline.time() - began_s
    for _ in range(APPLIES):
        await asyncio.sleep(BETWEEN_S)
        began_s, before, process = twin.timeline.time(), last, Process()
        last = await _ended(twin, process, _apply(twin, process))
        sent += process.sent
        ends.append(last)
        if last.is_rest:
            break
        busy_s += twin.timeline.time() - began_s
        if last.problems and not process.sent and before.problems == last.problems:
            break  # it would say the same for ever
    differences = () if step else tuple(_differences(twin.original.plan, struck, first, ends[0]))
    return Played(_cell(twin, struck, last, busy_s), tuple(sent), differences, frozenset(twin.switches.asked))


async def _ended(twin: Twin, process: Process, work: Coroutine[Any, Any, Applied]) -> _Ended:
    """How `work` of `process` ended."""
    try:
        applied = await work
        found = _errors([*applied.plan.diagnostics, *applied.notices])
        return _Ended(applied, found, applied.results)
    except Diagnosed as refused:
        return _Ended(problems=_errors(refused.diagnostics) or (error("failed", refused.message),))
    except ReconcilerError as failure:
        return _Ended(problems=(error("failed", failure.message),))
    except (Killed, BaseExceptionGroup):
        if process.alive:
            raise
        return _Ended()
    finally:
        twin.free()


async def _run(twin: Twin, process: Process) -> Applied:
    plan, desired = twin.original.plan, twin.original.desired()
    return await run_plan(
        twin.project(process),
        plan,
        approved_deletes=Everything(),
        resources=desired.by_address,
    )


async def _apply(twin: Twin, process: Process) -> Applied:
    return await apply(
        twin.project(process),
        twin.original.desired(),
        approve=lambda plan: True,
        approved_deletes=Everything(),
        approved_creates=Everything(),
    )


def _errors(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(each for each in diagnostics if each.severity is Severity.ERROR)


def _cell(twin: Twin, process: Process, last: _Ended, busy_s: float) -> Cell:
    question = next((each for each in last.problems if each.code == UNKNOWN_OUTCOME), None)
    failed = [each.error for each in last.results if each.outcome == "failed"]
    end: End = "pending"
    why = ""
    if last.is_rest:
        end = "converged"
    elif question is not None:
        end = "decision"
    elif last.problems or failed:
        end, why = "failed", last.problems[0].message if last.problems else failed[0]
    said = f"{question.message}: {_in_one_line(question.help)}" if question is not None else ""
    return Cell(process.strikes, process.fault, end, owed_work(twin.records), said, why, round(busy_s, 1))


def _in_one_line(help: str) -> str:
    """Its commands, which stand in lines of their own, are told apart."""
    first, *commands = (line.strip() for line in help.splitlines())
    return " ".join(filter(None, (first, "; ".join(commands))))


def _differences(plan: Plan, process: Process, first: _Ended, after: _Ended) -> Iterator[str]:
    """Where a clean run did not do what the plan says. `after`: the next apply, which has nothing to do."""
    if not first.results:
        yield from (f"the plan was refused on the twin: {each.message}" for each in first.problems)
        return
    results = {result.step: result for result in first.results}
    sent = Counter(each.step for each in process.sent)
    for step in plan.steps:
        result = results.get(step.id)
        if result is None or result.outcome != "done":
            word = result.outcome if result is not None else "not reached"
            why = f": {result.error}" if result is not None and result.error else ""
            yield f"{step.id} is {word} on the twin{why}"
        elif step.mutates and not sent[step.id] and step.guard is None:
            yield f"{step.id} sent nothing on the twin"
        elif sent[step.id] > 1 and step.for_each is None:
            yield f"{step.id} sent {counted(sent[step.id], 'call')} on the twin instead of one"
    for each in process.sent:
        if not any(step.id == each.step for step in plan.steps):
            yield f"{each.method} {each.path} was sent on the twin, and the plan does not say it"
    if after.applied is not None and _is_busy(after.applied.plan):
        changes = ", ".join(f"{change.action} {change.address}" for change in after.applied.plan.changes)
        yield f"applied, the twin still needs: {changes}"


def _is_busy(plan: Plan) -> bool:
    actions = [change.action for change in plan.changes]
    return bool(plan.steps) or Action.REFUSED in actions or any(each.changes_something for each in actions)
