"""The leases in PostgreSQL: who may change a scope, at which epoch, and until when by the server's clock.

A process that takes a scope locks its row, and one that commits shares that lock until its transaction ends.
So a lease that is found good in a transaction is nobody else's before that transaction ends.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from msgspec.structs import replace

from reconciler.core.errors import Locked, StoreError
from reconciler.state.postgres import heads, schema
from reconciler.state.postgres.line import BEGIN, COMMIT, LIMITS, Line, Row, Statement, message
from reconciler.state.postgres.place import Place
from reconciler.state.postgres.problems import explain
from reconciler.state.postgres.schema import Identity
from reconciler.state.store import Lease, ends_too_soon, no_longer_ours

_HELD = "NOT released AND expires_at > :now"
# As text in one form, since the role's settings decide how times are written.
_ENDS = """to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US+00:00')"""
_MAKE = """INSERT INTO reconcile.leases (state, scope)
    SELECT %s, scope FROM unnest(%s::text[]) AS scope ORDER BY scope ON CONFLICT DO NOTHING"""
_LOCK = f"""SELECT scope, token, holder, extract(epoch FROM :now - since)::float8, {_HELD}
    FROM reconcile.leases WHERE state = %s AND scope = ANY(%s) ORDER BY scope FOR UPDATE"""
_TAKE = """UPDATE reconcile.leases SET epoch = epoch + 1, holder = %s, since = :now, token = %s,
    expires_at = :now + make_interval(secs => %s), released = false
    WHERE state = %s AND scope = ANY(%s)"""
_TAKEN = f"""SELECT scope, epoch, {_ENDS} FROM reconcile.leases
    WHERE state = %s AND scope = ANY(%s) AND token = %s"""
_OURS = """reconcile.leases l JOIN unnest(%s::text[], %s::bigint[]) AS w(scope, epoch)
    ON l.scope = w.scope AND l.epoch = w.epoch WHERE l.state = %s"""
_CHECK = f"""SELECT l.scope, l.epoch, extract(epoch FROM l.expires_at - :now)::float8
    FROM {_OURS} AND {_HELD}"""
_RENEW = f"""WITH ours AS (SELECT l.scope FROM {_OURS} AND {_HELD} ORDER BY l.scope FOR NO KEY UPDATE OF l)
    UPDATE reconcile.leases l SET expires_at = :now + make_interval(secs => %s)
    FROM ours WHERE l.state = %s AND l.scope = ours.scope RETURNING l.scope, {_ENDS}"""
_RELEASE = f"""WITH ours AS (SELECT l.scope FROM {_OURS} ORDER BY l.scope FOR NO KEY UPDATE OF l)
    UPDATE reconcile.leases l SET released = true FROM ours WHERE l.state = %s AND l.scope = ours.scope"""
_CURRENT = f"""SELECT scope, epoch, {_HELD} FROM reconcile.leases WHERE state = %s AND scope = ANY(%s)
    ORDER BY scope FOR KEY SHARE"""
_HOLDERS = f"""SELECT scope, holder, extract(epoch FROM :now - since)::float8
    FROM reconcile.leases WHERE state = %s AND scope = ANY(%s) AND {_HELD}"""
EPOCHS = "SELECT scope, epoch FROM reconcile.leases WHERE state = %s"
_INSERT = """INSERT INTO reconcile.leases (state, scope, epoch)
    SELECT %s, * FROM unnest(%s::text[], %s::bigint[])"""
_FREE = """UPDATE reconcile.leases SET epoch = epoch + 1, released = true WHERE state = %s AND scope = %s"""
_LOOKS = 3  # so often a lease is asked for, where the answers take too long to rely on them


def lock(state: int, scopes: Sequence[str]) -> Statement:
    """Keeps others from taking, and from committing under, the leases of `scopes` until the transaction ends.

    Rows: scope, token, holder, seconds since it was taken, whether it is held.
    """
    return _LOCK, [state, scopes]


def current(state: int, scopes: Sequence[str]) -> Statement:
    """Keeps others from taking `scopes` until the transaction ends. Rows: scope, epoch, whether held."""
    return _CURRENT, [state, scopes]


async def take(
    line: Line, identity: Identity, scopes: Sequence[str], holder: str, lease_s: float, token: str
) -> Lease:
    """All `scopes` or none. Raises Locked naming the first one held by another.

    `token`: of this attempt alone, which may be repeated where it is not known whether it succeeded.
    """
    state = identity.id
    make = _MAKE, [state, scopes]
    _, _, known, _, _, rows = await line.ask(
        BEGIN,
        LIMITS,
        schema.look_again(identity, shared=True),
        make,
        heads.make(identity, scopes),
        lock(state, scopes),
    )
    schema.refuse_replaced(known, identity, line.place)
    ours = [row[1] == token and row[4] for row in rows]
    if not (ours and all(ours)):
        for scope, _, name, age_s, held in rows:
            if held:
                raise Locked(scope, name, age_s)
        await line.ask((_TAKE, [holder, token, lease_s, state, scopes]))
    taken, _ = await line.ask((_TAKEN, [state, scopes, token]), COMMIT)
    return Lease(holder, {scope: epoch for scope, epoch, _ in taken}, _earliest(row[2] for row in taken))


def new_token() -> str:
    return secrets.token_hex(16)


