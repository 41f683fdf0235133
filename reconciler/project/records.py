"""What a person decides about records: another address, or none; and about objects that have none."""

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import Move
from reconciler.execution.decisions import Actor
from reconciler.execution.parts import Parts, moved_entry
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import owner_of
from reconciler.moves.records import moved_records
from reconciler.policies.moved import next_address
from reconciler.project.unknown_objects import not_recorded, note_known
from reconciler.state.store import WHOLE_STATE, State, Store


async def forget(store: Store, address: Address, actor: Actor) -> bool:
    """Drop the record of `address`; False when there is none."""
    record = (await store.load()).records.get(address)
    if record is None:
        return False
    async with actor.leased(store, [record.scope]) as lease:
        entry = actor.decided({"forget": record.id}, address)
        await store.commit(lease, [entry], remove=[address])
    return True


async def move(store: Store, source: Address, target: Address, actor: Actor) -> list[StateRecord]:
    """Record the object of `source` under `target` instead; the object itself is left alone.

    Without an [index] on either side, all of a `count` move. Returns the moved records. Raises
    ReconcilerError when the two cannot name one object, `target` is recorded already, or a call for one of
    them is open.
    """
    if source.kind != target.kind or source.app != target.app:
        raise ReconcilerError(
            f"`{source}` cannot become `{target}`: an object cannot change its kind or its app",
            help="only the name and the [index] of an address can change",
        )
    if source == target:
        raise ReconcilerError(
            f"FROM and TO are the same address, `{source}`",
            help="give the recorded address first, then the new one",
        )
    state = await store.load()
    put = moved_records(find_kinds(), _moves(state, source, target), state.records)
    scopes = {record.scope for record in put.values()}
    async with actor.leased(store, scopes) as lease:
        state = await store.load()
        moves = _moves(state, source, target)
        put = moved_records(find_kinds(), moves, state.records)
        parts = Parts()
        for move in moves:
            parts.move(
                put[move.target].scope, moved_entry(move, actor.run, actor.clock.now(), actor.by), move.source
            )
        for record in put.values():
            parts.of(record.scope).put.append(record)
        stored = await parts.commit(store, lease)
    targets = {move.target for move in moves}
    return [record for record in stored if record.address in targets]


def _moves(state: State, source: Address, target: Address) -> list[Move]:
    if source not in state.records:
        raise not_recorded(source, state.records)
    asked = {source: target}
    moves = [
        Move(address, to, record.id, record.serial)
        for address, record in sorted(state.records.items(), key=lambda item: item[0].ordinal)
        if (to := next_address(address, asked)) is not None
    ]
    for move in moves:
        _check_movable(state, move.source, move.target)
    return moves


def _check_movable(state: State, source: Address, target: Address) -> None:
    record = state.records[source]
    if record.id in ("", source.name):
        forget = command("state", "forget", source)
        raise ReconcilerError(
            f"`{source}` is identified by its name on the platform, so a new name would be a new object",
            help=f"`{forget}`, and let the next apply create `{target}`; or, if the manifest says "
            f"`name: {source.name}`, write a Moved manifest",
            advice=(forget,),
        )
    if target in state.records:
        forget = command("state", "forget", target)
        raise ReconcilerError(
            f"`{target}` is recorded already, as {state.records[target].id}",
            help=f"`{forget}` drops that record",
            advice=(forget,),
        )
    twin = owner_of(find_kinds(), record, state.records.values())
    if twin is not None:
        ways = tuple(command("state", "forget", claimant) for claimant in (source, twin))
        raise ReconcilerError(
            f"{record.id} is recorded as `{source}` and as `{twin}`",
            help=f"find out which one is right, and drop the other record: `{ways[0]}` or `{ways[1]}`",
            advice=ways,
        )
    for opened in state.open_intents:
        if opened.address in (source, target):
            plan = command("plan")
            raise ReconcilerError(
                f"`{opened.address}` has a call with an unknown outcome",
                help=f"run `{plan}`, which says how to settle it, then move",
                advice=(plan,),
            )


async def claim(store: Store, id: str, actor: Actor) -> bool:
    """Record that a person decided about the unclaimed object `id`, or knows one older than the state.

    False when there is none.
    """
    entries = (await store.load()).unclaimed
    found = next((entry for entry in entries if entry.data["unclaimed"] == id), None)
    if found is None:
        return await note_known(store, actor, id)
    scope = found.data.get("scope", WHOLE_STATE)
    async with actor.leased(store, [scope]) as lease:
        await store.commit(lease, [actor.decided({"claimed": id}, found.address)])
    return True
