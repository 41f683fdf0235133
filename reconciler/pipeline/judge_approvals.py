"""Approvals of a saved plan: what its rules ask for, which of the given ones count, and what is missing."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct

from reconciler.approvals.judging import About, in_force, why_dead
from reconciler.approvals.people import people
from reconciler.approvals.rules import Authority, Needed, needed
from reconciler.approvals.statement import Approval, parse_approval
from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.diagnostics import APPROVAL_NEEDED, Diagnostic, error, warning
from reconciler.core.model import Address, Resource
from reconciler.core.plural import counted
from reconciler.core.steps import Plan
from reconciler.pipeline.files import read_file
from reconciler.pipeline.in_force import InForce, Terms
from reconciler.pipeline.project import Project
from reconciler.state.store import State

_SIZES = ("size_gb", "disk_size_gb")
_STEPS = (
    command("plan", "--rehearse", "--out", "FILE"),
    command("approve", "FILE", "--reason", "TEXT"),
    command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval"),
)


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
    """Which of the given approvals count, and an error for each rule that asks for more of them."""
    found, asked = _asked(project.authority, plan, state, resources)
    if not asked and not given.approvals:
        return Judged((), tuple(found.told()))
    signers = found.said.signers
    if unnamed := [each.where for each in signers if not each.text]:
        why = f"{unnamed[0]} names nobody"
        return Judged((), tuple(_nobody(each, why) for each in asked) or (_unknown(why),))
    environment = project.environment or BASE
    about = About(given.plan, given.rehearsal, environment, state.lineage, state.plans_run)
    now, counting, dead = project.clock.now(), [], []
    for approval in given.approvals:
        arguments = (approval, about, signers, now, project.variables)
        why = await to_thread.run_sync(why_dead, *arguments)
        if why:
            dead.append((approval, why))
        else:
            counting.append(approval)
    agreed = [
        (each, people(in_force(each.rule, counting, now), [each.text for each in signers])) for each in asked
    ]
    unmet = [_unmet(each, by) for each, by in agreed if len(by) < each.rule.people]
    again = not plan.steps and all(each.id in state.plans_run for each, _ in dead)  # the job is run again
    report = error if unmet or not (counting or again) else warning
    objects = dict.fromkeys(address for each in asked for address in each.addresses)
    told = [_dead(report, approval, why, objects) for approval, why in dead]
    return Judged(tuple(counting), (*found.told(), *unmet, *told))


def asked_of(
    authority: Authority, plan: Plan, state: State, resources: Mapping[Address, Resource]
) -> list[Diagnostic]:
    """What a plan says of the approvals that its apply will ask for, and of rules that get weaker."""
    found, asked = _asked(authority, plan, state, resources)
    return [*found.told(), *(_needed(warning, each) for each in asked)]


def needed_by(
    authority: Authority, plan: Plan, state: State, resources: Mapping[Address, Resource]
) -> Sequence[Needed]:
    """The rules that the apply of `plan` will ask about."""
    return _asked(authority, plan, state, resources)[1]


def _asked(
    authority: Authority, plan: Plan, state: State, resources: Mapping[Address, Resource]
) -> tuple[InForce, Sequence[Needed]]:
    found = Terms(authority, resources, state, plan).in_force()
    sizes = _Sizes(plan, state, resources)
    return found, needed(found.said.rules, plan, plan.context.environment, sizes)


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
        "name them in a change of its own, and apply that first; then ",
    )


def _needed(report: Any, asked: Needed, why: str = "", first: str = "") -> Diagnostic:
    listed = [f"`{each}`" for each in asked.addresses[:3]]
    more = len(asked.addresses) - len(listed)
    what = ", ".join(listed) + (f" and {more} more" if more else "")
    people = (
        counted(asked.rule.people, "person")
        if asked.rule.people == 1
        else f"{asked.rule.people} different people"
    )
    typed = "`, `".join(map(str, _STEPS))
    found: Diagnostic = report(
        APPROVAL_NEEDED,
        f"the rule {asked.rule} asks for the approval of {people} for {what}{why}",
        help=f"{first}type `{typed}`",
        advice=_STEPS,
        about=asked.addresses,
    )
    return found


def _unknown(why: str) -> Diagnostic:
    return error(
        "approval-dead",
        f"no approval counts: {why}",
        help="name signers in a change of its own, and apply that first; or set RECONCILE_ALLOWED_SIGNERS",
    )


def _dead(report: Any, approval: Approval, why: str, about: Iterable[Address]) -> Diagnostic:
    anew = command("approve", "FILE", "--reason", "TEXT")
    found: Diagnostic = report(
        "approval-dead",
        f"the approval {approval.name} of `{approval.statement.principal}` does not count: {why}",
        help=f"if the plan is right, approve it again: `{anew}`",
        advice=(anew,),
        about=about,
    )
    return found
