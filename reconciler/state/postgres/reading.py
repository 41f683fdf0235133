"""The whole state, or that of some scopes, as of one moment, and checked as far as it is read."""

from collections.abc import Collection
from dataclasses import replace

from reconciler.core.errors import named
from reconciler.core.garbage import collector_paused
from reconciler.state import rules
from reconciler.state.postgres import archive, heads, journal, lists, records, schema
from reconciler.state.postgres.line import BEGIN_READING, COMMIT, LIMITS, Line, Statement
from reconciler.state.postgres.problems import Damaged, decoding
from reconciler.state.postgres.schema import Identity
from reconciler.state.store import JournalEntry, State

# Heads that no journal row fits, and scopes that were leased and have no head.
_ENDS = """SELECT h.scope FROM reconcile.heads h
    LEFT JOIN reconcile.journal j ON j.state = h.state AND j.scope = h.scope AND j.seq = h.seq
    WHERE h.state = %s AND h.seq > 0 AND j.hash IS DISTINCT FROM h.hash
    UNION ALL SELECT l.scope FROM reconcile.leases l
    LEFT JOIN reconcile.heads h ON h.state = l.state AND h.scope = l.scope
    WHERE l.state = %s AND l.epoch > 0 AND h.scope IS NULL"""


async def read(line: Line, identity: Identity, scopes: Collection[str] | None) -> State:
    """`elsewhere` holds the ids of records in other scopes than `scopes`. Raises Damaged."""
    state_id = identity.id
    asked: list[Statement] = [(records.SELECT, [state_id])]
    if scopes is not None:
        some = [state_id, sorted(scopes)]
        asked = [(records.SELECT_SOME, some), (records.SELECT_OTHERS, some)]
    _, _, known, ends, broken, listed, plain, rows, *others, _ = await line.ask(
        BEGIN_READING,
        LIMITS,
        schema.look_again(identity),
        (heads.SELECT, [state_id]),
        (_ENDS, [state_id, state_id]),
        *lists.select(state_id),
        *asked,
        COMMIT,
    )
    schema.refuse_replaced(known, identity, line.place)
    for (scope,) in broken:
        raise Damaged(f"the journal of {named(scope)} does not end where it should")
    with decoding(), collector_paused():
        found = heads.read(ends)
        state = lists.read([*listed, *plain], found, identity.lineage)
        tracked = [records.read(row) for row in rows]
        elsewhere = dict(records.read_id(row) for each in others for row in each)
    count = sum(head.records for head in found.values())
    if len(tracked) + len(elsewhere) != count:
        raise Damaged(f"there are {len(tracked) + len(elsewhere)} records, and not {count}")
    moved = {entry.data["moved_from"] for entry in state.half_moved}
    return rules.as_moved(
        replace(
            state,
            records={record.address: record for record in tracked},
            elsewhere={address: id for address, id in elsewhere.items() if str(address) not in moved},
            serials={scope: head.serial for scope, head in found.items()},
            heads={scope: head.hash for scope, head in found.items() if head.seq},
            lengths={scope: head.seq for scope, head in found.items()},
            version=heads.version(found),
        )
    )


async def entries(line: Line, identity: Identity) -> list[tuple[str, JournalEntry]]:
    """The whole journal, each entry with its scope, oldest first. Raises Damaged."""
    state = [identity.id]
    _, _, rows, packed, ends, _ = await line.ask(
        BEGIN_READING, LIMITS, (journal.SELECT, state), (archive.SELECT, state), (heads.SELECT, state), COMMIT
    )
    with decoding():
        return journal.entries(identity, archive.merged(rows, packed), heads.read(ends))
