"""The objects in the JSON of reports: one type writes, reads and describes each of them.

A type has the keys of one object, in their order. `of` makes it from a value of the core, and `value` gives
that value back. A key with a default is left out where the default says nothing. Docstrings and descriptions
are for the schema; limits of lengths and patterns hold for reading only.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

from reconciler.core.advice import Command
from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic, Severity, Span
from reconciler.core.model import ADDRESS, Action, Address, Change, Effect, FieldChange, Impact, Owed, Waits
from reconciler.core.steps import (
    PLATFORM,
    Call,
    Method,
    Move,
    OutcomeWord,
    Owes,
    Result,
    Step,
    UnlessRecorded,
    Wait,
)
from reconciler.reports.escape import shown

# The first line of a report holds such texts, and it is never cut.
Short = Annotated[str, Meta(max_length=250)]
AddressText = Annotated[str, Meta(max_length=250, pattern=rf"^(?:{ADDRESS.pattern})\Z")]
Moment = Annotated[datetime, Meta(tz=True)]
Whole = Annotated[int, Meta(ge=0, lt=2**31)]
_Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{7,64}\Z")]
_Position = Annotated[int, Meta(ge=1, lt=2**31)] | None
Value = TypeVar("Value", covariant=True)


def says(description: str) -> Meta:
    """A description for the schema."""
    return Meta(description=description)


class Json(Struct, frozen=True, omit_defaults=True):
    """A part of a document. Unknown keys are ignored when it is read: any version may add some."""


class _Holds(Protocol[Value]):
    def value(self) -> Value: ...


def values(found: Iterable[_Holds[Value]]) -> tuple[Value, ...]:
    """The values of the core, in their order."""
    return tuple(item.value() for item in found)


class ContextJson(Json, frozen=True):
    """As a `Context`. `revision`: 7 to 64 hexadecimal digits. `at`: with its offset from UTC."""

    environment: Short
    platform: Short | None
    state: Short
    lineage: Short | None
    revision: _Commit | None
    dirty: bool | None
    version: Short
    at: Moment

    @classmethod
    def of(cls, context: Context) -> Self:
        return cls(**asdict(context))

    def value(self) -> Context:
        return Context(**asdict(self))


class PriceJson(Json, frozen=True):
    """The change of the monthly price, in the unit of the price file."""

    monthly: Annotated[Decimal, says("By how much a month gets dearer; without the copies of data.")]
    unpriced: Annotated[tuple[AddressText, ...], says("Those whose price is not known.")] = ()


class CommandJson(Json, frozen=True):
    """A command that a person may run next."""

    argv: Annotated[tuple[str, ...], Meta(min_length=2), says("Words in capitals are to be filled in.")]

    @classmethod
    def all_of(cls, advice: Iterable[Command]) -> tuple[Self, ...]:
        return tuple(cls(command.argv) for command in advice)

    def value(self) -> Command:
        return Command(self.argv[1:])


def position(span: Span | None) -> dict[str, Any]:
    """The file, line and column as keys of JSON; null without a span."""
    return {name: getattr(span, name, None) for name in ("file", "line", "column")}


class DiagnosticJson(Json, frozen=True):
    """A problem or a remark. `code`: permanent, for `reconcile explain`. Lines and columns count from 1."""

    code: str
    severity: Severity
    message: str
    file: str | None
    line: _Position
    column: _Position
    notes: Annotated[tuple[str, ...], says("What else is known of it.")] = ()
    help: str = ""
    addresses: Annotated[tuple[str, ...], says("All resources that the problem affects.")] = ()
    advice: tuple[CommandJson, ...] = ()

    @classmethod
    def all_of(cls, diagnostics: Iterable[Diagnostic]) -> tuple[Self, ...]:
        return tuple(map(cls.of, diagnostics))

    @classmethod
    def of(cls, item: Diagnostic) -> Self:
        return cls(
            code=item.code,
            severity=item.severity,
            message=item.message,
            **position(item.span),
            notes=item.notes,
            help=item.help,
            addresses=item.addresses,
            advice=CommandJson.all_of(item.advice),
        )

    def value(self) -> Diagnostic:
        span = None
        if self.file is not None and self.line is not None and self.column is not None:
            span = Span(self.file, self.line, self.column, self.column, private=True)
        notes, help, addresses = self.notes, self.help, self.addresses
        return Diagnostic(
            self.code, self.severity, self.message, span, notes=notes, help=help, addresses=addresses
        )


class FieldJson(Json, frozen=True):
    """A secret's value is `(sensitive)`."""

    path: str
    before: Any
    after: Any
    effect: Effect

    @classmethod
    def of(cls, field: FieldChange) -> Self:
        return cls(field.path, shown(field.before), shown(field.after), field.effect)

    def value(self) -> FieldChange:
        return FieldChange(self.path, self.before, self.after, self.effect)


