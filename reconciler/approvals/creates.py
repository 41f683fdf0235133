"""Approvals of creates that no list can show, and approvals that match nothing.

Where a state was lost, replaced or copied, what no list shows looks new, and would be made a second time.
So a person names it, with the word of the state (`Context.word`): what stays in a job approves nothing
elsewhere.
"""

from collections.abc import Collection, Mapping, Set

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.context import EMBEDDED
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import TO_APPROVE, Action, Address, Change, Resource
from reconciler.core.steps import Plan
from reconciler.execution.decisions import recall, remember
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import listed
from reconciler.manifests.validation.references import nearest_address
from reconciler.project.project import Project
from reconciler.state.rules import changes_a_record
from reconciler.state.store import Event, JournalEntry, Lease, State

NOT_CREATED = (
    "not-created"  # what the state remembers: addresses whose last create a person says did not land
)

_MAKING = (Action.CREATE, Action.RESTORE)


class Everything(tuple[str, ...]):
    """Approvals of whatever is asked for, besides those that are named: for a twin, and who asks by name."""

    def __contains__(self, approval: object) -> bool:
        return True


def creates_to_approve(
    plan: Plan, state: State, resources: Mapping[Address, Resource], capabilities: frozenset[str]
) -> frozenset[Address]:
    """The addresses that `plan` creates and that no list can show.

    Without those that `resolve --not-created` has answered. Nothing in the embedded sandbox.
    """
    if not state.lineage or plan.context.platform == EMBEDDED:
        return frozenset()
    return frozenset(
        address
        for address in _made(plan)
        if address not in state.records
        and not (address in resources and resources[address].lifecycle.scratch)
        and str(address) not in recall(state, NOT_CREATED)
        and not _is_listed(address, resources, capabilities)
    )


def _made(plan: Plan) -> set[Address]:
    """The addresses that get a new object: by their change, or by a call whose answer holds an id."""
    made = {change.address for change in plan.changes if change.action in _MAKING}
    return made | {step.address for step in plan.steps if step.effect.id_path is not None}


def _is_listed(address: Address, resources: Mapping[Address, Resource], capabilities: frozenset[str]) -> bool:
    """Whether some list of the platform can show the object of `address`."""
    kind, resource = find_kinds().get(address.kind), resources.get(address)
    return (
        kind is not None
        and resource is not None
        and listed(kind, resource, capabilities, resources) is not None
    )


async def use_up_answers(project: Project, plan: Plan, state: State, held: Lease) -> None:
    """An answer of `resolve --not-created` approves one create: the one that `plan` is about to send."""
    used = recall(state, NOT_CREATED).keys() & set(map(str, _made(plan)))
    if used:
        await remember(
            project.store,
            project.actor(),
            NOT_CREATED,
            lambda known: {name: when for name, when in known.items() if name not in used},
            held,
        )


def with_reasons(plan: Plan, creates: Collection[Address]) -> Plan:
    """`plan`, which says of each of `creates` that it needs approval, why, and how it is given."""
    if not creates:
        return plan
    return replace(
        plan,
        changes=tuple(
            _named(change, plan.context.word) if change.address in creates else change
            for change in plan.changes
        ),
    )


def _named(change: Change, word: str) -> Change:
    """`change`, with the reason why it needs approval in front of its own."""
    why = f"{TO_APPROVE}no list shows whether it exists; {_option(change.address, word)}"
    return replace(change, reason=f"{why}; {change.reason}" if change.reason else why)


def _option(address: Address, word: str) -> str:
    """The option that approves the create of `address` in the state with this word."""
    return f"--approve-create {address.quoted}@{word}"


def unapproved_creates(
    creates: Collection[Address], approved: Collection[str], word: str
) -> list[Diagnostic]:
    """An error for each of `creates` that is not `approved`, as ADDRESS@WORD.

    Raises TypeError for `approved` that is one text: any part of it would approve.
    """
    if isinstance(approved, str):
        raise TypeError("`approved_creates` must be a collection of ADDRESS@WORD, not one text")
    return [
        _not_approved(address, word)
        for address in sorted(creates, key=str)
        if f"{address}@{word}" not in approved
    ]


def _not_approved(address: Address, word: str) -> Diagnostic:
    """The error for a create that nobody approved."""
    restore = command("state", "restore", "FILE")
    return error(
        "create-not-approved",
        f"`{address}` would be created, but may exist already: no list shows it, and this state has "
        "no record of it",
        help="look on the platform: if it exists, write its id as `metadata.id`; if an older state has it, "
        f"restore that one with `{restore}`; if it does not exist, pass {_option(address, word)}",
        advice=(restore,),
        about=(address,),
    )


async def unmatched(
    project: Project,
    plan: Plan,
    known: Collection[Address],
    deletes: Collection[str],
    creates: Collection[str],
) -> list[Diagnostic]:
    """An error for each approval that nothing of `plan` asks for.

    A note instead where the journal of this state shows exactly that as done: a job is run again. What is
    refused anyway says more itself. `known`: what is declared or recorded.
    """
    refused = {
        str(change.address)
        for change in plan.changes
        if change.action in (Action.REFUSED, Action.FORGET)  # of the latter nothing is left
    }
    word, problems = plan.context.word, []
    idle = {("delete", delete) for delete in {*deletes}.difference(map(str, plan.deletes), refused)}
    for approval in creates:
        address, _, of = approval.partition("@")
        planned = address in {*map(str, _made(plan)), *refused}
        if of != word:
            problems.append(_of_another_state(approval, address, of, word, planned=planned))
        elif not planned:
            idle.add(("create", address))
    done = _done(await project.store.journal()) if idle else frozenset[tuple[str, str]]()
    for verb, address in sorted(idle & done):
        project.reporter.note(f"`{address}` is approved, and its {verb} is done already")
    return [*problems, *(_unknown(verb, address, known) for verb, address in sorted(idle - done))]


def _done(journal: Collection[tuple[str, JournalEntry]]) -> Set[tuple[str, str]]:
    """The creates and deletes that took effect, each with its address."""
    sent, done = dict[tuple[str, str, int], str](), set[tuple[str, str]]()
    for _, entry in journal:
        call = entry.run, entry.step, entry.attempt
        if entry.event is Event.INTENT:
            sent[call] = "create" if entry.data.get("creates") else str(entry.data.get("method")).lower()
        elif changes_a_record(entry.event) and entry.data.get("landed") is not False:
            done.add((sent.get(call, ""), str(entry.address)))
    return done


def _of_another_state(approval: str, address: str, of: str, word: str, *, planned: bool) -> Diagnostic:
    """The error for an approval that names the word of another state, or none."""
    anew = f"look on the platform; if it does not exist there, pass --approve-create {address}@{word}"
    return error(
        "unknown-approval",
        f"`{approval}` is approved {f'in the state `{of}`' if of else 'without the word of a state'}; "
        f"this is the state `{word}`",
        help=anew if planned else f"take --approve-create {approval} out: nothing of this plan creates it",
        about=(address,),
    )


def _unknown(verb: str, approved: str, known: Collection[Address]) -> Diagnostic:
    """The error for an approval that nothing in the plan asks for."""
    near = ""
    try:
        near = nearest_address(Address.parse(approved), known) if approved not in map(str, known) else ""
    except ValueError:
        near = "an address looks like Volume/shop/data"
    return error(
        "unknown-approval",
        f"`{approved}` is approved, but nothing will {verb} it",
        help=near or f"take --approve-{verb} {approved} out, or name what the plan is to {verb}",
        about=(approved,),
    )
