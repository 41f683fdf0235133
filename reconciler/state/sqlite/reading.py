"""Reading a SQLite state, checked as far as it is read. In the caller's transaction."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from reconciler.state import rules
from reconciler.state.sqlite import checks, heads, journal, leases, records
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged, check_pages
from reconciler.state.store import JournalEntry, State


def state(connection: sqlite3.Connection, current: Checks) -> State:
    """All of it, but for the journal's old rows. Raises Damaged."""
    try:
        check_pages(connection, ["records"], [*checks.SMALL_TABLES, "heads"])
        checks.verify_tables(connection, current)
        ends = heads.read(connection, current)
        journal.verify_newest(connection, current, ends)
        begun = dict.fromkeys(leases.scopes(connection), current.least_serial)
        return rules.as_moved(
            State(
                current.lineage,
                records.load(connection, heads.count(ends)),
                journal.open_intents(connection, current),
                journal.plans_run(connection),
                unclaimed=journal.unclaimed(connection, current),
                half_moved=journal.half_moved(connection, current),
                serials=begun | {scope: head.serial for scope, head in ends.items()},
                heads={scope: head.hash for scope, head in ends.items() if head.seq},
                lengths={scope: head.seq for scope, head in ends.items()},
                version=current.heads,
                platform=journal.platform(connection),
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a row contains data that was never written there") from error


def entries(
    connection: sqlite3.Connection, current: Checks, since: datetime | None
) -> Sequence[tuple[str, JournalEntry]]:
    """As `Store.journal`. Raises Damaged."""
    try:
        return journal.entries(connection, current, heads.read(connection, current), since)
    except (TypeError, ValueError) as error:
        raise Damaged("a row holds what was never written there") from error
