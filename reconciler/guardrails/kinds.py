"""The kinds of guardrail files, as other manifests are: a spec, an example, and what types cannot check."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import ClassVar, Literal

from pydantic import Field as Describe

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.spans import SpanText, parse_span
from reconciler.core.words import did_you_mean
from reconciler.guardrails import LEVELS
from reconciler.guardrails.engine import EngineMissing, Mistake, Mistaken, compiled
from reconciler.guardrails.variables import ACTIONS, MEANINGS, types_of
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
    actions: list[Literal[ACTIONS]] = Describe(  # type: ignore[valid-type]
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
                except EngineMissing as missing:
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
    of = f" of a {kind}" if kind else ""
    help = help or f"`reconcile explain Guardrail` lists the variables{of}"
    return error("guardrail-expression", mistake.message, place, label=label, help=help)


class Most(Spec):
    """The largest amounts in one window; at least one. A call whose outcome is unknown counts."""

    deletes: int | None = Describe(None, ge=0, description="Objects deleted.", examples=[1])
    gb_deleted: int | None = Describe(None, ge=0, description="Sizes of deleted objects, in GB.")
    gb_added: int | None = Describe(None, ge=0, description="Sizes of new objects, and growth, in GB.")
    restarts: int | None = Describe(None, ge=0, description="Restarts that an extend left owed.")
    creates: int | None = Describe(None, ge=0, description="Objects created.")
    calls: int | None = Describe(None, ge=0, description="Calls that change something.", examples=[500])
    drills: int | None = Describe(None, ge=0, description="Restore drills; nothing counts as one yet.")


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
    example: ClassVar = {"window": "24h", "most": {"deletes": 1, "gb_deleted": 50, "calls": 500}}

    def check(self, spec: BudgetSpec, span: Locate) -> Iterator[Diagnostic]:
        if "most" in spec.model_fields_set and not spec.most.model_fields_set:
            yield error("missing-field", "a budget limits at least one line", span("spec", "most"))


@cache
def find_guardrails() -> Mapping[str, GuardrailKind]:
    """Every kind of guardrail by name."""
    return {kind.name: kind for kind in (Guardrail(), Budget())}
