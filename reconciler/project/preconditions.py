"""Checks before the first call of a plan that everything it relies on is as it was when the plan was made.

Nothing is sent for a plan of another state, while a call that it touches is open, where an object is recorded
in another place, or where an object or a record has changed. The errors name what moved.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import Locked, Refused, named
from reconciler.core.lookup import Lookup
from reconciler.core.model import Address, Observation, StateRecord
from reconciler.core.steps import Move, Plan, Read
from reconciler.execution.open_intents import describe, parse_intent
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import owner_of
from reconciler.moves.compare import only_left
from reconciler.planning.answers import FailedReads, digest_now
from reconciler.planning.conflicts import Siblings
from reconciler.state.store import State

_ANEW = "make a new plan and review it"


class Moved(Refused):
    """An object or a record is not as the plan saw it. Nothing was sent. `what`: in a few words."""

    def __init__(self, what: str, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(f"{what}; nothing was changed", diagnostics)
        self.what = what


class Overtaken(Locked):
    """Another run has worked in `scope` since this one planned. Nothing was sent. `what`: in a few words."""

    def __init__(self, scope: str) -> None:
        super().__init__(scope, "another run", 0)
        self.what = f"another run has changed {named(scope)} since this one planned"
        self.message = f"{self.what}; nothing was changed"
        self.help = "run again, or pass --lock-timeout SECONDS"
        self.args = (self.message,)


def refuse_while_unknown(plan: Plan, state: State) -> None:
    """Raises Moved where the outcome of a call is unknown: sent again, it could make its object twice.

    Nor may anything rely on what it may have made. The next plan of an apply settles it first, or asks.
    """
    touched = {step.address for step in plan.steps}
    touched |= {Address.parse(source) for source, _ in plan.inputs}
    touched |= {binding.address for binding in plan.bindings if not only_left(binding)}
    # A call is settled by its address: also one that may be repeated, before the record moves away.
    moving = {address for move in plan.moves for address in (move.source, move.target)}
    for opened in state.open_intents:
        if opened.address in moving:
            apply = command("apply")
            raise Refused(
                f"`{opened.address}` cannot move: the outcome of a call is unknown; nothing was changed",
                help=f"run `{apply}` without a saved plan, which settles it first",
                advice=(apply,),
            )
    unknown = [
        describe(opened, intent, "it was sent after this plan was made", later=True)
        for opened in state.open_intents
        if opened.address in touched and (intent := parse_intent(opened)).if_unknown != "repeat"
    ]
    if unknown:
        raise Moved("a call's outcome is unknown", unknown)


def takes_over(plan: Plan, state: State) -> bool:
    """Whether the plan takes an object that no record has."""
    return any(binding.id is not None and binding.address not in state.records for binding in plan.bindings)


def refuse_recorded_elsewhere(plan: Plan, state: State, siblings: Siblings) -> None:
    """Raises Moved where another run has recorded an object since, also in another scope.

    Or in another environment (`siblings`).
    """
    kinds = find_kinds()
    recorded: dict[str, list[StateRecord]] = defaultdict(list)
    for known in state.records.values():
        recorded[known.id].append(known)
    for binding in plan.bindings:
        if binding.id is None or binding.address in state.records:
            continue
        record = StateRecord(
            binding.address, binding.id, binding.scope, binding.applied, binding.lifecycle, plan.context.at
        )
        owner = owner_of(kinds, record, recorded[record.id])
        where = f"as `{owner}`" if owner is not None else siblings.recorded_as(kinds, record)
        if where:
            raise Moved(
                "the plan is stale: an object was recorded since it was made",
                [
                    error(
                        "moved",
                        f"`{binding.address}` would adopt {binding.id}, which is recorded {where} now",
                        help=_ANEW,
                    )
                ],
            )


def still_there(plan: Plan, records: Mapping[Address, StateRecord]) -> list[Move]:
    """The moves that can be carried out with `records` as they are."""
    return [
        move
        for move in plan.moves
        if move.source in records
        and records[move.source].serial == move.serial
        and move.target not in records
    ]


def reads_again(plan: Plan) -> list[Read]:
    """The reads that show everything a plan relies on."""
    reads = [expected.read for expected in plan.expectations if expected.read is not None]
    return list(dict.fromkeys([*reads, *(read for _, read in plan.inputs)]))


def refuse_moved(plan: Plan, state: State, observed: Mapping[Read, Observation]) -> None:
    """Raises Moved unless all that the plan relies on is as it was, and can be read again."""
    moved: dict[Address, str] = {}  # what is seen not to be as the plan saw it, and how
    shown = {read: Lookup(now.objects) for read, now in observed.items()}
    for move in plan.moves:
        record = state.records.get(move.target)
        if move.source in state.records or record is None or record.serial != move.serial:
            moved[move.source] = f"cannot become `{move.target}` any more: its record changed meanwhile"
    reads: dict[Address, Read] = {}
    for expected in plan.expectations:
        record = state.records.get(expected.address)
        if (record.serial if record is not None else 0) != expected.serial:
            moved[expected.address] = "was applied by another run meanwhile"
        elif expected.read is not None:
            now = observed[expected.read]
            if now.complete and digest_now(expected, shown[expected.read]) != expected.digest:
                moved[expected.address] = "changed on the platform since the plan was made"
        if expected.read is not None:
            reads[expected.address] = expected.read
    reads |= {Address.parse(source): read for source, read in plan.inputs}
    unread = FailedReads()  # tells the problems of reads that failed now, once for each cause
    for now in observed.values():
        unread.answered(now)
    for address, read in reads.items():
        now = observed[read]
        if not now.complete:
            why = f"`{address}` cannot be read again: {now.problem}"
            unread.add(now.cause, error("moved", why, help=_ANEW), [address])
    failed = list(unread.diagnostics())
    stale = [error("moved", f"`{address}` {how}", help=_ANEW) for address, how in moved.items()]
    if moved:
        raise Moved("the plan is stale: objects changed since it was made", [*stale, *failed])
    if failed:
        raise Moved("objects of the plan cannot be read again", failed)
