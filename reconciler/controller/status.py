"""What a look at the platform says of each scope. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.diagnostics import (
    FOUND_BY_DRIFT,
    IN_FLIGHT,
    OF_DRILLS,
    OWED_OVERDUE,
    UNKNOWN_OUTCOME,
    Diagnostic,
    Severity,
)
from reconciler.core.errors import Diagnosed, Locked, ReconcilerError
from reconciler.core.model import Address, Change, Owed, Resource
from reconciler.core.steps import Plan
from reconciler.core.words import counted
from reconciler.drift.find import Drift
from reconciler.drills.results import Result
from reconciler.execution.open_intents import parse_intent
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import Look as Fill
from reconciler.project.scopes import recorded_bindings
from reconciler.state.store import State

T = TypeVar("T")


class Status(StrEnum):
    """The state of one scope. The first that applies, in this order, is the one that is told."""

    SUSPENDED = "suspended"  # a person said so
    APPLYING = "applying"  # this controller sends calls
    LOCKED = "locked"  # somebody else does
    QUESTION = "question"  # a person must settle a call whose outcome is unknown
    UNKNOWN = "unknown"  # not all could be read, so that nothing is said
    DRIFTED = "drifted"
    PROPOSED = "proposed"  # a plan waits for approvals
    CHANGES = "changes"
    OWED = "owed"
    IN_SYNC = "in-sync"


class ScopeStatus(Struct, frozen=True):
    """`since`: when it got this status. `last_success`: the last look that could tell; None for none yet."""

    scope: str
    status: Status
    since: datetime
    last_success: datetime | None = None
    reason: str = ""

    def after(self, seen: "Seen", now: datetime) -> "ScopeStatus":
        """The status once a look has `seen` the scope. No time is after `now`: clocks are set back, too."""
        return replace(
            self,
            status=seen.status,
            since=min(self.since, now) if seen.status is self.status else now,
            last_success=now if seen.success else self.last_success and min(self.last_success, now),
            reason=seen.reason,
        )


class Seen(Struct, frozen=True):
    """What one look says of one scope. `acts`: whether an apply would do or settle anything there.

    `owed`: how many restarts are owed, the oldest since `owed_since`. `questions`: how many are open.
    `due`: when objectives will be missed if nothing is done, by address and name. `proven`: the last good
    drill, and `fills`: how full the objects are, both by address.
    """

    status: Status
    reason: str = ""
    acts: bool = False
    owed: int = 0
    owed_since: datetime | None = None
    questions: int = 0
    due: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    proven: Mapping[str, Result] = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """Whether the look could tell."""
        return self.status not in (Status.UNKNOWN, Status.LOCKED, Status.SUSPENDED)


class View(Struct, frozen=True):
    """A controller at one moment. `seen`: the last look at each scope; `applied`: when calls of it ended.

    `calls`: how many there were since the process began, by outcome. `once`: it is one run, which does
    not know since when a scope has its status. `waited_s`: seconds of waiting for the platform's rate limit.
    """

    environment: str
    statuses: Mapping[str, ScopeStatus]
    seen: Mapping[str, Seen] = field(default_factory=dict)
    applied: Mapping[str, datetime] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    waited_s: float = 0.0
    once: bool = False


def scopes_of(state: State, resources: Iterable[Resource]) -> Mapping[Address, str]:
    """The scope of each address that is recorded, declared, or about to be made."""
    kinds = find_kinds()
    found = {each.address: kinds[each.address.kind].scope(each.spec, each.address) for each in resources}
    for opened in state.open_intents:
        if opened.address is not None:
            found[opened.address] = parse_intent(opened).scope
    return found | {record.address: record.scope for record in state.records.values()}


class Look(Struct, frozen=True):
    """One look: the drift, the plan, the manifests and the state that both are about.

    `scopes`: by address. `held`: the scopes in which somebody is at work.
    """

    drift: Drift
    plan: Plan
    state: State
    resources: Mapping[Address, Resource]
    scopes: Mapping[Address, str]
    held: Mapping[str, Locked]

    def seen(self, looked_at: Collection[str]) -> Mapping[str, Seen]:
        """What it says of each of the scopes `looked_at`."""
        of_drift = self._problems(self.drift.plan, looked_at)
        of_plan = self._problems(self.plan, looked_at)
        acts = {parse_intent(opened).scope for opened in self.state.open_intents}
        acts |= {binding.scope for binding in recorded_bindings(self.plan, self.resources)}  # without a call
        drifted = self._by_scope((change.address, change) for change in self.drift.plan.changes)
        changed = self._by_scope(
            (change.address, change) for change in self.plan.changes if change.action.changes_something
        )
        stepped = self._by_scope((step.address, step) for step in self.plan.steps)
        owed = self._by_scope((owed.address, owed) for owed in self.plan.owed)
        due = self._by_scope(
            (address, ((str(address), name), at)) for (address, name), at in self.drift.due.items()
        )
        proven = self._by_scope(
            (proof.of, (str(proof.of), proof.good)) for proof in self.drift.proofs if proof.good is not None
        )
        fills = self._by_scope((address, (str(address), fill)) for address, fill in self.drift.fills.items())
        return {
            scope: replace(
                _seen(
                    of_drift[scope],
                    of_plan[scope],
                    self.held.get(scope),
                    drifted.get(scope, ()),
                    changed.get(scope, ()),
                    owed.get(scope, ()),
                ),
                acts=scope in changed or scope in stepped or scope in acts,
                owed=len(owed.get(scope, ())),
                owed_since=min(self._owed_since(owed.get(scope, ())), default=None),
                questions=_questions(of_drift[scope] + of_plan[scope]),
                due=dict(due.get(scope, ())),
                proven=dict(proven.get(scope, ())),
                fills=dict(fills.get(scope, ())),
            )
            for scope in looked_at
        }

    def _owed_since(self, owed: Iterable[Owed]) -> Iterator[datetime]:
        records = self.state.records
        for each in owed:
            if each.address in records:
                yield from (duty.since for duty in records[each.address].obligations)

    def _problems(self, plan: Plan, looked_at: Collection[str]) -> Mapping[str, list[Diagnostic]]:
        """By scope, the problems that affect it: where one names no address that is known, it affects all."""
        by_text = {str(address): scope for address, scope in self.scopes.items()}
        found: dict[str, list[Diagnostic]] = {scope: [] for scope in looked_at}
        for problem in plan.diagnostics:
            named = {by_text[address] for address in problem.addresses if address in by_text}
            if named or problem.code != IN_FLIGHT:  # else the scope has a holder, which tells as much
                for scope in (named or {*looked_at}).intersection(looked_at):
                    found[scope].append(problem)
        return found

    def _by_scope(self, items: Iterable[tuple[Address, T]]) -> Mapping[str, list[T]]:
        found: dict[str, list[T]] = {}
        for address, item in items:
            found.setdefault(self.scopes.get(address, ""), []).append(item)
        return found


_NEW = frozenset({"nothing-recorded"})  # of a project that begins
_SEEN = FOUND_BY_DRIFT | _NEW
_UNREAD = frozenset({"unreadable", "platform-down", "state-missing", "many-missing"})


def _questions(problems: Iterable[Diagnostic]) -> int:
    """How many are open: one for each object, whether the drift, the plan or both name it."""
    return len({problem.addresses for problem in problems if problem.code == UNKNOWN_OUTCOME})


def _seen(
    drift: list[Diagnostic],
    plan: list[Diagnostic],
    held: Locked | None,
    drifted: Collection[Change],
    changed: Collection[Change],
    owed: Collection[Owed],
) -> Seen:
    """The first status that applies to a scope, of which all this is."""
    both = drift + plan
    if held is not None:
        return Seen(Status.LOCKED, f"{held.holder} is at work{held.doubt}")
    if (found := _first(both, {IN_FLIGHT})) is not None:
        return Seen(Status.LOCKED, found.message)
    if (found := _first(both, {UNKNOWN_OUTCOME})) is not None:
        return Seen(Status.QUESTION, found.message)
    unread = [problem for problem in drift if problem.code not in _SEEN]
    unread += [problem for problem in plan if problem.code in _UNREAD or not problem.addresses]
    if (found := next(_errors(unread), None)) is not None:
        return Seen(Status.UNKNOWN, in_a_line(found))
    if drifted:
        return Seen(Status.DRIFTED, _told(drifted))
    if (found := _first(drift, OF_DRILLS)) is not None:
        return Seen(Status.DRIFTED, in_a_line(found))
    if (found := _first(drift, {OWED_OVERDUE})) is not None:
        return Seen(Status.OWED, found.message)
    refused = next(_errors(problem for problem in both if problem.code not in _NEW), None)
    if changed or refused is not None:
        told = in_a_line(refused) if refused is not None else _told(changed)
        return Seen(Status.CHANGES, told)
    if owed:
        dates = ((each.address, f" by {in_words(each.forced)}" if each.forced else "") for each in owed)
        return Seen(Status.OWED, _named(f"{address}{until}" for address, until in dates))
    return Seen(Status.IN_SYNC)


def in_a_line(problem: Diagnostic) -> str:
    return f"{problem.code}: {problem.message}"


def reason_of(failure: ReconcilerError) -> str:
    """The first problem of a failure in one line."""
    first = next(iter(failure.diagnostics), None) if isinstance(failure, Diagnosed) else None
    return in_a_line(first) if first is not None else failure.message


def in_words(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _first(problems: Iterable[Diagnostic], codes: Collection[str]) -> Diagnostic | None:
    return next((problem for problem in problems if problem.code in codes), None)


def _errors(problems: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    return (problem for problem in problems if problem.severity is Severity.ERROR)


_MOST_NAMED = 3


def _told(changes: Iterable[Change]) -> str:
    """The first objects, with the fields that differ."""
    fields = ((change.address, ", ".join(field.path for field in change.fields)) for change in changes)
    return _named(f"{address} ({differ})" if differ else str(address) for address, differ in fields)


def _named(items: Iterable[str]) -> str:
    """The first items in one line."""
    distinct = sorted(dict.fromkeys(items))
    more = len(distinct) - _MOST_NAMED
    return ", ".join(distinct[:_MOST_NAMED]) + (f" and {counted(more, 'other')}" if more > 0 else "")
