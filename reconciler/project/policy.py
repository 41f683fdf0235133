"""Tries guardrails: on cases with the verdicts that they must give, and on the runs of a journal."""

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace as with_settings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from reconciler.core.context import BASE, Context
from reconciler.core.diagnostics import error
from reconciler.core.errors import ManifestError
from reconciler.core.model import Action, Address, Change, Resource, StateRecord, weightiest_first
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Call, OutputRef, Plan, Step, StepEffect
from reconciler.execution.observed import read_records
from reconciler.guardrails.limit import Limit
from reconciler.guardrails.rules import Finding, Judgement, judge_rules
from reconciler.kinds.manifest import Spec
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.validation.problems import explain
from reconciler.planning.saved import load_saved
from reconciler.project.desired import load_desired
from reconciler.project.embedded import embedded_sandbox
from reconciler.project.files import SourceTexts, read_file
from reconciler.project.open import Options, open_project
from reconciler.project.plan import make_plan
from reconciler.project.settings import find_settings
from reconciler.project.store import require_private
from reconciler.project.undo import ALIKE
from reconciler.state.store import Event, JournalEntry, Run

Verdict = Literal["passed", "refused", "undecided", "not-matched"]


class Case(Spec):
    """A plan, and what each guardrail must say about it.

    `plan`: a file that `plan --out` wrote; else `manifests` (paths) are planned on an emulated platform that
    begins as `world` says, as `reconcile sandbox --seed` has it. Paths begin at the case's folder.
    """

    plan: str | None = None
    manifests: list[str] | None = None
    world: dict[str, Any] | None = None
    verdicts: dict[str, Verdict]


class Tried(Struct, frozen=True):
    """A case that was tried. `wrong`: by guardrail, the wanted and the found verdict."""

    file: str
    verdicts: Mapping[str, Verdict]
    wrong: Mapping[str, tuple[str, str]]


def verdicts_of(limits: Iterable[Limit], judged: Judgement) -> Mapping[str, Verdict]:
    """The verdict of each rule by its name."""
    found: dict[str, Verdict] = {
        limit.name: "passed" if limit in judged.matched else "not-matched"
        for limit in limits
        if limit.kind == "Guardrail"
    }
    for finding in judged.findings:
        if found[finding.limit.name] != "refused":
            found[finding.limit.name] = "refused" if finding.verdict == "false" else "undecided"
    return found


async def try_case(file: Path, name: str, limits: Sequence[Limit]) -> Tried:
    """Judge the plan of a case. Raises ManifestError for a case that is not valid. `name`: for messages."""
    rules = [limit.name for limit in limits if limit.kind == "Guardrail"]  # a case holds no budget or window
    case = _read_case(read_file(file), name, rules)
    if case.plan is not None:
        judged = judge_rules(limits, load_saved(read_file(file.parent / case.plan)).plan, {}, {})
    else:
        async with _planned(file.parent, case) as (plan, resources):
            judged = judge_rules(limits, plan, resources, {})
    found = verdicts_of(limits, judged)
    wrong = {rule: (wanted, found[rule]) for rule, wanted in case.verdicts.items() if found[rule] != wanted}
    return Tried(name, found, wrong)


def _read_case(data: bytes, name: str, known: Sequence[str]) -> Case:
    composed = compose(data, name)
    problems = list(composed.diagnostics)
    if not problems and len(composed.documents) != 1:
        problems.append(error("not-a-manifest", f"{name} must hold one case"))
    if not problems:
        document = composed.documents[0].shown()
        try:
            case = Case.model_validate(document.value)
            unknown = [rule for rule in case.verdicts if rule not in known]
            problems += (
                error(
                    "not-allowed",
                    f"there is no guardrail `{rule}`",
                    document.key_span(("verdicts", rule)),
                    help=f"guardrails are {', '.join(known) or 'none'}",
                )
                for rule in unknown
            )
            if (case.plan is None) == (case.manifests is None):
                problems.append(
                    error("one-of", "give exactly one of `plan` and `manifests`", document.span(()))
                )
        except ValidationError as failure:
            problems += explain(failure, Case, document)
    if problems:
        raise ManifestError(f"{name} is not a case", problems)
    return case


