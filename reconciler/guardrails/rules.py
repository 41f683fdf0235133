"""Judges a plan by guardrails: each change, or each declared resource, that a rule selects."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.advice import Command
from reconciler.core.diagnostics import (
    GUARDRAIL_ADVISED,
    GUARDRAIL_UNDECIDED,
    REFUSED_BY_GUARDRAIL,
    Diagnostic,
    Span,
    error,
    warning,
)
from reconciler.core.model import Action, Address, Change, Resource, StateRecord
from reconciler.core.steps import Plan
from reconciler.guardrails import LEVELS
from reconciler.guardrails.engine import Expression, Undecided, remembered
from reconciler.guardrails.limit import Limit, how_to_sign
from reconciler.guardrails.variables import PlanValues, types_of
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import holds_secrets
from reconciler.manifests.reading.scalars import written


class Finding(Struct, frozen=True):
    """A rule that something does not meet, or that nobody can decide. `values`: what it looked at."""

    limit: Limit
    address: Address
    verdict: Literal["false", "undecided"]
    why: str
    values: Sequence[str] = ()
    span: Span | None = None

    @property
    def level(self) -> str:
        level: str = self.limit.spec.level
        return level

    @property
    def refuses(self) -> bool:
        """Whether nobody's signature lets it pass."""
        return self.level == "mandatory" or (self.verdict == "undecided" and self.level != LEVELS[0])

    @property
    def can_be_signed(self) -> bool:
        """Whether a signature that names the rule lets it pass."""
        return self.level == "overridable" and not self.refuses

    def diagnostic(self, signed: Collection[str], *, asks: bool) -> Diagnostic:
        """What people read. `signed`: what approvals let pass. `asks`: a plan says what an apply asks for."""
        limit, spec = self.limit, self.limit.spec
        is_signed = limit.name in signed
        report = error if self.refuses or (self.can_be_signed and not is_signed and not asks) else warning
        rule = f"`{limit}` ({spec.level}, {limit.place})"
        advice: tuple[Command, ...] = ()
        undecided, advises = self.verdict == "undecided", self.level == LEVELS[0]
        code = GUARDRAIL_UNDECIDED if undecided else REFUSED_BY_GUARDRAIL
        code = GUARDRAIL_ADVISED if advises else code
        if undecided:
            message = f"{rule} cannot be evaluated: {self.why}"
            help = "what is not known is not allowed: change the rule in a change of its own, or the manifest"
        else:
            message = f"{self.why}: {rule} is not met"
            help = "change the manifest, or the rule in a change of its own"
        if self.can_be_signed:
            help, advice = how_to_sign(limit.name, signed=is_signed)
        return report(
            code,
            f"`{self.address}`: {message}",
            self.span,
            notes=(f"it requires {spec.require}", *self.values),
            help=help,
            advice=advice,
            about=(self.address,),
        )


class Judgement(Struct, frozen=True):
    """`matched`: the rules that selected anything."""

    findings: Sequence[Finding]
    matched: frozenset[Limit]


def judge_rules(
    limits: Sequence[Limit],
    plan: Plan,
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    unrecorded: Collection[str] = (),
) -> Judgement:
    """All rules of `limits` over what `plan` does, and over `resources`. `unrecorded`: see `PlanValues`."""
    rules = [_Rule(limit) for limit in limits if limit.kind == "Guardrail"]
    values = PlanValues(plan, resources, records, unrecorded)
    found: list[Finding] = []
    of_changes = [rule for rule in rules if not rule.of_resources]
    by_filter: dict[tuple[str, tuple[Action, ...]], Sequence[_Rule]] = {}
    for change in plan.changes if of_changes else ():
        about = change.address.kind, change.actions
        if about not in by_filter:  # of thousands of changes, few differ in what filters ask
            by_filter[about] = [rule for rule in of_changes if rule.selects(*about)]
        if selecting := by_filter[about]:
            value_of = values.of_change(change)  # reads each value once for all rules
            for rule in selecting:
                found += rule.judge(change.address, value_of, partial(_span_of, change, resources))
    for rule in rules:
        for resource in resources.values() if rule.of_resources else ():
            if not rule.kinds or resource.address.kind in rule.kinds:
                name = partial(resource.span, "metadata", "name")
                found += rule.judge(resource.address, values.of_resource(resource), name)
    return Judgement(found, frozenset(rule.limit for rule in rules if rule.matched))


class _Rule:
    """One rule, compiled for each kind when it first meets one."""

    def __init__(self, limit: Limit) -> None:
        self.limit, self._spec = limit, limit.spec
        self.of_resources = self._spec.judges == "resources"
        self.kinds, self._actions = frozenset(self._spec.kinds), frozenset(self._spec.actions)
        self.matched = False
        self._compiled: dict[str, tuple[Expression | None, Expression]] = {}
        self._judged_once = False

    def selects(self, kind: str, actions: Sequence[Action]) -> bool:
        """Whether the filters select a change of an object of `kind`."""
        if self.kinds and kind not in self.kinds:
            return False
        if self._actions:
            return any(action.value in self._actions for action in actions)
        return actions[0].changes_something

    def judge(
        self, address: Address, value_of: Callable[[str], Any], place: Callable[[], Span | None]
    ) -> Iterator[Finding]:
        """The finding about one thing, if there is any."""
        when, require = self._expressions(address.kind)
        if when is None and require.of_plan:
            if self._judged_once:
                return  # a condition on the plan as a whole has one answer
            self._judged_once = True
        applies = when(value_of) if when is not None else True
        if applies is False:
            return
        self.matched = True
        expression = require if applies is True else when
        answer = require(value_of) if applies is True else applies
        if answer is True:
            return
        assert expression is not None
        kind = find_kinds().get(address.kind)
        span = place() if kind is not None and not holds_secrets(kind) else None
        shown = tuple(_shown(expression, value_of)) if span is not None else ()
        if isinstance(answer, Undecided):
            yield Finding(self.limit, address, "undecided", answer.why, shown, span)
        else:
            yield Finding(self.limit, address, "false", self._spec.message, shown, span)

    def _expressions(self, kind: str) -> tuple[Expression | None, Expression]:
        typed = kind if self.kinds else ""
        if typed not in self._compiled:
            types = types_of(typed, resources=self.of_resources)
            when = remembered(self._spec.when, types) if self._spec.when is not None else None
            self._compiled[typed] = when, remembered(self._spec.require, types)
        return self._compiled[typed]


def _shown(expression: Expression, value_of: Callable[[str], Any]) -> Iterator[str]:
    """The values of the variables that the expression names, as `name = value`."""
    for name in expression.names:
        try:
            value = value_of(name)
        except KeyError:
            continue
        if value is None or isinstance(value, bool | int | float | str):
            yield f"{name} = {'null' if value is None else written(value)}"


def _span_of(change: Change, resources: Mapping[Address, Resource]) -> Span | None:
    """Where the manifest says what changes."""
    resource = resources.get(change.address)
    if resource is None:
        return None
    first = change.fields[0].path.split(".") if change.fields else ()
    return resource.span("spec", *first) if first else resource.span("metadata", "name")
