"""What counts for budgets: the calls of earlier runs, and what runs under way have reserved.

A call counts from its intent on, unless it is known that it had no effect. What a run has reserved counts
instead of its calls, until it ends. Reservations are read before the journal: so a run that ends meanwhile
counts, and once.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import replace

from reconciler.core.context import EMBEDDED
from reconciler.core.steps import Plan
from reconciler.core.uses import Uses
from reconciler.core.wire import parse_time
from reconciler.execution.decisions import MADE, recall
from reconciler.guardrails.limit import Limit
from reconciler.guardrails.variables import has_size
from reconciler.project.project import Project
from reconciler.state.store import LOST_ROWS, Event, JournalEntry, Run

BUDGETS = "budgets"  # under this name the state remembers what runs have reserved


class Use(Struct, frozen=True, omit_defaults=True):
    """One call that was sent, or may be. `at`: when it had its effect, at the latest; None while its run may
    still send it.
    """

    run: str
    step: str
    scope: str
    address: str  # "" for several
    path: str
    uses: Uses
    by: str = ""
    at: datetime | None = None

    def __str__(self) -> str:
        when = f"{self.at:%Y-%m-%d %H:%M} UTC" if self.at is not None else "reserved"
        return f"{when}, by {self.by or 'somebody'}: {self.address or 'other calls'} (run {self.run})"


class Spent(Struct, frozen=True):
    """`since`: before that time nobody knows what was sent. `why`: how that came, in words."""

    past: Sequence[Use] = ()
    reserved: Sequence[Use] = ()
    since: datetime = datetime.min.replace(tzinfo=UTC)
    why: str = ""

    def uses(self, held: Collection[str]) -> Sequence[Use]:
        """All that counts in a run that holds the leases of `held`.

        Nobody else can send anything in these scopes: what a dead run reserved there counts by its calls.
        """
        reserved = [use for use in self.reserved if use.scope not in held]
        counted = {(use.run, use.scope) for use in reserved}
        return [*(use for use in self.past if (use.run, use.scope) not in counted), *reserved]


async def read_spent(project: Project, budgets: Sequence[Limit]) -> Spent:
    """All that may count in the longest window of `budgets`."""
    now = project.clock.now()
    since = now - max(limit.spec.lasts for limit in budgets)
    state = await project.store.load()
    reserved = [convert(use, Use) for use in recall(state, BUDGETS).get("reserved", ())]
    known = parse_time(recall(state, MADE).get("at"))
    if project.address == EMBEDDED:  # its world is as old as its state
        known = datetime.min.replace(tzinfo=UTC)
    journal = await project.store.journal(since=since if known is not None else None)
    if known is None:  # an older program made it
        known = min((entry.at for _, entry in journal), default=now)
    why = f"the state was made at {known:%Y-%m-%d %H:%M} UTC"
    for _, entry in journal:
        if entry.data.get("unclaimed") == LOST_ROWS and entry.at > known:
            known, why = entry.at, f"the state was restored at {entry.at:%Y-%m-%d %H:%M} UTC, and lacks rows"
    past = past_uses(journal, timedelta(seconds=project.limits.settle_s))
    return Spent(past, reserved, known, why)


def past_uses(journal: Iterable[tuple[str, JournalEntry]], late: timedelta) -> Sequence[Use]:
    """The calls of a journal that may have had an effect: of each step of a run the last attempt.

    `late`: so long after it was sent a call without an answer may have its effect.
    """
    actors: dict[str, str] = {}
    sent: dict[tuple[str, str, int], Use] = {}
    absolute, void = set[tuple[str, str, int]](), set[tuple[str, str, int]]()
    for scope, entry in journal:
        key, data = (entry.run, entry.step, entry.attempt), entry.data
        if entry.event is Event.RUN_STARTED:
            actors[entry.run] = Run.from_json(data).actor
        elif entry.event is Event.INTENT:
            path, by, at = str(data.get("path", "")), actors.get(entry.run, ""), entry.at + late
            sent[key] = Use(*key[:2], scope, str(entry.address), path, _uses_of(entry), by, at)
            if data.get("if_unknown") == "repeat":
                absolute.add(key)
        elif entry.event is Event.DONE and key in sent and not data.get("reached"):
            void.discard(key)
            sent[key] = replace(sent[key], at=entry.at)
        elif entry.event is Event.FAILED or (data.get("landed") is False and key not in absolute):
            # An absolute call is settled so because it may be sent again, not because it had no effect.
            void.add(key)
    return list({key[:2]: use for key, use in sent.items() if key not in void}.values())


def _uses_of(intent: JournalEntry) -> Uses:
    """As recorded. The intents of older programs do not say how many GB."""
    if recorded := intent.data.get("uses"):
        return dict(recorded)
    found: dict[str, Any] = {"calls": 1}
    method, path = intent.data.get("method"), str(intent.data.get("path", ""))
    sized = intent.address is not None and has_size(intent.address.kind)
    if method == "DELETE":
        found |= {"deletes": 1, "names": [str(intent.address)]} | ({"gb_deleted": None} if sized else {})
    if intent.data.get("creates"):
        found |= {"creates": 1} | ({"gb_added": None} if sized else {})
    more: dict[str, dict[str, Any]] = {"extend": {"gb_added": None}, "restart": {"restarts": 1}}
    return found | more.get(path.rpartition("/")[2], {})


def uses_of_plan(plan: Plan, run: str = "", by: str = "") -> Sequence[Use]:
    """The calls that `plan` may send, without their scopes."""
    return [
        Use(run, step.id, "", str(step.address), str(step.call.path), {**step.uses, "calls": 1}, by)
        for step in plan.steps
        if step.mutates
    ]
