"""What a journal entry does to open intents, plans run and other lists and facts: said here alone. Pure."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.state.codec import EntryColumns
from reconciler.state.store import Event, JournalEntry

IntentKey = tuple[str, str, int]  # run, step, attempt

# PENDING closes too: the call succeeded, and only its wait is not over.
CLOSING = frozenset({Event.DONE, Event.FAILED, Event.SETTLED, Event.PENDING})

DECISIONS = ("unclaimed", "claimed", "platform")

Ref = TypeVar("Ref")


class Effect(Struct, frozen=True):
    """What one entry does.

    `plans`: the id of one that is run from now on, and those of the approvals that it uses. `platform`: its
    address, from now on. `unclaimed`: the id of an object that no record tracks; `claimed`: of one about
    which a person has decided. Of these two, `claimed` comes second.
    """

    opens: IntentKey | None = None
    closes: IntentKey | None = None
    plans: tuple[str, ...] = ()
    unclaimed: str = ""
    claimed: str = ""
    platform: str = ""


class View(Struct, Generic[Ref], frozen=True):
    """What a journal amounts to, oldest first. `Ref` is how its keeper names an entry, such as its row."""

    open_intents: Mapping[IntentKey, Ref] = field(default_factory=dict)
    plans_run: frozenset[str] = frozenset()
    unclaimed: Mapping[str, Ref] = field(default_factory=dict)
    platform: str = ""


def after(view: View[Ref], effect: Effect, entry: Ref) -> View[Ref]:
    """`view` once `entry`, which has this effect, stands in the journal.

    Raises StoreError for an intent that is open already.
    """
    if effect.opens is not None:
        if effect.opens in view.open_intents:
            raise already_open(effect.opens)
        return replace(view, open_intents={**view.open_intents, effect.opens: entry})
    if effect.closes in view.open_intents:
        return replace(view, open_intents=_without(view.open_intents, effect.closes))
    if not view.plans_run.issuperset(effect.plans):
        return replace(view, plans_run=view.plans_run.union(effect.plans))
    if effect.unclaimed:
        view = replace(view, unclaimed=_without(view.unclaimed, effect.unclaimed) | {effect.unclaimed: entry})
    if effect.claimed:
        view = replace(view, unclaimed=_without(view.unclaimed, effect.claimed))
    if effect.platform:
        view = replace(view, platform=effect.platform)
    return view


def effect(entry: JournalEntry) -> Effect:
    return _effect((entry.run, entry.step, entry.attempt), entry.event, lambda: entry.data)


def effect_of_row(columns: EntryColumns) -> Effect:
    """As `effect`, of an encoded entry. Raises ValueError for data that is not JSON, if it matters."""
    run, event, _, _, step, attempt, data = columns
    return _effect((run, step, attempt), event, lambda: json.loads(data))


def changes_a_record(event: str) -> bool:
    """Whether an entry of this event may have come with a change of its address's record."""
    return event in CLOSING and event != Event.FAILED


def already_open(key: IntentKey) -> StoreError:
    run, step, attempt = key
    return StoreError(
        f"attempt {attempt} of step {step} in run {run} has already started, and its outcome is unknown"
    )


def _effect(key: IntentKey, event: str, data: Callable[[], Mapping[str, Any]]) -> Effect:
    """`data` is asked for where it matters only: an intent's is large."""
    if event == Event.INTENT:
        return Effect(opens=key)
    if event in CLOSING:
        return Effect(closes=key)
    if event == Event.RUN_STARTED:
        return Effect(plans=started(data()))
    if event == Event.DECIDED:
        decided = data()
        return Effect(**{name: decided[name] for name in DECISIONS if decided.get(name)})
    return Effect()


def started(data: Mapping[str, Any]) -> tuple[str, ...]:
    """What counts as run or used once, of the data of a RUN_STARTED."""
    used = data.get("approvals", ())
    return (*filter(None, (data.get("plan"),)), *(approval["id"] for approval in used))


def _without(known: Mapping[Any, Ref], key: object) -> dict[Any, Ref]:
    return {name: entry for name, entry in known.items() if name != key}
