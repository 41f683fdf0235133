"""How old rows of the journal in PostgreSQL come into segments: see `archive`.

One transaction for each segment, under the lock of the scope's head: so no commit comes between, and a scope
that nobody uses any more is packed by a process that writes to another one.
"""

from reconciler.state import archive as packing
from reconciler.state.chain import Chains
from reconciler.state.postgres import archive, heads, journal, lists, schema
from reconciler.state.postgres.archive import Segment
from reconciler.state.postgres.line import BEGIN, COMMIT, LIMITS, ROLLBACK, Line, Row, Statement
from reconciler.state.postgres.lists import ARCHIVED, PLANS
from reconciler.state.postgres.problems import decoding
from reconciler.state.postgres.schema import Identity

_DUE = """SELECT h.scope FROM reconcile.heads h LEFT JOIN (
        SELECT scope, max(seq) AS last FROM reconcile.lists WHERE state = %s AND list = %s GROUP BY scope
    ) p ON p.scope = h.scope
    WHERE h.state = %s AND h.seq - coalesce(p.last, 0) >= %s ORDER BY h.scope"""
_LAST = """SELECT key, seq, value FROM reconcile.lists WHERE state = %s AND list = %s AND scope = %s
    ORDER BY seq DESC LIMIT 1"""
_ROWS = f"""SELECT * FROM (SELECT {journal.COLUMNS}, sum(octet_length(j.data)) OVER (ORDER BY j.seq) AS size
    FROM reconcile.journal j WHERE j.state = %s AND j.scope = %s AND j.seq > %s ORDER BY j.seq LIMIT %s) j
    WHERE j.size - octet_length(j.data) < %s ORDER BY j.seq"""
_DELETE_ROWS = "DELETE FROM reconcile.journal WHERE state = %s AND scope = %s AND seq BETWEEN %s AND %s"
_DELETE_PLANS = """DELETE FROM reconcile.lists WHERE state = %s AND list = %s AND key = ANY(%s)
    AND scope = %s AND seq BETWEEN %s AND %s RETURNING list, key, scope, seq, value"""


async def extend(line: Line, identity: Identity, most: int) -> None:
    """Pack rows that are no longer new, of any scope, some `most` of them.

    Raises Damaged, and packs nothing more, where a row does not follow from those before.
    """
    (due,) = await line.ask(_due(identity))
    for (scope,) in due:
        while most > 0 and (packed := await _pack(line, identity, scope)):
            most -= packed


def _due(identity: Identity) -> Statement:
    state = identity.id
    return _DUE, [state, ARCHIVED, state, _due_rows()]


def _due_rows() -> int:
    """How many rows of a scope stand in the journal when the oldest of them are packed."""
    return packing.KEPT_ROWS + packing.SEGMENT_ROWS


async def _pack(line: Line, identity: Identity, scope: str) -> int:
    """Move the oldest rows of `scope` into a segment; says how many. 0: none are due any more."""
    state = identity.id
    _, _, ends, known, newest = await line.ask(
        BEGIN,
        LIMITS,
        heads.lock(state, [scope]),
        schema.look_again(identity),
        (_LAST, [state, ARCHIVED, scope]),
    )
    schema.refuse_replaced(known, identity, line.place)
    with decoding():
        head = heads.read(ends)[scope]
        before = [Segment.listed(*each) for each in newest]
    last, hash = (before[0].last, before[0].hash) if before else (0, identity.lineage)
    if head.seq - last < _due_rows():
        await line.ask(ROLLBACK)
        return 0
    (found,) = await line.ask((_ROWS, [state, scope, last, packing.SEGMENT_ROWS, packing.SEGMENT_BYTES]))
    rows = [tuple(row[:-1]) for row in found]
    _follow(identity, scope, (last, hash), rows)
    segment = Segment.of(rows)
    between = [scope, segment.first, segment.last]
    *_, began = await line.ask(
        archive.insert(state, segment, rows),
        (_DELETE_ROWS, [state, *between]),
        (_DELETE_PLANS, [state, PLANS, segment.plans, *between]),
    )
    key, item = lists.archived(segment)
    head.lists += lists.weight(key, item) - sum(lists.weight(*each) for each in lists.items(began).items())
    await line.ask(lists.insert(state, {key: item}), heads.store(state, [head]), COMMIT)
    return len(rows)


def _follow(identity: Identity, scope: str, end: tuple[int, str], rows: list[Row]) -> None:
    """Raises Damaged where the rows do not follow `end`."""
    chains = Chains(identity.lineage)
    chains.ends = {scope: end}
    for row in rows:
        journal.follow(chains, row)