class ChangeJson(Json, frozen=True):
    """A resource that needs something. `impact`: the gravest consequence. `id`: absent before it exists."""

    address: AddressText
    action: Action
    fields: tuple[FieldJson, ...]
    impact: Impact
    reason: str
    id: str | None = None
    also: Annotated[tuple[Action, ...], says("What it does besides.")] = ()
    advice: tuple[CommandJson, ...] = ()
    waits: Annotated[Waits | None, says("Where it may not go out when the plan is made.")] = None

    @classmethod
    def of(cls, change: Change) -> Self:
        fields = tuple(map(FieldJson.of, change.fields))
        said = (change.impact, change.reason, change.id, change.also, CommandJson.all_of(change.advice))
        return cls(str(change.address), change.action, fields, *said, change.waits)

    def value(self) -> Change:
        address, fields = Address.parse(self.address), values(self.fields)
        said = (self.impact, self.reason, self.id, (), self.also, self.waits)
        return Change(address, self.action, fields, *said)


class AtLeastJson(Json, frozen=True):
    """The least number that ends the wait."""

    at_least: int


class WaitJson(Json, frozen=True):
    """The condition after a call: a GET of `path` until `field` has one of the values, or is large enough."""

    path: str
    field: str
    until: tuple[Any, ...] | AtLeastJson
    timeout_s: int

    @classmethod
    def of(cls, wait: Wait) -> Self:
        least, path = wait.until.at_least, str(wait.read.path)
        until = wait.until.any_of if least is None else AtLeastJson(least)
        return cls(path, wait.until.field, until, wait.timeout_s)


class OwesJson(Json, frozen=True):
    """Work that the call may leave; the answer's boolean at `when` tells."""

    work: str
    when: str

    @classmethod
    def of(cls, owes: Owes) -> Self:
        return cls(owes.work, owes.when)


class StepJson(Json, frozen=True):
    """One call, and the wait after it. Values of secrets and of later answers are placeholders."""

    id: str
    address: AddressText
    method: Annotated[Method, says("A GET sends nothing: the step only waits.")]
    path: Annotated[str, says("`${ADDRESS:FIELD}` stands for what an earlier answer brings.")]
    body: dict[str, Any] | None
    after: Annotated[tuple[str, ...], says("Ids of the steps that must be done before.")]
    service: Annotated[str | None, says("The provider that the call goes to; absent for the platform.")] = (
        None
    )
    for_each: Annotated[str | None, says("One call for each key of this mapping.")] = None
    wait: WaitJson | None = None
    owes: OwesJson | None = None
    if_owed: Annotated[str | None, says("Only sent if this machine still owes a restart.")] = None
    unless_recorded: Annotated[str | None, says("Not sent if this field is recorded already.")] = None
    lane: Annotated[str, says("Steps of one lane run one after another.")] = ""

    @classmethod
    def of(cls, step: Step) -> Self:
        call, guard, owes = step.call, step.guard, step.effect.owes
        return cls(
            step.id,
            str(step.address),
            call.method,
            str(call.path),
            shown(call.body),
            step.after,
            call.service if call.service != PLATFORM else None,
            str(step.for_each.over) if step.for_each is not None else None,
            WaitJson.of(step.wait) if step.wait is not None else None,
            OwesJson.of(owes) if owes is not None else None,
            step.if_owed.machine if step.if_owed else None,
            guard.field if isinstance(guard, UnlessRecorded) else None,
            step.lane,
        )

    def value(self) -> Step:
        call = Call(self.method, self.path, self.body, self.service or PLATFORM)
        return Step(self.id, Address.parse(self.address), call)


class OwedJson(Json, frozen=True):
    """Work that a call left behind. `certainty`: `unknown` where no answer told whether it is owed."""

    address: AddressText
    work: str
    because: str
    certainty: Literal["owed", "unknown"]
    advice: tuple[CommandJson, ...] = ()
    earliest: Annotated[Moment | None, says("When it may be done, where windows or freezes say.")] = None
    forced: Annotated[Moment | None, says("Until when it has to be done: `restart_within`.")] = None

    @classmethod
    def of(cls, owed: Owed) -> Self:
        advice = CommandJson.all_of(owed.advice)
        said = (owed.work, owed.because, owed.certainty, advice)
        return cls(str(owed.address), *said, owed.earliest, owed.forced)

    def value(self) -> Owed:
        address, advice = Address.parse(self.address), values(self.advice)
        return Owed(address, self.work, self.because, self.certainty, advice, self.earliest, self.forced)


class MoveJson(Json, frozen=True, rename={"source": "from", "target": "to"}):
    """A record that gets another address. Nothing is sent."""

    source: str
    target: str
    id: str

    @classmethod
    def of(cls, move: Move) -> Self:
        return cls(str(move.source), str(move.target), move.id)


class ResultJson(Json, frozen=True):
    """The outcome of one step. `error`: also the reason of a step that was skipped."""

    address: AddressText
    step: str
    outcome: OutcomeWord
    id: str | None = None
    error: str = ""
    note: str = ""

    @classmethod
    def of(cls, result: Result) -> Self:
        address, id = str(result.address), result.id or None
        return cls(address, result.step, result.outcome, id, result.error, result.note)

    def value(self) -> Result:
        return Result(Address.parse(self.address), self.step, self.outcome, self.id, self.error, self.note)
