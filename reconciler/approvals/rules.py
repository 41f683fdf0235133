"""The section `approvals` of the settings: rules about changes that need somebody's approval.

A rule names a change by its action, its impact, a safeguard that it lowers, a size or an environment, and how
many different people have to approve it. Rules are compared with each other (`Rule.covers`), so that a change
of the settings cannot quietly take one away.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, model_validator

from reconciler.core.model import ACTIONS, IMPACTS, Action, Address, Change, FieldChange
from reconciler.core.spans import SpanText, parse_span
from reconciler.core.steps import Plan
from reconciler.guardrails.limit import Limit
from reconciler.kinds.source import VARIABLE

NAME = r"^[a-z0-9][a-z0-9-]{0,62}$"  # of an environment
# A file of the project, written plainly: it is read from a git revision, too.
FILE = r"^\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
APPROVALS = "approvals"  # under this name the state remembers what the last apply went by
_HARMS = IMPACTS[1:]  # all but "online"
MAX_AGE = "snapshot_max_age_h"  # more of it means less protection; of the other safeguards, less does


class _Section(BaseModel):
    """The base of the models: strict, without unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class When(_Section):
    """True of a change of which everything that is written here is true."""

    action: Literal[ACTIONS] | None = None  # type: ignore[valid-type]  # words of a tuple
    impact: Literal[_HARMS] | None = Field(  # type: ignore[valid-type]  # likewise
        None, description="This impact, or a graver one."
    )
    lowers: Literal["snapshot_retention", "auto_backup_enabled", "snapshot_max_age_h"] | None = None
    more_than_gb: int | None = Field(None, ge=0, description="Of larger objects only, or of unknown size.")
    environment: str | None = Field(None, pattern=NAME)
    agent: str | None = Field(None, pattern=VARIABLE, description="In runs in which this variable is set.")

    @model_validator(mode="after")
    def _some(self) -> "When":
        """Refuse a rule that would match everything."""
        if not self.model_fields_set:
            raise ValueError(
                "say at least one of action, impact, lowers, more_than_gb, environment and agent"
            )
        return self

    def __str__(self) -> str:
        said = {name: getattr(self, name) for name in type(self).model_fields}
        return ", ".join(f"{name}: {value}" for name, value in said.items() if value is not None)


class Rule(_Section):
    """A rule: so many different people have to approve each change that `when` is true of."""

    when: When
    people: int = Field(1, alias="from", ge=1, le=20, description="So many different people.")
    valid: SpanText = Field("24h", description="How long an approval counts after it was given.")

    @property
    def lasts(self) -> timedelta:
        """The time that an approval counts for this rule."""
        return parse_span(self.valid)

    def covers(self, other: object) -> bool:
        """Whether this one asks for at least as much, wherever `other` asks for anything."""
        if not isinstance(other, Rule):
            return False
        mine, its = (rule.when.model_dump(exclude_none=True) for rule in (self, other))
        least, its_least = (when.pop("more_than_gb", -1) for when in (mine, its))
        wide = mine.items() <= its.items() and least <= its_least and self.when.lowers == other.when.lowers
        return wide and self.people >= other.people and self.lasts <= other.lasts

    def to_json(self) -> Mapping[str, Any]:
        """What the state remembers."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def terms(self) -> str:
        return f"from: {self.people}, valid: {self.valid}"

    @property
    def described(self) -> str:
        """It, as a sentence names it."""
        return f"the rule {self}"

    def __str__(self) -> str:
        return f"{{{self.when}}}"


class ApprovalSettings(_Section):
    """The whole section."""

    signers: str = Field("allowed_signers", pattern=FILE, description="File of those who may approve.")
    rules: list[Rule] = []


PATTERN = r"^\.?[A-Za-z0-9_*][A-Za-z0-9_.*-]*(/[A-Za-z0-9_*][A-Za-z0-9_.*-]*)*$"
GUARDRAILS = ["guardrails/*.yaml"]


class Guarded(_Section):
    """Which files hold guardrails: a section of the settings, so that owners can be named for a folder."""

    guardrails: list[Annotated[str, Field(pattern=PATTERN)]] = GUARDRAILS


class AgentSettings(_Section):
    """The section `agents`: in which runs a program acts, and not a person."""

    variables: list[Annotated[str, Field(pattern=VARIABLE)]] = Field(
        [], description="Environment variables that such a run has set, such as CLAUDECODE."
    )

    @property
    def rules(self) -> Sequence[Rule]:
        """For each variable, the rule that a person approves whatever such a run does."""
        return [Rule(when=When(agent=name)) for name in self.variables]


class Signers(Struct, frozen=True):
    """`text`: in the format of ssh's allowed_signers; "" for a file that is not there. `where`: in words."""

    text: str
    where: str


