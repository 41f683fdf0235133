"""Reports from the JSON that `-o json` and `--report json=FILE` wrote.

Anybody may have written the file, so all of it is checked before anything is made of it. What comes back
shows the same in Markdown as the report that was written, apart from links to where resources are declared,
and the note of `drift --accept`, which JSON does not hold.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace
from pydantic import ValidationError
from pydantic_core import from_json

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Action, Address, Change
from reconciler.core.steps import Plan
from reconciler.reports.formats.json import FORMAT_VERSION
from reconciler.reports.parts import (
    ChangePart,
    ContextPart,
    DiagnosticPart,
    OwedPart,
    Part,
    RehearsalPart,
    ResultPart,
    StepPart,
    SummaryPart,
    UnmanagedPart,
    Whole,
    values,
)
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    PlanReport,
    Report,
    ValidationReport,
)

MOST_BYTES = 64 * 1024 * 1024
_HELP = "make it with `-o json` or `--report json=FILE` of validate, plan, drift or apply"


class _Told(Part):
    """What all documents have."""

    diagnostics: list[DiagnosticPart]


class _Planned(_Told):
    """What the documents of plan, drift and apply have."""

    context: ContextPart
    changes: list[ChangePart]
    owed: list[OwedPart]
    summary: SummaryPart
    outside: Whole = 0

    def plan(self, steps: Sequence[StepPart] = ()) -> Plan:
        changes = values(self.changes)
        unchanged = self.summary.noop - sum(each.actions.count(Action.NOOP) for each in changes)
        if unchanged < 0:
            raise ValueError("its summary does not count its changes")
        return Plan(
            id="",
            context=self.context.value(),
            changes=changes,
            steps=values(steps),
            expectations=(),
            bindings=(),
            owed=values(self.owed),
            diagnostics=values(self.diagnostics),
            unchanged=unchanged,
            outside=self.outside,
        )


class _PlanDocument(_Planned):
    steps: list[StepPart]
    rehearsal: RehearsalPart | None = None

    def value(self) -> Report:
        plan, rehearsal = self.plan(self.steps), self.rehearsal
        return PlanReport(
            plan=plan,
            rehearsal=rehearsal.value() if rehearsal is not None else None,
            diagnostics=plan.diagnostics,
        )


class _DriftDocument(_Planned):
    unmanaged: list[UnmanagedPart]
    only_new: bool = False
    without_manifest: Whole = 0

    def value(self) -> Report:
        plan = self.plan()
        moved: dict[Address, Change] = {}
        for each in values(self.unmanaged):
            known = moved.get(each.address, replace(each, fields=()))
            moved[each.address] = replace(known, fields=(*known.fields, *each.fields))
        unmanaged = tuple(moved.values())
        return DriftReport(
            plan=plan,
            unmanaged=unmanaged,
            without_manifest=self.without_manifest,
            only_new=self.only_new,
            diagnostics=plan.diagnostics,
        )


class _ApplyDocument(_Planned):
    steps: list[StepPart]
    results: list[ResultPart]
    head: str = ""
    ended: Literal["done", "declined", "refused"] = "done"

    def value(self) -> Report:
        plan = self.plan(self.steps)
        return ApplyReport(
            plan=plan,
            results=values(self.results),
            owed=plan.owed,
            head=self.head,
            ended=self.ended,
            diagnostics=plan.diagnostics,
        )


class _ToldDocument(_Told):
    """Of validate, and of what failed: the JSON of both holds no more."""

    environments: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    dependants: tuple[str, ...] = ()

    def value(self) -> Report:
        told = values(self.diagnostics)
        if len(told) == 1 and told[0].code in ("failed", "interrupted") and told[0].span is None:
            return Failure(message=told[0].message, help=told[0].help)
        return ValidationReport(
            environments=self.environments,
            changed=self.changed,
            dependants=self.dependants,
            diagnostics=told,
        )


# By the key that only documents of this kind have; the first that fits.
_BY_KEY = (
    ("results", _ApplyDocument),
    ("unmanaged", _DriftDocument),
    ("changes", _PlanDocument),
    ("diagnostics", _ToldDocument),
)


def read_report(name: str, text: bytes) -> Report:
    """The report that `text` is the JSON of. `name`: of its file, for messages. Raises ReconcilerError."""
    if len(text) > MOST_BYTES:
        raise ReconcilerError(f"{name} is larger than {MOST_BYTES >> 20} MiB: not a report", help=_HELP)
    try:
        document = from_json(text)
    except ValueError:
        raise ReconcilerError(f"{name} is not JSON, or not all of it", help=_HELP) from None
    if not isinstance(document, dict) or "format_version" not in document:
        raise ReconcilerError(f"{name} is JSON, but not a report of this program", help=_HELP)
    if document["format_version"] != FORMAT_VERSION:
        raise ReconcilerError(
            f"{name} is a report of another version of this program: its `format_version` is not "
            f'"{FORMAT_VERSION}"',
            help="make the report and the comment with one version",
        )
    model = next((model for key, model in _BY_KEY if key in document), None)
    if model is None:
        raise ReconcilerError(f"{name} is not a report of validate, plan, drift or apply", help=_HELP)
    try:
        return model.model_validate_json(text).value()
    except ValidationError as failure:
        problem = failure.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise ReconcilerError(
            f"{name} is not a report of this program: `{place}` is missing or wrong", help=_HELP
        ) from None
    except ValueError as failure:
        raise ReconcilerError(f"{name} is not a report of this program: {failure}", help=_HELP) from None
