"""Reading a state: one moment of all its scopes, although each head is an object of its own."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import rules
from reconciler.state.codec import EntryColumns, decode_entry
from reconciler.state.log import head as heads
from reconciler.state.log.bucket import Bucket, Found, Layout
from reconciler.state.log.changes import Change
from reconciler.state.log.damage import Contradiction, Damaged, Gone, Older
from reconciler.state.log.head import Head
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import ScopeSummary
from reconciler.state.log.scopes import Scopes, plain
from reconciler.state.store import WHOLE_STATE, JournalEntry, State

_PATIENT = 5  # how often all is read again for one moment of everything
_AT_MOST = 50


def keep_up(
    bucket: Bucket,
    layout: Layout,
    scopes: Scopes,
    root: Root,
    listed: Mapping[str, str] | None = None,
) -> None:
    """Bring `scopes` to one moment of all scopes of the state. Raises StoreError or Damaged.

    Raises Contradiction where heads do not fit the root, which may have been read a moment before.

    `listed`: a list of the heads that was made a moment ago, perhaps before somebody named another scope.
    Between two lists that differ in one head at most, there was a moment at which all heads were as they were
    read. Where several scopes are written to all the time, no two such lists come: then heads are read one
    after the other. This is not a snapshot. It is still consistent unless a record moves between scopes,
    because nothing else links two scopes.
    """
    names = root.scopes
    if bucket.is_of_one_moment and not any(scopes.of(name).tag for name in names):
        with suppress(Gone):  # a file that was merged meanwhile, or is lost
            found = bucket.get_under(layout.heads)
            scopes.refresh(names, found)
            _require_named(layout, root, found)
            _require_fitting(scopes, root)
            return
    if listed is None:
        listed = bucket.list(layout.heads)
    _read_one_by_one(bucket, layout, scopes, names, listed)
    if unnamed := listed.keys() - {layout.head(name) for name in names}:
        found = {key: head for key in unnamed if (head := bucket.get(key)) is not None}
        _require_named(layout, root, found)
    _require_fitting(scopes, root)


def require_fitting(root: Root, head: Head) -> None:
    """Raises Older where the head or the root is older than the other one says."""
    if head.serial < root.scopes.get(head.scope, 0):
        raise Older(f"the head of `{head.scope}` is an older one")
    if root.serial < head.root:
        raise Older("state.json is an older one")


def _require_fitting(scopes: Scopes, root: Root) -> None:
    for name in root.scopes:
        require_fitting(root, scopes.of(name).head)


def _require_named(layout: Layout, root: Root, found: Mapping[str, Found]) -> None:
    """Raises Contradiction for a head that the root does not name, unless nothing was ever stored in it.

    A process that dies while it takes a new scope leaves one that is empty.
    """
    named = {layout.head(name) for name in root.scopes}
    for key, head in found.items():
        if key not in named and heads.is_used(head.body):
            raise Contradiction(f"state.json does not name {key.removeprefix(layout.folder)}")


def _read_one_by_one(
    bucket: Bucket, layout: Layout, scopes: Scopes, names: Collection[str], listed: Mapping[str, str]
) -> None:
    before = _tags(bucket, layout, names, listed)
    if not before.keys() >= set(names):
        before = _tags(bucket, layout, names)
    for attempt in range(_AT_MOST):
        missing = [name for name in names if name not in before]
        if missing:
            raise Damaged(f"the head of `{missing[0]}` is missing")
        differing = scopes.differing(before)
        if not differing:
            return
        try:
            new = scopes.refresh(differing)
        except Gone as gone:
            if attempt > _PATIENT and _tags(bucket, layout, names) == before:
                raise Damaged(f"{gone} is missing") from gone
            before = _tags(bucket, layout, names)
            continue
        after = _tags(bucket, layout, names)
        moved = [name for name in names if plain(before[name]) != plain(after.get(name, ""))]
        if len(moved) <= 1 or (attempt >= _PATIENT and not any(map(_crosses, chain(*new.values())))):
            return
        before = after
    raise StoreError(f"the state {bucket.place} changes faster than it can be read", help="run again")


def state_of(scopes: Scopes, lineage: str, names: Iterable[str]) -> State:
    """All that is known of these scopes."""
    records: dict[Address, StateRecord] = {}
    marks: dict[str, ScopeSummary] = {}
    for name in sorted(names):
        scope = scopes.of(name)
        with scope.lock:
            count = len(records) + len(scope.folded.records)
            records.update(scope.folded.records)
            marks[name] = scope.folded.marks
        if len(records) != count:
            raise Damaged(f"`{name}` and another scope have a record at one address")
    views = [summary.view for summary in marks.values()]
    claimed = {name: summary.claimed for name, summary in marks.items()}
    return rules.as_moved(
        State(
            lineage,
            records,
            _oldest_first(entry for view in views for entry in view.open_intents.values()),
            frozenset().union(*(summary.plans | summary.view.plans_run for summary in marks.values())),
            unclaimed=_oldest_first(
                entry
                for name, summary in marks.items()
                for id, entry in summary.view.unclaimed.items()
                if not any(id in ids for other, ids in claimed.items() if other != name)
            ),
            half_moved=_half_moved(marks.values()),
            serials={name: summary.serial for name, summary in marks.items()},
            heads={name: summary.hash for name, summary in marks.items() if summary.seq},
            lengths={name: summary.seq for name, summary in marks.items()},
            version=_version(lineage, marks),
            platform=_platform(marks),
        )
    )


def _tags(
    bucket: Bucket, layout: Layout, names: Collection[str], listed: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """By scope, the tag of its head."""
    found = listed if listed is not None else bucket.list(layout.heads)
    return {name: found[key] for name in names if (key := layout.head(name)) in found}


def _crosses(change: Change) -> bool:
    """Whether it says anything of another scope."""
    effects = (rules.effect_of_row(row.columns) for row in change.rows)
    return any(effect.moved_from or effect.moved_away for effect in effects)


def _half_moved(marks: Collection[ScopeSummary]) -> tuple[JournalEntry, ...]:
    arrived: dict[str, tuple[int, EntryColumns]] = {}
    for source, (times, entry) in chain(*(summary.departures.arrived.items() for summary in marks)):
        before, newest = arrived.get(source, (0, entry))
        arrived[source] = before + times, max(newest, entry, key=lambda columns: entry_of(columns).at)
    return _oldest_first(
        entry
        for source, (times, entry) in arrived.items()
        if times > sum(summary.departures.left.get(source, 0) for summary in marks)
    )


def _platform(marks: Mapping[str, ScopeSummary]) -> str:
    """It is recorded in the scope of the whole state."""
    named = [
        summary.view.platform for summary in (marks.get(WHOLE_STATE), *marks.values()) if summary is not None
    ]
    return next(filter(None, named), "")


def _oldest_first(entries: Iterable[EntryColumns]) -> tuple[JournalEntry, ...]:
    return tuple(sorted(map(entry_of, entries), key=lambda entry: entry.at))


def entry_of(columns: EntryColumns) -> JournalEntry:
    """As `codec.decode_entry`. Raises Damaged."""
    try:
        return decode_entry(columns)
    except ValueError as error:
        raise Damaged("a row of the journal holds what was never written there") from error


def _version(lineage: str, marks: Mapping[str, ScopeSummary]) -> str:
    known = [
        (name, summary.changes, summary.hash, f"{summary.sum:x}") for name, summary in sorted(marks.items())
    ]
    return hashlib.sha256(json.dumps([lineage, known]).encode()).hexdigest()
