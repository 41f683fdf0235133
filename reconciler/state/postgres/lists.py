"""What the journal amounts to (`rules`), as rows of one table: open intents, plans run and others.

Beside that, which segments it is packed in. Plans that began in one are not rows of their own any more.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.errors import named
from reconciler.state import rules
from reconciler.state.codec import decode_entry
from reconciler.state.postgres import archive, journal
from reconciler.state.postgres.archive import Segment
from reconciler.state.postgres.heads import Head, text
from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.problems import Damaged
from reconciler.state.rules import Effect, IntentKey
from reconciler.state.store import Event, JournalEntry, State

INTENTS, PLANS, UNCLAIMED, HALF_MOVED, FACTS = "open_intents", "plans_run", "unclaimed", "half_moved", "facts"
ARCHIVED = "archived"
# With the field of an entry's data that holds the key.
_ENTRIES = {UNCLAIMED: "unclaimed", HALF_MOVED: "moved_from"}

# Asked for apart from the others, so that nobody reads the whole journal for all the plans that ever ran.
_WITH_ROWS = "l.list IN ('open_intents', 'unclaimed', 'half_moved')"
_SELECT = f"""SELECT l.list, l.key, l.scope, l.seq, l.value, {journal.COLUMNS}, {archive.COLUMNS}
    FROM reconcile.lists l LEFT JOIN reconcile.journal j
    ON j.state = l.state AND j.scope = l.scope AND j.seq = l.seq {archive.beside("l.scope", "l.seq")}
    WHERE l.state = %s AND {_WITH_ROWS}"""
_JOURNAL = 12  # how many columns a row of the journal has

_SELECT_OTHERS = f"""SELECT l.list, l.key, l.scope, l.seq, l.value FROM reconcile.lists l
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
    for plan in effect.plans:
        yield (PLANS, plan), ""
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


def select(state: int) -> list[Statement]:
    """Ask for rows that `read` takes."""
    return [(_SELECT, [state, state]), (_SELECT_OTHERS, [state])]


def read(rows: Sequence[Row], heads: Mapping[str, Head], lineage: str) -> State:
    """What the answers to `select` say, and nothing else. Raises Damaged for what was not written so."""
    listed = items(row[:5] for row in rows)
    total = sum(weight(key, item) for key, item in listed.items())
    if text(total) != text(sum(head.lists for head in heads.values())):
        raise Damaged("table lists is not what was written")
    found = {name: [row for row in rows if row[0] == name] for name in (INTENTS, UNCLAIMED, HALF_MOVED)}
    facts = {key: item.value for (name, key), item in listed.items() if name == FACTS}
    return State(
        lineage,
        {},
        _entries(found[INTENTS]),
        plans(listed),
        unclaimed=_entries(found[UNCLAIMED]),
        half_moved=_entries(found[HALF_MOVED]),
        platform=facts.get("platform", ""),
    )


def plans(listed: Mapping[Key, Item]) -> frozenset[str]:
    """All plans that ran, also those of segments."""
    packed = (plan for segment in segments(listed) for plan in segment.plans)
    return frozenset([*(key for name, key in listed if name == PLANS), *packed])


def segments(listed: Mapping[Key, Item]) -> Iterator[Segment]:
    for (name, key), item in listed.items():
        if name == ARCHIVED:
            yield Segment.listed(key, item.seq, item.value)


def archived(segment: Segment) -> tuple[Key, Item]:
    return (ARCHIVED, segment.key), Item(segment.scope, segment.last, segment.value)


def _entries(rows: Iterable[Row]) -> tuple[JournalEntry, ...]:
    """What rows of `_SELECT` are about, oldest first."""
    found = [(name, key, _row(scope, seq, rest)) for name, key, scope, seq, _, *rest in rows]
    return tuple(_entry(name, key, row) for name, key, row in sorted(found, key=lambda each: each[2][0]))


def _row(scope: str, seq: int, rest: Sequence[Any]) -> Row:
    """A row of the journal, or of the segment beside it."""
    row, segment = rest[:_JOURNAL], rest[_JOURNAL:]
    if row[0] is not None:
        return tuple(row)
    if segment[0] is None:
        raise Damaged(f"row {seq} of the journal of {named(scope)} is missing")
    return archive.row(tuple(segment), seq)


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
