"""Splits a plan into what may be sent without a person and what is proposed, and keeps proposals in files.

A proposal is a saved plan, as `plan --out` writes it. People sign it with `approve`, which puts the approval
beside it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec.structs import replace

from reconciler.core.diagnostics import APPROVAL_NEEDED, GUARDRAIL_UNDECIDED, REFUSED_BY_GUARDRAIL, Severity
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import TO_APPROVE, Action, Address, Change
from reconciler.core.steps import Plan
from reconciler.planning.digest import contents, plan_digest
from reconciler.planning.saved import dump_plan
from reconciler.project.files import write_output

# What a plan says of addresses that people have to be asked about.
_ASKS = frozenset(
    {
        APPROVAL_NEEDED,
        REFUSED_BY_GUARDRAIL,
        GUARDRAIL_UNDECIDED,
        "over-budget",
        "budget-unknown",
        "unprotected-delete",
    }
)
_BY_PEOPLE = (Action.DELETE, Action.FORGET)
_SUFFIX = ".plan.json"


def unattended(plan: Plan, impacts: Collection[str]) -> Plan:
    """The part of `plan` that may be sent or recorded without a person.

    `impacts`: those that the settings allow; where there are none, nothing may be. No delete, no create that
    no list shows, nothing that approvals, guardrails or budgets ask people about, and nothing that waits for
    any of these.
    """
    left = {*_addresses(plan)} if not impacts else set[Address]()
    left |= {change.address for change in plan.changes if not _may(change, impacts)}
    left |= {move.source for move in plan.moves} | {move.target for move in plan.moves}
    asked = {
        name
        for problem in plan.diagnostics
        if problem.code in _ASKS or problem.severity is Severity.ERROR
        for name in problem.addresses
    }
    left |= {address for address in _addresses(plan) if str(address) in asked}
    return _without_waiting(plan, left)


def within(plan: Plan, scope: str, scopes: Mapping[Address, str]) -> Plan:
    """What of `plan` is about `scope`, and waits for no other one. `scopes`: by address."""
    return _without_waiting(plan, {each for each in _addresses(plan) if scopes.get(each, scope) != scope})


def _without_waiting(plan: Plan, left: set[Address]) -> Plan:
    """`plan` without the addresses `left`, and all that waits for them."""
    of_step = {step.id: step.address for step in plan.steps}
    while more := {
        step.address
        for step in plan.steps
        if step.address not in left and any(of_step.get(id) in left for id in step.after)
    }:
        left |= more
    return plan.without(left)


def _may(change: Change, impacts: Collection[str]) -> bool:
    if not change.action.changes_something:
        return True
    asks = change.reason.startswith(TO_APPROVE) or not {*_BY_PEOPLE}.isdisjoint(change.actions)
    return not asks and change.impact.value in impacts


def _addresses(plan: Plan) -> Iterator[Address]:
    yield from (change.address for change in plan.changes)
    yield from (step.address for step in plan.steps)
    yield from (binding.address for binding in plan.bindings)


def rest_of(plan: Plan, sent: Plan) -> Plan:
    """What of `plan` is not in `sent`."""
    done = contents(sent)
    return plan.without([address for address in _addresses(plan) if address in done])


class Proposals:
    """The proposals in one folder: for each scope at most one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, Collection[Path]] = {}  # by proposal, the approvals that were looked at

    def keep(self, scope: str, plan: Plan) -> tuple[Path, bool]:
        """The file of this proposal, and whether it is new. Raises ReconcilerError."""
        plan = replace(plan, diagnostics=())
        file = self.folder / f"{_file_name(scope)}.{plan_digest(plan)[:12]}{_SUFFIX}"
        is_new = not file.exists()
        self.drop(scope, but=file.name)
        if is_new:
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as failure:
                raise ReconcilerError(f"cannot make {self.folder}: {failure.strerror}") from failure
            write_output(file, dump_plan(plan), mode=0o600)
        return file, is_new

    def approvals(self, proposal: Path) -> Sequence[Path]:
        """The approvals of `proposal`, which are looked at now."""
        found = self._known[proposal] = approvals_of(proposal)
        return found

    def news(self) -> set[str]:
        """The scopes whose proposals have other approvals than were looked at."""
        before = self._known
        self._known = {proposal: approvals_of(proposal) for proposal in before if proposal.exists()}
        return {_scope_of(each) for each, known in self._known.items() if before[each] != known}

    def keep_only(self, scopes: Collection[str]) -> None:
        """Remove the proposals of all other scopes: those are gone."""
        for scope in {_scope_of(file) for file in self.folder.glob(f"*{_SUFFIX}")}.difference(scopes):
            self.drop(scope)

    def drop(self, scope: str, but: str = "\0") -> None:
        """Remove the proposals of `scope`, with what was signed for them, but the file `but`."""
        of_scope = re.compile(rf"{re.escape(_file_name(scope))}\.[0-9a-f]{{12}}{re.escape(_SUFFIX)}(\..*)?")
        for file in self.folder.glob(f"*{_SUFFIX}*"):
            if of_scope.fullmatch(file.name) and not file.name.startswith(but):
                with suppress(OSError):  # the next look removes it
                    file.unlink()


def _file_name(scope: str) -> str:
    """The scope of an organization has a slash."""
    return quote(scope, safe="")


def _scope_of(proposal: Path) -> str:
    """The scope of a proposal, by the name of its file."""
    return unquote(proposal.name.rpartition(_SUFFIX)[0].rpartition(".")[0])


def approvals_of(proposal: Path) -> Sequence[Path]:
    """The approvals that stand beside it."""
    return sorted(proposal.parent.glob(f"{proposal.name}.*.approval"))