class Said(Struct, frozen=True):
    """Rules, and the signers of each revision that gave some: only who is in all of these files may sign."""

    rules: tuple[Rule | Limit, ...] = ()
    signers: tuple[Signers, ...] = ()

    @property
    def approvals(self) -> Sequence[Rule]:
        """The rules that ask for approvals."""
        return [rule for rule in self.rules if isinstance(rule, Rule)]

    @property
    def limits(self) -> Sequence[Limit]:
        """The guardrails."""
        return [rule for rule in self.rules if isinstance(rule, Limit)]

    @classmethod
    def of(cls, *several: "Said") -> "Said":
        """All of them together."""
        rules = dict.fromkeys(rule for said in several for rule in said.rules)
        signers = {file.text: file for said in several for file in said.signers}
        return cls(tuple(rules), tuple(signers.values()))


class Authority(Struct, frozen=True):
    """`now`: what the revision that is checked out says. `before`: what was said before the change, if
    anybody knows. `outside`: the only signers that count, where the runner names a file of them.
    `variables`: the names of those that are set in this run, by which rules find agents.
    """

    now: Said = Said()
    before: Said = Said()
    outside: Signers | None = None
    variables: frozenset[str] = frozenset()


NO_RULES = Authority()


class Needed(Struct, frozen=True):
    """A rule, and what it matches."""

    rule: Rule
    addresses: tuple[Address, ...]


def needed(
    rules: Iterable[Rule],
    plan: Plan,
    environment: str,
    size_gb: Callable[[Address], float | None],
    variables: frozenset[str] = frozenset(),
) -> Sequence[Needed]:
    """The rules that match anything that `plan` does. `size_gb`: of what there is; None: nobody knows.

    `variables`: as of `Authority`.
    """
    found, deletes = [], frozenset(plan.deletes)
    changes: dict[Address, list[Change]] = defaultdict(list)
    for change in plan.changes:
        changes[change.address].append(change)

    def matches(rule: Rule, address: Address) -> bool:
        """Whether `rule` is true of the changes of `address`, and of its size."""
        return _matches(rule.when, changes.get(address, ()), deleted=address in deletes) and _is_large(
            rule.when, size_gb, address
        )

    for rule in dict.fromkeys(rules):
        if rule.when.environment not in (None, environment) or rule.when.agent not in {None, *variables}:
            continue
        loosens = rule.when.lowers == MAX_AGE
        about = (weakened.address for weakened in plan.loosened) if loosens else touched(plan)
        matched = dict.fromkeys(address for address in about if matches(rule, address))
        if matched:
            found.append(Needed(rule, tuple(matched)))
    return found


def touched(plan: Plan) -> Iterable[Address]:
    """The addresses that `plan` acts on, by a change or by a call for them."""
    for change in plan.changes:
        if any(action.changes_something for action in change.actions):
            yield change.address
    yield from (step.address for step in plan.steps if step.mutates)


def _matches(when: When, changes: Sequence[Change], *, deleted: bool) -> bool:
    """Whether `when` is true of an address.

    `changes`: all of that address. `deleted`: whether a call of the plan deletes its object.
    """
    if when.action is not None and not (
        any(Action(when.action) in change.actions for change in changes)
        or (when.action == Action.DELETE and deleted)
    ):
        return False
    if when.impact is not None:
        least = IMPACTS.index(when.impact)
        if not any(IMPACTS.index(change.impact) >= least for change in changes):
            return False
    if when.lowers not in (None, MAX_AGE):
        fields = [field for change in changes for field in change.fields]
        if not any(field.path == when.lowers and _is_lowered(field) for field in fields):
            return False
    return True


def _is_large(when: When, size_gb: Callable[[Address], float | None], address: Address) -> bool:
    """Whether the object is larger than `when` says. One of unknown size may be."""
    if when.more_than_gb is None:
        return True
    size = size_gb(address)
    return size is None or size > when.more_than_gb


def _is_lowered(field: FieldChange) -> bool:
    """True unless the new value is at least the old one. A new value that is not a number is lowered."""
    before, after = field.before, field.after
    if not isinstance(before, int | float):
        return False  # there was none before
    return not isinstance(after, int | float) or after < before
