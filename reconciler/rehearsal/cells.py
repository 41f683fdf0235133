"""Plays one cell of the matrix: the plan runs on a fresh twin, one call meets one fault, and the run ends."""

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
from reconciler.rehearsal.process import Killed, Process, Sent
from reconciler.rehearsal.results import Cell, End
from reconciler.rehearsal.twin import Original, Twin

APPLIES = 3  # at most, after the run with the fault
BETWEEN_S = 60.0


class Played(Struct, frozen=True):
    """`sent`: every call, in order. `differences`: between the plan and a clean run.

    `asked`: the switches of the sandbox that answers depended on.
    """

    cell: Cell
    sent: tuple[Sent, ...]
    differences: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()


class _Ended(Struct, frozen=True):
    """The end of one run; all fields are empty for a run that was killed. `problems`: errors."""

    applied: Applied | None = None
    problems: tuple[Diagnostic, ...] = ()
    results: Sequence[Result] = ()

    @property
    def is_rest(self) -> bool:
        """Whether the run had nothing to do and nothing to report."""
        if self.applied is None or self.problems:
            return False
        return not _is_busy(self.applied.plan) and all(map(only_left, self.applied.plan.bindings))


def play(original: Original, step: str, fault: str) -> Played:
    """Play the plan on a twin, with `fault` at `step`. Raises ReconcilerError where no twin is possible."""
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
            break  # all further applies would say the same
    differences = () if step else tuple(_differences(twin.original.plan, struck, first, ends[0]))
    return Played(_cell(twin, struck, last, busy_s), tuple(sent), differences, frozenset(twin.switches.asked))


async def _ended(twin: Twin, process: Process, work: Coroutine[Any, Any, Applied]) -> _Ended:
    """Wait for the work of a process, and return its end. The locks of a dead process are released."""
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
    project, resources = twin.project(process), desired.by_address
    return await run_plan(project, plan, approved_deletes=Everything(), resources=resources)


async def _apply(twin: Twin, process: Process) -> Applied:
    return await apply(
        twin.project(process),
        twin.original.desired(),
        approve=lambda plan: True,
        approved_deletes=Everything(),
        approved_creates=Everything(),
    )


def _errors(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(problem for problem in diagnostics if problem.severity is Severity.ERROR)


def _cell(twin: Twin, process: Process, last: _Ended, busy_s: float) -> Cell:
    question = next((problem for problem in last.problems if problem.code == UNKNOWN_OUTCOME), None)
    failed = [result.error for result in last.results if result.outcome == "failed"]
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
    """A help text on one line, with semicolons between its commands."""
    first, *commands = (line.strip() for line in help.splitlines())
    return " ".join(filter(None, (first, "; ".join(commands))))


def _differences(plan: Plan, process: Process, first: _Ended, after: _Ended) -> Iterator[str]:
    """Yield the differences between a clean run and the plan. `after`: the next apply, which must be idle."""
    if not first.results:
        yield from (f"the plan was refused on the twin: {problem.message}" for problem in first.problems)
        return
    results = {result.step: result for result in first.results}
    sent = Counter(call.step for call in process.sent)
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
    for call in process.sent:
        if not any(step.id == call.step for step in plan.steps):
            yield f"{call.method} {call.path} was sent on the twin, and the plan does not say it"
    if after.applied is not None and _is_busy(after.applied.plan):
        changes = ", ".join(f"{change.action} {change.address}" for change in after.applied.plan.changes)
        yield f"applied, the twin still needs: {changes}"


def _is_busy(plan: Plan) -> bool:
    """Whether an apply of the plan sends, changes or refuses something."""
    actions = [change.action for change in plan.changes]
    return (
        bool(plan.steps) or Action.REFUSED in actions or any(action.changes_something for action in actions)
    )
