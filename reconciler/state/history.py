"""Which part of a journal is asked for. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from reconciler.state.store import JournalEntry


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
