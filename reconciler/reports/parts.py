"""The parts of reports' JSON, checked strictly: no more gets through than a report can hold."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict
from pydantic import Field as Describe

from reconciler.core.advice import Command
from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic, Severity, Span
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Impact, Owed
from reconciler.core.steps import PLATFORM, Call, Method, OutcomeWord, Result, Step
from reconciler.planning.drift import UNMANAGED
from reconciler.rehearsal.matrix import FAULTS, Assumption, Cell, End, Rehearsal, Unrehearsed

# What stands in the first line of a report, which is never cut.
_Short = Annotated[str, Describe(max_length=250)]
_Commit = Annotated[str, Describe(pattern=r"^[0-9a-f]{7,64}$")]
Whole = Annotated[int, Describe(ge=0, lt=2**31)]
_Position = Annotated[int, Describe(ge=1, lt=2**31)] | None


def _is_address(text: str) -> str:
    Address.parse(text)
    return text


_AddressText = Annotated[_Short, AfterValidator(_is_address)]


Value = TypeVar("Value", covariant=True)


class _Holds(Protocol[Value]):
    def value(self) -> Value: ...


def values(parts: Sequence[_Holds[Value]]) -> tuple[Value, ...]:
    return tuple(each.value() for each in parts)


class Part(BaseModel):
    """Keys that it does not know are left out: any version may add some."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class ContextPart(Part):
    environment: _Short
    platform: _Short | None
    state: _Short
    lineage: _Short | None
    revision: _Commit | None
    dirty: bool | None
    version: _Short
    at: AwareDatetime

    def value(self) -> Context:
        return Context(**dict(self))


class FieldPart(Part):
    path: str
    before: Any
    after: Any
    effect: Effect

    def value(self) -> FieldChange:
        return FieldChange(self.path, self.before, self.after, self.effect)


class ChangePart(Part):
    address: _AddressText
    action: Action
    fields: list[FieldPart]
    impact: Impact
    reason: str
    id: str | None = None
    also: tuple[Action, ...] = ()

    def value(self) -> Change:
        address, fields, also = Address.parse(self.address), values(self.fields), self.also
        return Change(address, self.action, fields, self.impact, self.reason, self.id, also=also)


class StepPart(Part):
    id: str
    address: _AddressText
    method: Method
    path: str
    body: dict[str, Any] | None
    service: str = PLATFORM

    def value(self) -> Step:
        return Step(
            self.id, Address.parse(self.address), Call(self.method, self.path, self.body, self.service)
        )


class CommandPart(Part):
    argv: Annotated[list[str], Describe(min_length=2)]

    def value(self) -> Command:
        return Command(tuple(self.argv[1:]))


class OwedPart(Part):
    address: _AddressText
    work: str
    because: str
    certainty: Literal["owed", "unknown"]
    advice: tuple[CommandPart, ...] = ()

    def value(self) -> Owed:
        address = Address.parse(self.address)
        return Owed(address, self.work, self.because, self.certainty, values(self.advice))


class DiagnosticPart(Part):
    code: str
    severity: Severity
    message: str
    file: str | None
    line: _Position
    column: _Position
    notes: tuple[str, ...] = ()
    help: str = ""
    addresses: tuple[str, ...] = ()

    def value(self) -> Diagnostic:
        span = None
        if self.file is not None and self.line is not None and self.column is not None:
            span = Span(self.file, self.line, self.column, self.column, private=True)
        return Diagnostic(
            self.code,
            self.severity,
            self.message,
            span,
            notes=self.notes,
            help=self.help,
            addresses=self.addresses,
        )


class ResultPart(Part):
    address: _AddressText
    step: str
    outcome: OutcomeWord
    id: str | None = None
    error: str = ""
    note: str = ""

    def value(self) -> Result:
        return Result(Address.parse(self.address), self.step, self.outcome, self.id, self.error, self.note)


class CellPart(Part):
    step: str | None
    fault: Literal[FAULTS]  # type: ignore[valid-type]
    end: End
    owed: list[OwedPart]
    duration_s: Annotated[float, Describe(ge=0, allow_inf_nan=False, strict=False)]
    question: str = ""
    error: str = ""

    def value(self) -> Cell:
        owed = values(self.owed)
        return Cell(self.step or "", self.fault, self.end, owed, self.question, self.error, self.duration_s)


class UnrehearsedPart(Part):
    address: _AddressText
    because: str

    def value(self) -> Unrehearsed:
        return Unrehearsed(Address.parse(self.address), self.because)


class AssumptionPart(Part):
    name: str
    says: str

    def value(self) -> Assumption:
        return Assumption(self.name, self.says)


class RehearsalPart(Part):
    """The first cell is the clean run."""

    steps: list[str]
    cells: Annotated[list[CellPart], Describe(min_length=1)]
    differences: list[str]
    sampled_of: Whole | None = None
    unrehearsed: tuple[UnrehearsedPart, ...] = ()
    assumptions: tuple[AssumptionPart, ...] = ()

    def value(self) -> Rehearsal:
        of = len(self.steps) if self.sampled_of is None else self.sampled_of
        differences, apart = tuple(self.differences), values(self.unrehearsed)
        assumed = values(self.assumptions)
        return Rehearsal(tuple(self.steps), of, values(self.cells), differences, apart, assumed)


class SummaryPart(Part):
    noop: Whole


class UnmanagedPart(Part):
    address: _AddressText
    path: str
    before: Any
    after: Any
    id: str | None = None

    def value(self) -> Change:
        fields = (FieldChange(self.path, self.before, self.after, Effect.IN_PLACE),)
        return Change(Address.parse(self.address), Action.NOOP, fields, reason=UNMANAGED, id=self.id)
