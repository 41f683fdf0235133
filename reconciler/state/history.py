"""Which part of a journal is asked for. Pure."""

from collections.abc import Sequence
from datetime import datetime

from reconciler.state.store import JournalEntry


def of_runs_since(
    entries: Sequence[tuple[str, JournalEntry]], since: datetime | None
) -> Sequence[tuple[str, JournalEntry]]:
    """What `Store.journal` returns of all `entries`."""
    if since is None:
        return entries
    runs = {entry.run for _, entry in entries if entry.run and entry.at >= since}
    return [item for item in entries if item[1].run in runs or item[1].at >= since]
