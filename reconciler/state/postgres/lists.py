"""What the journal amounts to (`rules`), as rows of one table: open intents, plans run and others."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reconciler.state import rules
from reconciler.state.codec import decode_entry
from reconciler.state.postgres import journal
from reconciler.state.postgres.heads import Head, text
from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.problems import Damaged
from reconciler.state.rules import Effect, IntentKey
from reconciler.state.store import Event, JournalEntry, State

INTENTS, PLANS, UNCLAIMED, HALF_MOVED, FACTS = "open_intents", "plans_run", "unclaimed", "half_moved", "facts"
# With the field of an entry's data that holds the key.
_ENTRIES = {UNCLAIMED: "unclaimed", HALF_MOVED: "moved_from"}

# Asked for apart from the others, so that nobody reads the whole journal for all the plans that ever ran.
_WITH_ROWS = "l.list IN ('open_intents', 'unclaimed', 'half_moved')"
SELECT = f"""SELECT l.list, l.key, l.scope, l.seq, l.value, {journal.COLUMNS}
    FROM reconcile.lists l LEFT JOIN reconcile.journal j
    ON j.state = l.state AND j.scope = l.scope AND j.seq = l.seq
    WHERE l.state = %s AND {_WITH_ROWS} ORDER BY j.row"""
SELECT_OTHERS = f"""SELECT l.list, l.key, l.scope, l.seq, l.value FROM reconcile.lists l
    WHERE l.state = %s AND NOT {_WITH_ROWS}"""

_INSERT = """INSERT INTO reconcile.lists (state, list, key, scope, seq, value)
    SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[])"""

Key = tuple[str, str]  # list and key


class Item(NamedTuple):
    """`scope` and `seq`: the journal row that says so."""

    scope: str
    seq: int
    value: str = ""


def touched(effect: Effect) -> Iterator[Key]:
    """The keys of the rows that `apply` must know."""
    for key, _ in _changes(effect):
        yield key


def apply(lists: dict[Key, Item], effect: Effect, scope: str, seq: int) -> None:
    """Bring the effect of a journal row into `lists`. Raises StoreError for an intent that is open."""
    for key, value in _changes(effect):
        if value is None:
            lists.pop(key, None)
        elif key[0] == INTENTS and key in lists:
            assert effect.opens is not None
            raise rules.already_open(effect.opens)
        elif key not in lists or key[0] != PLANS:
            lists[key] = Item(scope, seq, value)


def _changes(effect: Effect) -> Iterator[tuple[Key, str | None]]:
    """What is put, with its value, and what is dropped (None), in this order."""
    if effect.opens is not None:
        yield (INTENTS, intent_key(effect.opens)), ""
    if effect.closes is not None:
        yield (INTENTS, intent_key(effect.closes)), None
    if effect.plan:
        yield (PLANS, effect.plan), ""
    if effect.unclaimed:
        yield (UNCLAIMED, effect.unclaimed), ""
    if effect.claimed:
        yield (UNCLAIMED, effect.claimed), None
    if effect.moved_from:
        yield (HALF_MOVED, effect.moved_from), ""
    if effect.moved_away:
        yield (HALF_MOVED, effect.moved_away), None
    if effect.platform:
        yield (FACTS, "platform"), effect.platform
    if effect.new:
        yield (FACTS, "new"), "yes"


def intent_key(key: IntentKey) -> str:
    return json.dumps(key)


def weight(key: Key, item: Item) -> int:
    """What a row adds to the sum in the heads."""
    return int(hashlib.sha256(json.dumps([*key, *item]).encode()).hexdigest(), 16)


def insert(state: int, listed: Mapping[Key, Item]) -> Statement:
    rows = [(*key, *item) for key, item in listed.items()]
    return _INSERT, [state, *map(list, zip(*rows, strict=True))]


def items(rows: Iterable[Row]) -> dict[Key, Item]:
    """What rows of list, key, scope, seq and value say."""
    return {(name, key): Item(*item) for name, key, *item in rows}


def read(rows: Iterable[Row], heads: Mapping[str, Head], lineage: str) -> State:
    """What the rows of `SELECT` and `SELECT_OTHERS` say, and nothing else.

    Raises Damaged where they are not what was written.
    """
    entries: dict[str, list[JournalEntry]] = {INTENTS: [], UNCLAIMED: [], HALF_MOVED: []}
    plans, facts, total = set(), {}, 0
    for name, key, scope, seq, value, *row in rows:
        total += weight((name, key), Item(scope, seq, value))
        if name == PLANS:
            plans.add(key)
        elif name == FACTS:
            facts[key] = value
        else:
            entries[name].append(_entry(name, key, row))
    if text(total) != text(sum(head.lists for head in heads.values())):
        raise Damaged("table lists is not what was written")
    return State(
        lineage,
        {},
        tuple(entries[INTENTS]),
        frozenset(plans),
        unclaimed=tuple(entries[UNCLAIMED]),
        half_moved=tuple(entries[HALF_MOVED]),
        platform=facts.get("platform", ""),
        new="new" in facts,
    )


def _entry(name: str, key: str, row: Sequence[object]) -> JournalEntry:
    columns = journal.checked(row)
    entry = decode_entry(*columns[:-1], columns[-1].encode())
    if name == INTENTS:
        found = intent_key((entry.run, entry.step, entry.attempt)) if entry.event is Event.INTENT else ""
    else:
        found = entry.data.get(_ENTRIES[name], "")
    if found != key:
        raise Damaged(f"a row of the journal is not about `{key}`, as it should be")
    return entry
