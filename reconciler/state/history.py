"""What of a journal is asked for, and in which order: for backends that read it scope by scope. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import merge

from reconciler.state.store import JournalEntry


def merged(journals: Mapping[str, Sequence[JournalEntry]]) -> list[tuple[str, JournalEntry]]:
    """The entries of all scopes with their scope: each scope's in its order, and otherwise by their time."""
    chains = [[(scope, entry) for entry in entries] for scope, entries in sorted(journals.items())]
    return list(merge(*chains, key=lambda item: item[1].at))


def of_runs_since(
    entries: Sequence[tuple[str, JournalEntry]], since: datetime | None
) -> Sequence[tuple[str, JournalEntry]]:
    """What `Store.journal` returns of all `entries`."""
    if since is None:
        return entries
    runs = runs_since(((entry.run, entry.at) for _, entry in entries), since)
    return [item for item in entries if item[1].run in runs or item[1].at >= since]


def runs_since(entries: Iterable[tuple[str, datetime]], since: datetime) -> frozenset[str]:
    """The runs that did something at that time or later. `entries`: run and time of each."""
    return frozenset(run for run, at in entries if run and at >= since)