@asynccontextmanager
async def _planned(folder: Path, case: Case) -> AsyncIterator[tuple[Plan, Mapping[Address, Resource]]]:
    """The plan of the case's manifests on an emulated platform of its own, and what they declare."""
    with TemporaryDirectory(prefix="reconcile-case-") as name:
        root = Path(name)
        seed = root / "seed.json"
        seed.write_bytes(msgspec.json.encode(case.world or {}))
        config = with_settings(find_settings(root, {}), root=root).in_sandbox()
        paths = [os.path.relpath(folder / path) for path in case.manifests or ()]  # noqa: ASYNC240 (a name)
        reporter = Reporter()
        desired = load_desired(paths, config, SourceTexts(root), reporter)
        require_private(root, config.private)
        with embedded_sandbox(config.private / "sandbox.db", seed):  # the project finds it running
            async with open_project(
                config, Options(take_signals=False), reporter, desired.resources, desired.policies
            ) as project:
                yield await make_plan(project, desired), desired.by_address


# --- the journal ---

_NOT_RECORDED = OutputRef("journal", "not recorded")  # of a call's body
UNRECORDED = ("labels", "effects", "impact", "owed")  # of a change, in a journal


class PastVerdict(Struct, frozen=True):
    """A run that today's rules would have refused. `unknown`: rules that the journal tells too little for."""

    run: str
    at: Any
    actor: str
    refused: Sequence[Finding]
    unknown: Sequence[Finding]


class Backtest(Struct, frozen=True):
    """`runs`: how many were judged. `never`: rules that matched nothing in any of them."""

    runs: int
    verdicts: Sequence[PastVerdict]
    never: Sequence[Limit]


def backtest(
    limits: Sequence[Limit], journal: Iterable[tuple[str, JournalEntry]], context: Context
) -> Backtest:
    """Judge each run of the journal that sent anything by `limits`. No call is made, and nothing is guessed.

    `context`: of the state; each run has its own environment and time.
    """
    runs: dict[str, list[JournalEntry]] = defaultdict(list)
    for _, entry in journal:
        runs[entry.run].append(entry)
    rules = [limit for limit in limits if limit.kind == "Guardrail" and limit.spec.judges == "changes"]
    matched: set[Limit] = set()
    verdicts, count = [], 0
    for run, entries in runs.items():
        plan, records = _past_plan(run, entries, context)
        if plan is None:
            continue
        count += 1
        judged = judge_rules(rules, plan, {}, records, unrecorded=UNRECORDED)
        matched |= judged.matched
        refused = [finding for finding in judged.findings if finding.verdict == "false"]
        unknown = [finding for finding in judged.findings if finding.verdict == "undecided"]
        if refused or unknown:
            actor = Run.from_json(entries[0].data).actor
            verdicts.append(PastVerdict(run, plan.context.at, actor, refused, unknown))
    never = [limit for limit in rules if limit not in matched]
    return Backtest(count, verdicts, never)


def _past_plan(
    run: str, entries: Sequence[JournalEntry], context: Context
) -> tuple[Plan | None, Mapping[Address, StateRecord]]:
    """What the journal tells of a run's calls, as a plan, and the records at its start. None: no calls."""
    began = next((entry for entry in entries if entry.event is Event.RUN_STARTED), None)
    intents = {entry.step: entry for entry in entries if entry.event is Event.INTENT and entry.address}
    if began is None or not intents:
        return None, {}
    records: dict[Address, StateRecord] = {}
    for entry in entries:
        if entry.event is Event.RUN_OBSERVED:
            records |= read_records(entry.data.get("records", {}))
    steps = [step for entry in intents.values() for step in _past_step(entry)]
    by_address = {step.address: _actions(step.address, steps) for step in steps}
    changes = [
        Change(address, actions[0], also=tuple(actions[1:]))
        for address, actions in by_address.items()
        if actions
    ]
    said = Run.from_json(began.data)
    about = msgspec.structs.replace(context, environment=said.environment or BASE, at=began.at)
    return Plan(run, about, tuple(changes), tuple(steps), (), (), (), ()), records


def _past_step(entry: JournalEntry) -> Iterator[Step]:
    data = entry.data
    body = {"not recorded": _NOT_RECORDED}
    call = Call(data["method"], str(data.get("path", "")), body)
    assert entry.address is not None
    yield Step(entry.step, entry.address, call, effect=StepEffect(dict(data.get("applied", {}))))


def _actions(address: Address, steps: Sequence[Step]) -> Sequence[Action]:
    """The actions of an address by the names of its steps, the weightiest first."""
    names = [step.id.rpartition("#")[2] for step in steps if step.address == address]
    found = [Action(word) for name in names if (word := ALIKE.get(name, name)) in list(Action)]
    return weightiest_first(found)
