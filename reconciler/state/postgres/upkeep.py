"""Maintenance of a state in PostgreSQL: verify all of it, free a scope, give it to an environment."""

from datetime import datetime

from reconciler.core.errors import Locked, StateMoved, StoreError, named
from reconciler.state import rules
from reconciler.state.codec import encode_entry
from reconciler.state.postgres import archive, commits, heads, journal, leases, lists, reading, schema
from reconciler.state.postgres.archive import Segment
from reconciler.state.postgres.commits import Request, Sent
from reconciler.state.postgres.line import BEGIN, BEGIN_READING, COMMIT, LIMITS, Line
from reconciler.state.postgres.lists import PLANS, Item, Key
from reconciler.state.postgres.problems import Damaged, decoding
from reconciler.state.postgres.schema import Identity
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, no_state

_LISTS = "SELECT list, key, scope, seq, value FROM reconcile.lists WHERE state = %s"
_GIVE = "UPDATE reconcile.states SET environment = %s WHERE id = %s AND environment = %s RETURNING id"


async def verify(line: Line, environment: str) -> None:
    """Read everything. Raises Damaged naming the first that is not what was written."""
    known = await schema.known(line, environment)
    if known.identity is None:
        return
    state = known.identity.id
    await reading.read(line, known.identity, None)
    _, _, rows, packed, ends, listed, _ = await line.ask(
        BEGIN_READING,
        LIMITS,
        (journal.SELECT, [state]),
        (archive.SELECT, [state]),
        (heads.SELECT, [state]),
        (_LISTS, [state]),
        COMMIT,
    )
    with decoding():
        everything = archive.merged(rows, packed)
        derived, said = dict[Key, Item](), set[tuple[Key, Item]]()
        for scope, seq, columns in journal.followed(known.identity, everything, heads.read(ends)):
            effect = rules.effect_of_row(columns)
            lists.apply(derived, effect, scope, seq)
            said |= {(key, Item(scope, seq)) for key in lists.touched(effect) if key[0] == PLANS}
        derived |= dict(lists.archived(Segment.of(archive.unpacked(segment))) for segment in packed)
        found = lists.items(listed)
        found.pop((lists.FACTS, "new"), None)  # version 0.2.0 kept whether a state was new
        all_plans = lists.plans(found) == lists.plans(derived)
    # A plan of several scopes may be listed by the row of any of them, once that of another was packed.
    odd = found.items() ^ derived.items()
    if not all_plans or any(key[0] != PLANS for key, _ in odd) or not said.issuperset(_plans(found)):
        raise Damaged("table lists is not what the journal says")


def _plans(listed: dict[Key, Item]) -> list[tuple[Key, Item]]:
    return [(key, item) for key, item in listed.items() if key[0] == PLANS]


async def free(
    line: Line, identity: Identity, scope: str, force: bool, by: str, at: datetime, sent: Sent
) -> str:
    """Raise the epoch of a scope; says what was done. Raises Locked while it is held, unless `force`."""
    _, _, rows = await line.ask(BEGIN, LIMITS, leases.lock(identity.id, [scope]))
    if not rows:
        raise StoreError(f"no run has ever locked {named(scope)}", help="check its name and --state")
    ((_, _, holder, age_s, alive),) = rows
    if alive and not force:
        raise Locked(scope, holder, age_s)
    data = {"unlock": scope, "holder": holder, "age_s": round(age_s), "alive": alive, "by": by}
    entry = JournalEntry("", Event.DECIDED, at, data=data)
    request = Request(None, scope, [encode_entry(entry)])
    also = [leases.free(identity.id, scope)]
    await commits.commit(line, identity, [request], sent, begun=True, also=also)
    if isinstance(request.outcome, StoreError):
        raise request.outcome
    if alive:
        return f"lock taken from {holder}, which can no longer write; stop that process before you apply"
    return "free: no process holds it"


async def take_over(line: Line, base: str, environment: str, by: str, at: datetime, sent: Sent) -> bool:
    """Give the state of no environment to `environment`; False where it has one already."""
    there, own = await schema.known(line, base), await schema.known(line, environment)
    for known in (own, there):
        if known.moved_to:
            raise StateMoved(line.place.shown, known.moved_to)
    if own.identity is not None:
        if there.identity is None:
            return bool(sent.rows)  # by an attempt of ours whose answer was lost
        raise StoreError(
            f"the state {line.place.shown} has one of `{environment}` already",
            help=f"pass --env {environment} to use that one",
        )
    if there.identity is None:
        raise no_state(line.place.shown)
    identity = there.identity
    entry = JournalEntry("", Event.DECIDED, at, data={"environment": environment, "by": by})
    request = Request(None, WHOLE_STATE, [encode_entry(entry)])
    _, _, again, _ = await line.ask(
        BEGIN, LIMITS, schema.look_again(identity, shared=True), heads.make(identity, [WHOLE_STATE])
    )
    schema.refuse_replaced(again, identity, line.place)
    give = (_GIVE, [environment, identity.id, base])
    await commits.commit(line, identity, [request], sent, begun=True, also=[give])
    if isinstance(request.outcome, StoreError):
        raise request.outcome
    return True
