"""Reports: the results of verbs as values. A format makes text of them.

Everything that all reports begin with is in `Report`; each format shows it once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.advice import Command, RunOptions, spell
from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import Address, Change, Owed
from reconciler.core.steps import Plan, Result
from reconciler.reports.links import NO_LINKS, Links
from reconciler.reports.style import PLAIN, Style

if TYPE_CHECKING:
    from reconciler.planning.graph import Graph
    from reconciler.rehearsal.results import Forecast, Rehearsal
    from reconciler.reports.fragments import PriceJson
    from reconciler.services.registry import Budget

ReadLine = Callable[[str, int], str | None]


def no_line(file: str, line: int) -> str | None:
    """A `ReadLine` that has no source line."""
    return None


class Report(Struct, frozen=True, kw_only=True):
    """The parts that all reports have.

    `kind`: a format says which kinds it can show. `read_line`: see `reports.diagnostics.render`.
    `style`: colours and width of the text. `links`: to the files at their host. `declared`: the
    places of the manifests, as far as they are known. `rehearsal`, `forecast`: of a plan. `metrics`: the text
    for Prometheus, where it was asked for.
    """

    kind: ClassVar[str]
    diagnostics: tuple[Diagnostic, ...] = ()
    read_line: ReadLine = no_line
    style: Style = PLAIN
    links: Links = NO_LINKS
    declared: Mapping[Address, Span] = field(default_factory=dict)
    rehearsal: "Rehearsal | None" = None
    forecast: "Forecast | None" = None
    metrics: str = ""

    @property
    def about(self) -> Context | None:
        """The context that every format shows first; None where it is not known."""
        return None

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """The problems that formats for programs list."""
        return self.diagnostics

    def url(self, span: Span | None) -> str:
        """The link to a line at the git host; "" where no host is known."""
        revision = self.about.revision if self.about is not None else None
        return self.links.url(span, revision or "") if span is not None else ""

    def advised(self, run: RunOptions) -> Self:
        """Return the report with the options of the run in all commands that it advises."""
        return replace(self, diagnostics=advise(self.diagnostics, run))


class _OfPlan(Report, frozen=True, kw_only=True):
    """A report about a plan."""

    plan: Plan

    @property
    def about(self) -> Context | None:
        return self.plan.context

    def advised(self, run: RunOptions) -> Self:
        return replace(super().advised(run), plan=advise_plan(self.plan, run))


class PlanReport(_OfPlan, frozen=True, kw_only=True):
    """`unchanged`: resources to be named in the text; None: they are only counted.

    `budget`: of the requests that the command has sent. `price`: where a price file is configured.
    """

    kind = "plan"
    price: "PriceJson | None" = None
    unchanged: Sequence[Address] | None = None
    budget: "Budget | None" = None


class DriftReport(_OfPlan, frozen=True, kw_only=True):
    """The drift is the plan of its undoing, without steps.

    `only_new`: known drift was left out of the plan. `note`: more lines for people. `more`: more keys of the
    JSON. `unmanaged`: changes of fields that no manifest declares. `without_manifest`: the number of compared
    objects that no manifest names.
    """

    kind = "drift"
    unmanaged: Sequence[Change] = ()
    without_manifest: int = 0
    only_new: bool = False
    note: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


class ApplyReport(_OfPlan, frozen=True, kw_only=True):
    """`ended`: the apply ran to its end, a person declined it, or the plan was refused.

    `plan_shown`: the reader has seen the plan already. `head`: of the state afterwards; "" where it is not
    known. `run`: its id in the journal; "" where no run started. `unchanged`, `budget`: as in a PlanReport.
    """

    kind = "apply"
    unchanged: Sequence[Address] | None = None
    results: tuple[Result, ...] = ()
    owed: tuple[Owed, ...] = ()
    head: str = ""
    run: str = ""
    ended: Literal["done", "declined", "refused"] = "done"
    plan_shown: bool = False
    budget: "Budget | None" = None

    @property
    def about(self) -> Context | None:
        return None if self.plan_shown else self.plan.context

    def advised(self, run: RunOptions) -> Self:
        return replace(super().advised(run), owed=advise_owed(self.owed, run))


class ValidationReport(Report, frozen=True, kw_only=True):
    """The number of resources, and their files. A report that was read from JSON has no files.

    `environments`: those that were checked, where they are several. `changed`, `dependants`: addresses that
    differ from a revision, and those that refer to them; None where there is no revision to compare with.
    """

    kind = "validate"
    resources: int = 0
    files: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    dependants: tuple[str, ...] = ()


class GraphReport(Report, frozen=True, kw_only=True):
    """Resources, or the calls of a plan, and their order."""

    kind = "graph"
    graph: "Graph"


class Failure(Report, frozen=True, kw_only=True):
    """A verb that failed. Every format shows it."""

    kind = "failure"
    message: str
    help: str = ""
    advice: tuple[Command, ...] = ()
    interrupted: bool = False

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, or the failure as one."""
        if self.diagnostics:
            return self.diagnostics
        if self.interrupted:
            return (error("interrupted", self.message),)
        return (error("failed", self.message, help=self.help, advice=self.advice),)

    def advised(self, run: RunOptions) -> Self:
        return replace(
            super().advised(run),
            message=spell(self.message, self.advice, run),
            help=spell(self.help, self.advice, run),
            advice=_advice(self.advice, run),
        )


class Page(Report, frozen=True, kw_only=True):
    """The result of a verb that has only text and JSON. `notices`: for people; they go to stderr."""

    kind = "page"
    document: Mapping[str, Any]
    text: str = ""
    notices: str = ""
    context: Context | None = None

    @property
    def about(self) -> Context | None:
        return self.context


class InventoryReport(Page, frozen=True, kw_only=True):
    """What there is, and what it costs. `tables`: by place, each with a head."""

    kind = "inventory"
    tables: Mapping[str, Sequence[Sequence[str]]]


class OutlookReport(Page, frozen=True, kw_only=True):
    """What will be full. `drawings`: each a caption and an SVG."""

    kind = "forecast"
    drawings: Sequence[tuple[str, str]]


# --- the options of a run in advised commands ---


def advise(diagnostics: Iterable[Diagnostic], run: RunOptions) -> tuple[Diagnostic, ...]:
    """Add the options of the run to the commands of `diagnostics`, so that they act on the same state."""
    return tuple(_advise_one(item, run) for item in diagnostics)


def advise_plan(plan: Plan, run: RunOptions) -> Plan:
    """Add the options of the run to the commands of a plan. The result is to be shown, not to be saved."""
    return replace(
        plan,
        changes=tuple(
            replace(
                change, reason=spell(change.reason, change.advice, run), advice=_advice(change.advice, run)
            )
            if change.advice
            else change
            for change in plan.changes
        ),
        owed=advise_owed(plan.owed, run),
        diagnostics=advise(plan.diagnostics, run),
    )


def advise_owed(owed: Iterable[Owed], run: RunOptions) -> tuple[Owed, ...]:
    """Add the options of the run to the commands of owed work."""
    return tuple(replace(item, advice=_advice(item.advice, run)) for item in owed)


def _advise_one(item: Diagnostic, run: RunOptions) -> Diagnostic:
    if not item.advice:
        return item
    return replace(
        item,
        message=spell(item.message, item.advice, run),
        notes=tuple(spell(note, item.advice, run) for note in item.notes),
        help=spell(item.help, item.advice, run),
        advice=_advice(item.advice, run),
    )


def _advice(commands: Iterable[Command], run: RunOptions) -> tuple[Command, ...]:
    return tuple(command.with_options(run) for command in commands)