@dataclass(eq=False, slots=True)
class Check:
    """One call of `Store.check`. `failure`: what it raises; until it was asked, that nobody knows."""

    lease: Lease
    for_s: float
    failure: StoreError | None = field(default_factory=lambda: StoreError("the lease could not be checked"))


async def check(line: Line, identity: Identity, batch: Sequence[Check], lease_s: float) -> None:
    """Whether each lease is current and outlives its `for_s`, asked at once; renews where that is needed.

    While an answer comes, time passes, and the process may even be stopped: a lease counts from when it was
    asked for, by the clock of this process, and is asked for again where that is not enough.
    """
    waiting, now_s = list(batch), line.clock.monotonic
    for _ in range(_LOOKS):
        wanted = sorted({key for each in waiting for key in each.lease.epochs.items()})
        asked_s = now_s()
        known, rows = await line.ask(schema.look_again(identity), (_CHECK, [*_columns(wanted), identity.id]))
        schema.refuse_replaced(known, identity, line.place)
        ends_s = {(scope, epoch): asked_s + left_s for scope, epoch, left_s in rows}
        for each in waiting:
            try:
                if _short(each, ends_s, now_s()):
                    if each.for_s >= lease_s:
                        raise _too_soon(each, ends_s)
                    asked_s = now_s()
                    await renew(line, identity, each.lease, lease_s)
                    ends_s.update(dict.fromkeys(each.lease.epochs.items(), asked_s + lease_s))
            except StoreError as failure:
                each.failure = failure
            else:
                each.failure = None
        waiting = [each for each in waiting if each.failure is None and _short(each, ends_s, now_s())]
        if not waiting:
            return
    for each in waiting:
        each.failure = _too_soon(each, ends_s)


def _short(check: Check, ends_s: Mapping[tuple[str, int], float], now_s: float) -> bool:
    """Whether the lease ends too soon. Raises StoreError where it is not ours."""
    for scope, epoch in sorted(check.lease.epochs.items()):
        if (scope, epoch) not in ends_s:
            raise no_longer_ours(scope)
    return any(ends_s[key] - now_s <= check.for_s for key in check.lease.epochs.items())


def _too_soon(check: Check, ends_s: Mapping[tuple[str, int], float]) -> StoreError:
    return ends_too_soon(min(check.lease.epochs.items(), key=ends_s.__getitem__)[0], check.for_s)


async def renew(line: Line, identity: Identity, lease: Lease, lease_s: float) -> Lease:
    """Raises StoreError for one that is no longer ours."""
    return _renewed(await line.ask(*_renewal(identity, lease, lease_s)), identity, lease, line.place)


def beat(place: Place, now: str, identity: Identity, lease: Lease, lease_s: float) -> Lease:
    """As `renew`, for any thread: it blocks, and has a connection of its own."""
    try:
        with psycopg.connect(place.conninfo, autocommit=True, prepare_threshold=None) as connection:
            cursor = psycopg.ClientCursor(connection)
            cursor.execute(*message(_renewal(identity, lease, lease_s), now))
            found = [cursor.fetchall() if cursor.description else []]
            while cursor.nextset():
                found.append(cursor.fetchall() if cursor.description else [])
    except psycopg.Error as error:
        raise explain(error, place) from error
    return _renewed(found, identity, lease, place)


def _renewal(identity: Identity, lease: Lease, lease_s: float) -> list[Statement]:
    renew = _RENEW, [*_columns(lease.epochs.items()), identity.id, lease_s, identity.id]
    return [BEGIN, LIMITS, schema.look_again(identity), renew, COMMIT]


def _renewed(found: Sequence[Sequence[Row]], identity: Identity, lease: Lease, place: Place) -> Lease:
    """`lease` with the end that the answers to `_renewal` say. Raises StoreError when it is not ours."""
    _, _, known, rows, _ = found
    schema.refuse_replaced(known, identity, place)
    return replace(lease, expires_at=_earliest(_ours(lease, rows).values()))


async def release(line: Line, identity: Identity, lease: Lease) -> None:
    state = identity.id
    await line.ask(BEGIN, LIMITS, (_RELEASE, [*_columns(lease.epochs.items()), state, state]), COMMIT)


async def holders(line: Line, state: int, scopes: Collection[str]) -> dict[str, Locked]:
    (rows,) = await line.ask((_HOLDERS, [state, list(scopes)]))
    return {scope: Locked(scope, holder, age_s) for scope, holder, age_s in rows}


def free(state: int, scope: str) -> Statement:
    """Raises the epoch, so that the holder of the scope can neither write nor check successfully."""
    return _FREE, [state, scope]


def free_all(state: int) -> Statement:
    return "UPDATE reconcile.leases SET released = true WHERE state = %s", [state]


def insert(state: int, epochs: Sequence[tuple[str, int]]) -> Statement:
    return _INSERT, [state, *_columns(epochs)]


def _ours(lease: Lease, rows: Iterable[Row]) -> dict[str, Any]:
    """What `rows` say of each scope. Raises StoreError for a scope that has none: it is no longer ours."""
    found: dict[str, Any] = dict(rows)
    for scope in lease.scopes:
        if scope not in found:
            raise no_longer_ours(scope)
    return found


def _columns(epochs: Iterable[tuple[str, int]]) -> tuple[list[str], list[int]]:
    pairs = list(epochs)
    return [scope for scope, _ in pairs], [epoch for _, epoch in pairs]


def _earliest(ends: Iterable[str]) -> datetime | None:
    found = min(ends, default=None)
    return None if found is None else datetime.fromisoformat(found)
