"""What a verb found or did, as a value: a format makes text of it.

What every report begins with belongs in `Report`, and is shown once by each format.
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
    from reconciler.rehearsal.matrix import Rehearsal
    from reconciler.rehearsal.outlook import Forecast
    from reconciler.services.registry import Budget

ReadLine = Callable[[str, int], str | None]


def no_line(file: str, line: int) -> str | None:
    return None


class Report(Struct, frozen=True, kw_only=True):
    """`kind`: what formats say that they can show. `read_line`: see `reports.diagnostics.render`.

    `style`: colours and width of the text. `links`: to the files at their host. `declared`:
    where the manifests of resources stand, as far as they are known. `rehearsal`, `forecast`: of a plan.
    """

    kind: ClassVar[str]
    diagnostics: tuple[Diagnostic, ...] = ()
    read_line: ReadLine = no_line
    style: Style = PLAIN
    links: Links = NO_LINKS
    declared: Mapping[Address, Span] = field(default_factory=dict)
    rehearsal: "Rehearsal | None" = None
    forecast: "Forecast | None" = None

    @property
    def about(self) -> Context | None:
        """What every format shows first; None where nobody knows."""
        return None

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """What formats for programs list as problems."""
        return self.diagnostics

    def url(self, span: Span | None) -> str:
        """Of the line at the git host; "" where none is known."""
        revision = self.about.revision if self.about is not None else None
        return self.links.url(span, revision or "") if span is not None else ""

    def advised(self, run: RunOptions) -> Self:
        """With the run's options in all commands that its texts advise."""
        return replace(self, diagnostics=advise(self.diagnostics, run))


class _OfPlan(Report, frozen=True, kw_only=True):
    plan: Plan

    @property
    def about(self) -> Context | None:
        return self.plan.context

    def advised(self, run: RunOptions) -> Self:
        return replace(super().advised(run), plan=advise_plan(self.plan, run))


class PlanReport(_OfPlan, frozen=True, kw_only=True):
    """`unchanged`: to be named in the text; None: they are only counted.

    `budget`: of the requests that the command has made.
    """

    kind = "plan"
    unchanged: Sequence[Address] | None = None
    budget: "Budget | None" = None


class DriftReport(_OfPlan, frozen=True, kw_only=True):
    """`only_new`: what is known was left out of the plan. `note`, `more`: what else people and JSON get.

    `unmanaged`: what moved of fields that no manifest says. `without_manifest`: how many of the objects that
    were compared no manifest names.
    """

    kind = "drift"
    unmanaged: Sequence[Change] = ()
    without_manifest: int = 0
    only_new: bool = False
    note: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


class ApplyReport(_OfPlan, frozen=True, kw_only=True):
    """`ended`: whether it ran to its end, a person said no, or the plan was refused.

    `plan_shown`: the reader has seen the plan already. `unchanged`: as in a PlanReport. `head`: the state's,
    afterwards; "" where it is not known. `run`: its id in the journal; "" where nothing was begun. `budget`:
    as in a PlanReport.
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
    """How many resources there are, in which files; with a revision to compare with, which addresses differ.

    `environments`: all that were checked, where those are several. Without files: read from JSON, which tells
    of none of them.
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
    """There is nothing else to show. Every format shows it."""

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
            advice=tuple(each.with_options(run) for each in self.advice),
        )


class Page(Report, frozen=True, kw_only=True):
    """What verbs show that have no more than text and JSON. `notices`: for people, beside the text."""

    kind = "page"
    document: Mapping[str, Any]
    text: str = ""
    notices: str = ""
    context: Context | None = None

    @property
    def about(self) -> Context | None:
        return self.context


# --- the options of a run in the commands that its texts advise ---


def advise(diagnostics: Iterable[Diagnostic], run: RunOptions) -> tuple[Diagnostic, ...]:
    """`diagnostics`, whose commands act on what the run was about."""
    return tuple(_diagnostic(each, run) if each.advice else each for each in diagnostics)


def advise_plan(plan: Plan, run: RunOptions) -> Plan:
    """`plan`, whose commands act on what the run was about. Meant to be shown, not to be saved."""
    return replace(
        plan,
        changes=tuple(_change(each, run) if each.advice else each for each in plan.changes),
        owed=advise_owed(plan.owed, run),
        diagnostics=advise(plan.diagnostics, run),
    )


def advise_owed(owed: Iterable[Owed], run: RunOptions) -> tuple[Owed, ...]:
    return tuple(replace(each, advice=_with_options(each.advice, run)) for each in owed)


def _diagnostic(item: Diagnostic, run: RunOptions) -> Diagnostic:
    return replace(
        item,
        message=spell(item.message, item.advice, run),
        notes=tuple(spell(note, item.advice, run) for note in item.notes),
        help=spell(item.help, item.advice, run),
        advice=_with_options(item.advice, run),
    )


def _change(change: Change, run: RunOptions) -> Change:
    reason = spell(change.reason, change.advice, run)
    return replace(change, reason=reason, advice=_with_options(change.advice, run))


def _with_options(advice: Iterable[Command], run: RunOptions) -> tuple[Command, ...]:
    return tuple(each.with_options(run) for each in advice)
