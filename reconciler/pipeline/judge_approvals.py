"""Approvals of a saved plan: what its rules ask for, which of the given ones count, and what is missing."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct

from reconciler.approvals.judging import About, in_force, why_dead, why_late
from reconciler.approvals.people import people
from reconciler.approvals.rules import LONGEST, Needed, Safeguard, needed
from reconciler.approvals.statement import APPROVAL, Approval, parse_approval
from reconciler.core.advice import Command, command
from reconciler.core.context import BASE
from reconciler.core.diagnostics import APPROVAL_NEEDED, Diagnostic, error, warning
from reconciler.core.errors import Refused
from reconciler.core.model import Address, Resource
from reconciler.core.plural import counted
from reconciler.core.steps import Plan
from reconciler.pipeline.authority import cut_off
from reconciler.pipeline.files import read_file
from reconciler.pipeline.loosened import loosened
from reconciler.pipeline.project import Project
from reconciler.state.store import State

_SIZES = ("size_gb", "disk_size_gb")


class Given(Struct, frozen=True):
    """What a person gives with a saved plan. `rehearsal`: the digest of the one in the file; "" for none.

    `plan`: the digest of the plan in the file; "" where there is no file.
    """

    approvals: tuple[Approval, ...] = ()
    rehearsal: str = ""
    plan: str = ""


NOTHING = Given()


class Judged(Struct, frozen=True):
    """`problems`: what keeps the plan from running; else what of the given ones did not count."""

    counting: tuple[Approval, ...]
    problems: tuple[Diagnostic, ...]


def read_approvals(files: Sequence[Path]) -> tuple[Approval, ...]:
    """Raises ReconcilerError for a file that holds none."""
    found = {}
    for file in files:
        approval = parse_approval(read_file(file), str(file))
        found[approval.id] = approval  # the same one twice is one
    return tuple(found.values())


async def judge(
    project: Project, plan: Plan, state: State, resources: Mapping[Address, Resource], given: Given
) -> Judged:
    """Which of the given approvals count, and an error for each rule that asks for more of them.

    Raises ReconcilerError where there were rules, and nobody can see them.
    """
    authority = project.authority
    if authority.is_cut_off and any(each.startswith(APPROVAL) for each in state.plans_run):
        raise cut_off("approvals have been used with this state")
    about_ages = any(rule.when.lowers == Safeguard.SNAPSHOT_MAX_AGE_H for rule in authority.rules)
    ages = await to_thread.run_sync(project.ages_before) if about_ages else {}
    weaker, sizes = loosened(ages, resources), _Sizes(plan, state, resources)
    asked = needed(authority.rules, plan, project.environment or BASE, sizes, weaker)
    if not asked and not given.approvals:
        return Judged((), ())
    if authority.signers is None:
        return Judged(
            (), tuple(_nobody(each, authority.unknown) for each in asked) or (_unknown(authority.unknown),)
        )
    environment = project.environment or BASE
    about = About(given.plan, given.rehearsal, environment, state.lineage, state.plans_run)
    now, counting, dead = project.clock.now(), [], []
    for approval in given.approvals:
        arguments = (approval, about, authority.signers, now, project.variables)
        why = await to_thread.run_sync(why_dead, *arguments)
        if why:
            dead.append((approval, why))
        else:
            counting.append(approval)
    agreed = [(each, people(in_force(each.rule, counting, now), [authority.signers.data])) for each in asked]
    unmet = [_unmet(each, by) for each, by in agreed if len(by) < each.rule.people]
    report = error if unmet or not counting else warning
    told = [_dead(report, approval, why) for approval, why in dead]
    return Judged(tuple(counting), (*unmet, *told))


def asked_of(
    project: Project, plan: Plan, state: State, resources: Mapping[Address, Resource]
) -> list[Diagnostic]:
    """What a plan says of the approvals that its apply will ask for, as far as the settings tell."""
    return [_needed(warning, each) for each in needed_by(project, plan, state, resources)]


def needed_by(
    project: Project, plan: Plan, state: State, resources: Mapping[Address, Resource]
) -> Sequence[Needed]:
    """The rules that the apply of `plan` will ask about, as far as the settings tell."""
    sizes = _Sizes(plan, state, resources)
    return needed(project.authority.rules, plan, project.environment or BASE, sizes)


def refuse_spent(approvals: Sequence[Approval], state: State, project: Project) -> None:
    """Raises Refused where another run has used one meanwhile, or its time is over: asked under the lease."""
    now, problems = project.clock.now(), []
    for approval in approvals:
        why = "it was used already: an approval counts once" if approval.id in state.plans_run else ""
        why = why or why_late(approval, LONGEST, now)
        if why:
            problems.append(_dead(error, approval, why))
    if problems:
        raise Refused("an approval does not count any more; nothing was changed", problems)


class _Sizes:
    """The largest size in GB that anything says of an address; None where nothing does."""

    def __init__(self, plan: Plan, state: State, resources: Mapping[Address, Resource]) -> None:
        self._state, self._resources = state, resources
        self._said: dict[Address, list[Any]] = defaultdict(list)
        for change in plan.changes:
            for field in change.fields:
                if field.path in _SIZES:
                    self._said[change.address] += field.before, field.after

    def __call__(self, address: Address) -> float | None:
        said = [*self._said.get(address, ())]
        record, resource = self._state.records.get(address), self._resources.get(address)
        for name in _SIZES:
            said += [record.applied.get(name)] if record is not None else []
            said += [getattr(resource.spec, name, None)] if resource is not None else []
        return max((each for each in said if isinstance(each, int | float)), default=None)


def _unmet(asked: Needed, by: Sequence[Collection[str]]) -> Diagnostic:
    """`by`: the names of each person who approved."""
    whom = f"{len(by)} of {asked.rule.people} people" if by else "nobody"
    several = [" and ".join(f"`{name}`" for name in names) for names in by if len(names) > 1]
    return _needed(
        error, asked, "; ".join([f": {whom} approved it", *(f"{each} are one person" for each in several)])
    )


def _nobody(asked: Needed, why: str) -> Diagnostic:
    return _needed(
        error,
        asked,
        f": nobody is known who may approve: {why}",
        "name the revision before the change with --base REF; ",
    )


def _needed(report: Any, asked: Needed, why: str = "", first: str = "") -> Diagnostic:
    listed = [f"`{each}`" for each in asked.addresses[:3]]
    more = len(asked.addresses) - len(listed)
    what = ", ".join(listed) + (f" and {more} more" if more else "")
    steps = commands()
    people = (
        counted(asked.rule.people, "person")
        if asked.rule.people == 1
        else f"{asked.rule.people} different people"
    )
    typed = "`, `".join(map(str, steps))
    found: Diagnostic = report(
        APPROVAL_NEEDED,
        f"the rule {asked.rule} asks for the approval of {people} for {what}{why}",
        help=f"{first}type `{typed}`",
        advice=steps,
    )
    return found


def commands() -> tuple[Command, ...]:
    return (
        command("plan", "--rehearse", "--out", "FILE"),
        command("approve", "FILE", "--reason", "TEXT"),
        command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval"),
    )


def _unknown(why: str) -> Diagnostic:
    return error(
        "approval-dead",
        f"no approval counts: {why}",
        help="name the revision before the change with --base REF, or set RECONCILE_ALLOWED_SIGNERS",
    )


def _dead(report: Any, approval: Approval, why: str) -> Diagnostic:
    anew = command("approve", "FILE", "--reason", "TEXT")
    found: Diagnostic = report(
        "approval-dead",
        f"the approval {approval.name} of `{approval.statement.principal}` does not count: {why}",
        help=f"if the plan is right, approve it again: `{anew}`",
        advice=(anew,),
    )
    return found
