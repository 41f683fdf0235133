"""The JSON documents of plan, drift, apply and validate: one type writes, reads and describes each of them.

A report that is read back looks the same in Markdown, apart from links to manifests and from the note of
`drift --accept`, which JSON does not hold.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from msgspec import DecodeError, Meta, ValidationError, convert, to_builtins
from msgspec.json import decode
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Owed
from reconciler.core.steps import Plan
from reconciler.planning.digest import plan_digest
from reconciler.rehearsal.results import FAULTS, Assumption, Cell, End, Forecast, Item, Rehearsal, Unrehearsed
from reconciler.reports.escape import shown
from reconciler.reports.fragments import (
    AddressText,
    ChangeJson,
    ContextJson,
    DiagnosticJson,
    Json,
    Moment,
    MoveJson,
    OwedJson,
    PriceJson,
    ResultJson,
    StepJson,
    Whole,
    says,
    values,
)
from reconciler.reports.grouping import count_actions, count_waiting
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    GraphReport,
    Page,
    PlanReport,
    Report,
    ValidationReport,
)

if TYPE_CHECKING:
    from reconciler.planning.graph import Graph
    from reconciler.services.registry import Budget

FORMAT_VERSION: Final = "1"
MOST_BYTES = 64 * 1024 * 1024
_HELP = "make it with `-o json` or `--report json=FILE` of validate, plan, drift or apply"
_DIGEST = "Of what the plan will do and relies on: the same for each plan that does the same."
_Fault = Literal[FAULTS]  # type: ignore[valid-type]
_Seconds = Annotated[float, Meta(ge=0)]


class CellJson(Json, frozen=True):
    """The end of a run whose first call of `step` suffered `fault`. `duration_s`: in seconds."""

    step: Annotated[str | None, says("null: the clean run.")]
    fault: _Fault
    end: End
    owed: tuple[OwedJson, ...]
    duration_s: _Seconds
    question: str = ""
    error: str = ""

    @classmethod
    def of(cls, cell: Cell) -> Self:
        owed = tuple(map(OwedJson.of, cell.owed))
        return cls(cell.step or None, cell.fault, cell.end, owed, cell.duration_s, cell.question, cell.error)

    def value(self) -> Cell:
        owed = values(self.owed)
        return Cell(self.step or "", self.fault, self.end, owed, self.question, self.error, self.duration_s)


class UnrehearsedJson(Json, frozen=True):
    """A resource that has no twin, and the reason."""

    address: AddressText
    because: str

    def value(self) -> Unrehearsed:
        return Unrehearsed(Address.parse(self.address), self.because)


class RehearsalJson(Json, frozen=True):
    """The first cell is the clean run."""

    steps: Annotated[tuple[str, ...], says("Ids of the steps whose calls suffered the faults.")]
    faults: tuple[_Fault, ...]
    cells: Annotated[tuple[CellJson, ...], Meta(min_length=1)]
    differences: Annotated[
        tuple[str, ...], says("Where a clean run on the twin does not do as the plan says.")
    ]
    digest: str
    assumptions: Annotated[
        tuple[Assumption, ...], says("What the API document leaves open and the ends rest on.")
    ] = ()
    sampled_of: Annotated[Whole | None, says("How many calls there are, if only some were disturbed.")] = None
    unrehearsed: tuple[UnrehearsedJson, ...] = ()

    @classmethod
    def of(cls, found: Rehearsal) -> Self:
        return cls(
            found.steps,
            FAULTS,
            tuple(map(CellJson.of, found.cells)),
            found.differences,
            found.digest,
            found.assumptions,
            found.of if found.of > len(found.steps) else None,
            tuple(UnrehearsedJson(str(item.address), item.why) for item in found.unrehearsed),
        )

    def value(self) -> Rehearsal:
        of = len(self.steps) if self.sampled_of is None else self.sampled_of
        apart = values(self.unrehearsed)
        return Rehearsal(self.steps, of, values(self.cells), self.differences, apart, self.assumptions)


class ItemJson(Json, frozen=True):
    """One event of a forecast, such as a full volume or a snapshot that expires."""

    address: AddressText
    what: str
    when: Annotated[Moment | None, says("Since when; null where nobody can tell.")]

    @classmethod
    def of(cls, item: Item) -> Self:
        return cls(str(item.address), item.what, item.when.astimezone(UTC) if item.when is not None else None)

    def value(self) -> Item:
        return Item(Address.parse(self.address), self.what, self.when)


class ForecastJson(Json, frozen=True):
    """The events until a later moment, if nobody intervenes."""

    at: Moment
    after_apply: Annotated[bool, says("The plan is carried out before.")]
    items: tuple[ItemJson, ...]

    @classmethod
    def of(cls, found: Forecast) -> Self:
        return cls(found.at.astimezone(UTC), found.after_apply, tuple(map(ItemJson.of, found.items)))

    def value(self) -> Forecast:
        return Forecast(self.at, values(self.items), self.after_apply)


class BudgetJson(Json, frozen=True):
    """The requests that an apply needs, where a rate limit holds for any of them."""

    requests: Annotated[Whole, says("How many were needed at least.")]
    limited_s: Annotated[_Seconds, says("How long the limits alone take for them, if answers come at once.")]

    @classmethod
    def of(cls, budget: "Budget | None") -> Self | None:
        """None where no limit holds."""
        if budget is None or not budget.is_limited:
            return None
        return cls(budget.requests, round(budget.limited_s, 3))


class SummaryJson(Json, frozen=True):
    """The number of changes by action. A change counts once for each of its actions."""

    create: Whole
    restore: Whole
    adopt: Whole
    update: Whole
    extend: Whole
    snapshot: Whole
    set: Whole
    suspend: Whole
    stop: Whole
    start: Whole
    restart: Whole
    delete: Whole
    retain: Whole
    forget: Whole
    noop: Whole
    refused: Whole
    waits: Annotated[Whole, says("How many changes wait for a window, or for the end of a freeze.")] = 0

    @classmethod
    def of(cls, plan: Plan) -> Self:
        counts = count_actions(plan)
        return cls(**{action.value: counts[action] for action in Action}, waits=count_waiting(plan))


class UnmanagedJson(Json, frozen=True):
    """A field that no manifest names and that changed since we last saw it. `before`: as it was then."""

    address: AddressText
    path: str
    before: Any
    after: Any
    id: str | None

    @classmethod
    def of(cls, change: Change, field: FieldChange) -> Self:
        return cls(str(change.address), field.path, shown(field.before), shown(field.after), change.id)

    def value(self) -> Change:
        from reconciler.planning.drift import UNMANAGED  # late: it imports all kinds, for reading alone

        fields = (FieldChange(self.path, self.before, self.after, Effect.IN_PLACE),)
        return Change(Address.parse(self.address), Action.NOOP, fields, reason=UNMANAGED, id=self.id)


class _Planned(Json, frozen=True, kw_only=True):
    """Keys that a plan and its apply have in common."""

    format_version: Literal["1"]
    context: Annotated[ContextJson, says("What the plan is about.")]
    changes: Annotated[
        tuple[ChangeJson, ...], says("Resources that need something; one in progress is a noop.")
    ]
    steps: Annotated[tuple[StepJson, ...], says("Calls, each after those that come before it.")]
    owed: Annotated[tuple[OwedJson, ...], says("Work that earlier calls left, such as a restart.")]
    diagnostics: Annotated[
        tuple[DiagnosticJson, ...], says("Of all that is told. A plan with an error is not applied.")
    ]
    summary: Annotated[SummaryJson, says("How often each action is done.")]
    outside: Annotated[Whole, says("How many resources are not part of the plan.")] = 0
    providers: Annotated[dict[str, str] | None, says("Addresses by name.")] = None
    moves: tuple[MoveJson, ...] = ()


class PlanJson(_Planned, frozen=True, kw_only=True):
    """A plan: what differs, and the calls that end the difference."""

    digest: Annotated[str, says(_DIGEST), Meta(extra_json_schema={"pattern": "^[0-9a-f]{64}$"})]
    rehearsal: Annotated[RehearsalJson | None, says("With --rehearse: how each call ends.")] = None
    forecast: Annotated[ForecastJson | None, says("With --at: what will have come to pass.")] = None
    budget: Annotated[BudgetJson | None, says("Where rate limits hold: what they make of this plan.")] = None
    price: Annotated[PriceJson | None, says("Where a price file is configured.")] = None

    @classmethod
    def of(cls, report: PlanReport) -> Self:
        rehearsal, ahead = report.rehearsal, report.forecast
        return cls(
            **_planned(report),
            steps=tuple(map(StepJson.of, report.plan.steps)),
            digest=plan_digest(report.plan),
            rehearsal=RehearsalJson.of(rehearsal) if rehearsal is not None else None,
            forecast=ForecastJson.of(ahead) if ahead is not None else None,
            budget=BudgetJson.of(report.budget),
            price=report.price,
        )

    def value(self) -> PlanReport:
        plan, rehearsal, ahead = _plan(self, self.steps), self.rehearsal, self.forecast
        return PlanReport(
            plan=plan,
            rehearsal=rehearsal.value() if rehearsal is not None else None,
            forecast=ahead.value() if ahead is not None else None,
            price=self.price,
            diagnostics=plan.diagnostics,
        )


class ApplyJson(_Planned, frozen=True, kw_only=True):
    """An apply: its plan, and the outcome of each call.

    `ended`: absent if it ran to its end. `head`: of the state afterwards; absent where it is not known.
    """

    results: tuple[ResultJson, ...]
    ended: Literal["done", "declined", "refused"] | None = None
    head: str = ""
    budget: BudgetJson | None = None

    @classmethod
    def of(cls, report: ApplyReport) -> Self:
        return cls(
            **_planned(report, report.owed),
            steps=tuple(map(StepJson.of, report.plan.steps)),
            results=tuple(map(ResultJson.of, report.results)),
            ended=report.ended if report.ended != "done" else None,
            head=report.head,
            budget=BudgetJson.of(report.budget),
        )

    def value(self) -> ApplyReport:
        plan = _plan(self, self.steps)
        return ApplyReport(
            plan=plan,
            results=values(self.results),
            owed=plan.owed,
            head=self.head,
            ended=self.ended or "done",
            diagnostics=plan.diagnostics,
        )


class DriftJson(Json, frozen=True, kw_only=True):
    """Drift: what changed on the platform. It has no steps, as nothing is sent."""

    format_version: Literal["1"]
    context: ContextJson
    changes: tuple[ChangeJson, ...]
    owed: tuple[OwedJson, ...]
    diagnostics: tuple[DiagnosticJson, ...]
    summary: SummaryJson
    outside: Whole = 0
    providers: dict[str, str] | None = None
    moves: tuple[MoveJson, ...] = ()
    only_new: bool = False
    without_manifest: Whole = 0
    unmanaged: tuple[UnmanagedJson, ...]

    @classmethod
    def of(cls, report: DriftReport) -> Self:
        moved = ((change, field) for change in report.unmanaged for field in change.fields)
        return cls(
            **_planned(report),
            only_new=report.only_new,
            without_manifest=report.without_manifest,
            unmanaged=tuple(UnmanagedJson.of(change, field) for change, field in moved),
        )

    def value(self) -> DriftReport:
        plan = _plan(self)
        moved: dict[Address, Change] = {}
        for change in values(self.unmanaged):
            known = moved.get(change.address, replace(change, fields=()))
            moved[change.address] = replace(known, fields=(*known.fields, *change.fields))
        return DriftReport(
            plan=plan,
            unmanaged=tuple(moved.values()),
            without_manifest=self.without_manifest,
            only_new=self.only_new,
            diagnostics=plan.diagnostics,
        )


class ProblemsJson(Json, frozen=True, kw_only=True):
    """Diagnostics alone: of a validation, or of a run that failed before it had a plan.

    `changed` and `dependants`: addresses, with --changed-since only.
    """

    format_version: Literal["1"]
    diagnostics: tuple[DiagnosticJson, ...]
    environments: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    dependants: tuple[str, ...] | None = None

    @classmethod
    def of(cls, report: ValidationReport | Failure) -> Self:
        problems = cls(format_version=FORMAT_VERSION, diagnostics=DiagnosticJson.all_of(report.problems))
        if isinstance(report, Failure):
            return problems
        dependants = report.dependants if report.changed is not None else None
        return replace(
            problems, environments=report.environments, changed=report.changed, dependants=dependants
        )

    def value(self) -> ValidationReport | Failure:
        problems = values(self.diagnostics)
        if len(problems) == 1 and problems[0].code in ("failed", "interrupted") and problems[0].span is None:
            return Failure(message=problems[0].message, help=problems[0].help)
        return ValidationReport(
            environments=self.environments,
            changed=self.changed,
            dependants=self.dependants or (),
            diagnostics=problems,
        )


def _planned(report: PlanReport | ApplyReport | DriftReport, owed: Sequence[Owed] | None = None) -> Any:
    """The keys that the documents of plan, apply and drift have in common."""
    plan = report.plan
    return {
        "format_version": FORMAT_VERSION,
        "context": ContextJson.of(plan.context),
        "changes": tuple(map(ChangeJson.of, plan.changes)),
        "owed": tuple(map(OwedJson.of, plan.owed if owed is None else owed)),
        "diagnostics": DiagnosticJson.all_of(report.diagnostics),
        "summary": SummaryJson.of(plan),
        "outside": plan.outside,
        "providers": dict(plan.providers) or None,
        "moves": tuple(map(MoveJson.of, plan.moves)),
    }


def _plan(document: _Planned | DriftJson, steps: Sequence[StepJson] = ()) -> Plan:
    """Read the plan. Raises ValueError where the summary counts less than the changes."""
    changes = values(document.changes)
    unchanged = document.summary.noop - sum(change.actions.count(Action.NOOP) for change in changes)
    if unchanged < 0:
        raise ValueError("its summary does not count its changes")
    return Plan(
        id="",
        context=document.context.value(),
        changes=changes,
        steps=values(steps),
        expectations=(),
        bindings=(),
        owed=values(document.owed),
        diagnostics=values(document.diagnostics),
        unchanged=unchanged,
        outside=document.outside,
    )


class NodeJson(Json, frozen=True):
    """A resource in the graph. `level`: from 1; what it needs has lower ones. `count`: of its objects."""

    key: str
    kind: str
    app: str | None
    level: int
    count: int
    detail: str = ""
    place: str = ""


def graph_document(graph: "Graph") -> dict[str, Any]:
    """`nodes: [{key, kind, app, level, count}]` and `edges: [{from, to}]`."""
    nodes = [
        NodeJson(node.key, node.kind, node.group or None, node.level + 1, node.count, node.detail, node.place)
        for node in graph.nodes
    ]
    edges = [{"from": before, "to": node.key} for node in graph.nodes for before in node.after]
    return {"nodes": nodes, "edges": edges}


def document_of(report: Report) -> Any:
    """Return the JSON document of a report: a mapping, or a type of this module."""
    match report:
        case PlanReport():
            return PlanJson.of(report)
        case ApplyReport():
            return ApplyJson.of(report)
        case DriftReport():
            return to_builtins(DriftJson.of(report), builtin_types=(datetime,)) | dict(report.more)
        case ValidationReport() | Failure():
            return ProblemsJson.of(report)
        case GraphReport():
            return {"format_version": FORMAT_VERSION, **graph_document(report.graph)}
        case Page():
            context = {"context": ContextJson.of(report.about)} if report.about is not None else {}
            return {"format_version": FORMAT_VERSION, **context, **report.document}
    raise TypeError(f"JSON shows no {report.kind}")


# By a key that only documents of this kind have; the first that fits.
_BY_KEY: Mapping[str, type[ApplyJson | DriftJson | PlanJson | ProblemsJson]] = {
    "results": ApplyJson,
    "unmanaged": DriftJson,
    "changes": PlanJson,
    "diagnostics": ProblemsJson,
}


def read_report(name: str, text: bytes) -> Report:
    """Read a report from its JSON. `name`: of the file, for messages. Raises ReconcilerError.

    Anybody may have written the file, so the whole document is checked first.
    """
    if len(text) > MOST_BYTES:
        raise ReconcilerError(f"{name} is larger than {MOST_BYTES >> 20} MiB: not a report", help=_HELP)
    try:
        document = decode(text)
    except (DecodeError, ValueError, RecursionError):
        raise ReconcilerError(f"{name} is not JSON, or not all of it", help=_HELP) from None
    if not isinstance(document, dict) or "format_version" not in document:
        raise ReconcilerError(f"{name} is JSON, but not a report of this program", help=_HELP)
    if document["format_version"] != FORMAT_VERSION:
        raise ReconcilerError(
            f"{name} is a report of another version of this program: its `format_version` is not "
            f'"{FORMAT_VERSION}"',
            help="make the report and the comment with one version",
        )
    model = next((model for key, model in _BY_KEY.items() if key in document), None)
    if model is None:
        raise ReconcilerError(f"{name} is not a report of validate, plan, drift or apply", help=_HELP)
    try:
        return convert(document, model).value()
    except ValidationError as failure:
        why = f"`{place_of(failure)}` is missing or wrong"
    except ValueError as failure:
        why = str(failure)
    raise ReconcilerError(f"{name} is not a report of this program: {why}", help=_HELP)


def place_of(failure: ValidationError) -> str:
    """Turn "… missing required field `reason` - at `$.changes[0]`" of msgspec into `changes.0.reason`."""
    at = re.search(r"- at `\$\.?(.*)`$", str(failure))
    named = re.match(r"Object (?:missing required|contains unknown) field `(\w+)`", str(failure))
    place = re.sub(r"\[(\d+|\.\.\.)\]", r".\1", at[1]) if at is not None else ""
    return ".".join(filter(None, (place, named[1] if named is not None else "")))
