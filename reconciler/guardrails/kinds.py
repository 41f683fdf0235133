"""The kinds of guardrail files, as other manifests are: a spec, an example, and what types cannot check."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator
from pydantic import Field as Describe

from reconciler.core.cron import checked_cron, checked_zone
from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.errors import ExtraMissing
from reconciler.core.model import ACTIONS, IMPACTS
from reconciler.core.spans import SpanText, parse_span
from reconciler.core.words import did_you_mean
from reconciler.guardrails import LEVELS
from reconciler.guardrails.engine import Mistake, Mistaken, compiled
from reconciler.guardrails.variables import MEANINGS, types_of
from reconciler.kinds import find_kinds
from reconciler.kinds.manifest import Locate, ManifestKind, Spec


class GuardrailKind(ManifestKind):
    """A kind that guardrail files hold."""

    in_app = False


class GuardrailSpec(Spec):
    """A condition that changes, or declared resources, must meet. It is judged before the first call."""

    level: Literal["mandatory", "overridable", "advisory"] = Describe(
        "mandatory",
        description="mandatory: refuses. overridable: refuses, unless people sign `approve --override NAME`. "
        "advisory: warns.",
    )
    judges: Literal["changes", "resources"] = Describe(
        "changes",
        description="changes: what the plan does. resources: every declared resource, changed or not; "
        "`drift` judges them, too.",
    )
    kinds: list[str] = Describe(
        [],
        description="Only of these kinds; they give `before`, `after` and `spec` their types.",
        examples=[["Volume"]],
    )
    actions: list[Literal[ACTIONS]] = Describe(  # type: ignore[valid-type]  # words of a tuple
        [], description="Only changes with one of these actions.", examples=[["extend"]]
    )
    when: str | None = Describe(
        None, min_length=1, description="Only where this is true, in CEL.", examples=['change.app != "lab"']
    )
    require: str = Describe(
        min_length=1, description="What must be true, in CEL.", examples=["change.after.size_gb <= 500"]
    )
    message: str = Describe(min_length=1, description="What people read where it is not.")

    @property
    def judged_kinds(self) -> tuple[str, ...]:
        """The kinds whose fields the expressions may name; "" for none."""
        return tuple(self.kinds) or ("",)

    def covers(self, other: "GuardrailSpec") -> bool:
        """Whether this one refuses all that `other` refuses."""
        same = (self.judges, self.when, self.require) == (other.judges, other.when, other.require)
        wide = (not self.kinds or {*self.kinds} >= {*other.kinds} != set()) and (
            not self.actions or {*self.actions} >= {*other.actions} != set()
        )
        return same and wide and LEVELS.index(self.level) >= LEVELS.index(other.level)


class Guardrail(GuardrailKind):
    """Rules over a plan."""

    name = "Guardrail"
    Spec = GuardrailSpec
    variables = MEANINGS
    example: ClassVar = {
        "kinds": ["Volume"],
        "actions": ["extend"],
        "require": "change.after.size_gb <= 2 * change.before.size_gb",
        "message": "at most double",
    }

    def check(self, spec: GuardrailSpec, span: Locate) -> Iterator[Diagnostic]:
        known = find_kinds()
        for index, name in enumerate(spec.kinds):
            if name not in known:
                help = did_you_mean(name, list(known)) or f"kinds are {', '.join(known)}"
                yield error(
                    "not-allowed", f"there is no kind `{name}`", span("spec", "kinds", index), help=help
                )
        if spec.actions and spec.judges == "resources":
            message = "`actions` are of changes, and this judges resources"
            yield error("not-allowed", message, span("spec", "actions"), help="remove `actions`")
        if any(name not in known for name in spec.kinds):
            return
        for field in ("when", "require"):
            text = getattr(spec, field)
            if text is None or field not in spec.model_fields_set:
                continue
            for kind in spec.judged_kinds:
                types = types_of(kind, resources=spec.judges == "resources")
                try:
                    compiled(text, types)
                except ExtraMissing as missing:
                    yield error(
                        "policy-engine-missing", missing.message, span("spec", field), help=missing.help
                    )
                    return
                except Mistaken as mistaken:
                    place = span("spec", field)
                    yield from (_explain(item, text, place, kind, types) for item in mistaken.mistakes)
                    break


def _explain(
    mistake: Mistake, text: str, place: Span | None, kind: str, types: Mapping[str, str]
) -> Diagnostic:
    """The problem at its place inside the expression; at its beginning where the file writes it in lines."""
    label, line = "", text.split("\n")[mistake.line - 1] if text else ""
    if place is not None and "\n" not in text and place.width in (len(text), len(text) + 2):
        begin = place.column + (place.width - len(text)) // 2 + mistake.column - 1
        place = place._replace(column=begin, end_column=begin + 1)
    else:
        label = f"line {mistake.line}, column {mistake.column} of the expression: {line.strip()}"
    help = ""
    if "undeclared reference" in mistake.message:
        name = mistake.message.partition("'")[2].partition("'")[0]
        help = did_you_mean(name, list(types))
        if not kind and name.partition(".")[2].partition(".")[0] in ("before", "after", "spec"):
            help = "name the `kinds` that this is about: they give fields their types"
    of = f" of the kind {kind}" if kind else ""
    help = help or f"`reconcile explain Guardrail` lists the variables{of}"
    return error("guardrail-expression", mistake.message, place, label=label, help=help)


class WindowSpec(Spec):
    """When changes of these impacts may be sent. An impact that no window names may be sent at any time.

    Of several windows for one impact, one has to be open.
    """

    impacts: list[Literal[IMPACTS]] = Describe(  # type: ignore[valid-type]  # words of a tuple
        min_length=1, description="The impacts, as a plan shows them.", examples=[["restart", "downtime"]]
    )
    opens: Annotated[str, AfterValidator(checked_cron)] = Describe(
        description="When it opens, in cron's five fields.", examples=["0 22 * * 1-5", "30 3 1 * *"]
    )
    lasts: SpanText = Describe(
        alias="for", description="How long it stays open, in elapsed time.", examples=["6h"]
    )
    timezone: Annotated[str, AfterValidator(checked_zone)] = Describe(
        description="The zone of `opens`, by its IANA name.", examples=["Europe/Berlin"]
    )

    def opens_within(self, other: "WindowSpec", *impacts: str) -> bool:
        """Whether it is open only when `other` is, which is for these impacts."""
        times = (self.opens.split(), self.timezone) == (other.opens.split(), other.timezone)
        return times and parse_span(self.lasts) <= parse_span(other.lasts) and {*impacts} <= {*other.impacts}

    def covers(self, other: "WindowSpec") -> bool:
        """Whether this one alone holds back all that `other` alone holds back."""
        return {*self.impacts} >= {*other.impacts} and self.opens_within(other)


class Window(GuardrailKind):
    """When interruptions may happen."""

    name = "Window"
    Spec = WindowSpec
    example: ClassVar = {
        "impacts": ["restart", "downtime", "repoint", "data_loss"],
        "opens": "0 22 * * 1-5",
        "for": "6h",
        "timezone": "Europe/Berlin",
    }


def _checked_time(text: str) -> str:
    """`text`, if it is a moment. Raises ValueError."""
    try:
        if datetime.fromisoformat(text).tzinfo is not None:
            return text
    except ValueError:
        pass
    raise ValueError("expected a time with an offset, such as 2026-11-26T00:00Z or 2026-11-26T00:00+01:00")


_Time = Annotated[str, AfterValidator(_checked_time)]


class FreezeSpec(Spec):
    """A time in which nothing is changed, whatever windows say."""

    since: _Time = Describe(
        alias="from", description="The time at which it begins.", examples=["2026-11-26T00:00Z"]
    )
    until: _Time = Describe(description="Its end: then, changes go out.", examples=["2026-11-30T12:00Z"])
    exempt: list[Literal[ACTIONS]] = Describe(  # type: ignore[valid-type]  # words of a tuple
        [], alias="except", description="Changes that do nothing else go on.", examples=[["snapshot"]]
    )
    reason: str = Describe(min_length=1, description="Why nothing may change.", examples=["sale"])

    @property
    def begins(self) -> datetime:
        return datetime.fromisoformat(self.since)

    @property
    def ends(self) -> datetime:
        return datetime.fromisoformat(self.until)

    def covers(self, other: "FreezeSpec") -> bool:
        """Whether this one holds back all that `other` holds back."""
        span = self.begins <= other.begins and self.ends >= other.ends
        return span and {*self.exempt} <= {*other.exempt}


class Freeze(GuardrailKind):
    """A time without changes."""

    name = "Freeze"
    Spec = FreezeSpec
    example: ClassVar = {
        "from": "2026-11-26T00:00Z",
        "until": "2026-11-30T12:00Z",
        "except": ["snapshot"],
        "reason": "sale",
    }

    def check(self, spec: FreezeSpec, span: Locate) -> Iterator[Diagnostic]:
        if spec.model_fields_set >= {"since", "until"} and spec.ends <= spec.begins:
            yield error("not-allowed", "it ends before it begins", span("spec", "until"))


class Most(Spec):
    """The largest amounts in one window; at least one. A call whose outcome is unknown counts."""

    deletes: int | None = Describe(None, ge=0, description="Objects deleted.", examples=[1])
    gb_deleted: int | None = Describe(None, ge=0, description="Sizes of deleted objects, in GB.")
    gb_added: int | None = Describe(None, ge=0, description="Sizes of new objects, and growth, in GB.")
    restarts: int | None = Describe(None, ge=0, description="Restarts that an extend left owed.")
    creates: int | None = Describe(None, ge=0, description="Objects created.")
    calls: int | None = Describe(None, ge=0, description="Calls that change something.", examples=[500])
    drills: int | None = Describe(None, ge=0, description="Restores of drills.")


class BudgetSpec(Spec):
    """The most that all runs on one state may do together in any window of time."""

    window: SpanText = Describe(description="Any span of this length, such as 24h; at most 30d.")
    environment: str | None = Describe(None, min_length=1, description="Only in this environment.")
    most: Most = Describe(description="How much, by line.", examples=[{"deletes": 1, "gb_deleted": 50}])

    @property
    def lasts(self) -> timedelta:
        """The length of the window."""
        return parse_span(self.window)

    @property
    def lines(self) -> Mapping[str, int]:
        """What is limited, and to how much."""
        return self.most.model_dump(exclude_none=True)

    def covers(self, other: "BudgetSpec") -> bool:
        """Whether this one refuses all that `other` refuses."""
        lines = self.lines
        less = all(name in lines and lines[name] <= most for name, most in other.lines.items())
        return less and self.lasts >= other.lasts and self.environment in (None, other.environment)


class Budget(GuardrailKind):
    """How much may be done over time."""

    name = "Budget"
    Spec = BudgetSpec
    example: ClassVar = {
        "window": "24h",
        "environment": "prod",
        "most": {
            "deletes": 1,
            "gb_deleted": 50,
            "gb_added": 500,
            "restarts": 3,
            "creates": 20,
            "calls": 500,
            "drills": 4,
        },
    }

    def check(self, spec: BudgetSpec, span: Locate) -> Iterator[Diagnostic]:
        if "most" in spec.model_fields_set and not spec.most.model_fields_set:
            yield error("missing-field", "a budget limits at least one line", span("spec", "most"))


@cache
def find_guardrails() -> Mapping[str, GuardrailKind]:
    """Every kind of guardrail by name."""
    return {kind.name: kind for kind in (Budget(), Freeze(), Guardrail(), Window())}
