"""Records, and objects that no record tracks: what is said of them, and what people decide about them.

An address may be misspelt; a call of ours may have made an object that nobody recorded; objects may be older
than the state. A person gives a record another address, drops it, or says that an object is meant to exist.
"""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from reconciler.core.advice import command, commands_in
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, Severity, error, warning
from reconciler.core.errors import ReconcilerError
from reconciler.core.lookup import Lookup
from reconciler.core.model import DISMISSED, Address, Observation, Resource, StateRecord
from reconciler.core.steps import Move, Read
from reconciler.core.wire import parse_time
from reconciler.core.words import counted
from reconciler.execution.decisions import MADE, Actor, recall, remember
from reconciler.execution.parts import Parts, moved_entry
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import Importable, owner_of
from reconciler.manifests.validation.references import nearest_address
from reconciler.moves.records import moved_records, next_address
from reconciler.project.project import Project, read_all
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, JournalEntry, State, Store


def not_recorded(address: Address, recorded: Collection[Address]) -> ReconcilerError:
    """The error for an address without a record. It names the one of `recorded` that is perhaps meant."""
    near, listed = nearest_address(address, recorded), command("state", "list")
    return ReconcilerError(
        f"`{address}` is not recorded",
        help=near or f"`{listed}` shows what is",
        advice=() if near else (listed,),
    )


def no_record_of(entry: JournalEntry, makes: Collection[Address], asks: Collection[Address]) -> Diagnostic:
    """The problem of an object that a call of ours made, or may have made, and that no record tracks.

    `makes`: the addresses that get a new object. Rows that a restore could not read concern `asks`: those
    whose object no list can show.
    """
    id = entry.data["unclaimed"]
    forget = command("state", "forget", "--unclaimed", id)
    if id == LOST_ROWS:
        made = [f"`{address}`" for address in sorted(asks)]
        report, code = (error, UNKNOWN_OUTCOME) if made else (warning, "state-incomplete")
        return report(
            code,
            f"{', '.join(made) or 'an object that no list shows'} may already have been created: "
            f"{entry.data['because']}",
            help=f"look on the platform, and adopt what exists with `metadata.id`; then run `{forget}`",
            advice=(*commands_in(entry.data["because"]), forget),
            about=sorted(asks),
        )
    again = entry.address in makes
    report, code = (error, UNKNOWN_OUTCOME) if again else (warning, "unclaimed-object")
    return report(
        code,
        f"{id}, created by a call for `{entry.address}`, has no record: {entry.data['because']}",
        help=f"adopt it with `metadata.id: {id}`, or delete it by hand and run `{forget}`",
        advice=(forget,),
        about=filter(None, (entry.address,)),
    )


_KNOWN = "older"  # what the state remembers: ids of older objects that a person knows
ALL = "all"  # in the place of an id: whatever is older


class _List(NamedTuple):
    """The contents of one list. `wanted`: the resources that the manifests declare of it."""

    kind: Importable
    place: str
    wanted: list[Resource]


class Older:
    """Looks for them in lists of objects that hold data. `found`: KIND/PLACE/ID of each."""

    def __init__(
        self, state: State, resources: Mapping[Address, Resource], capabilities: frozenset[str]
    ) -> None:
        self.found: set[str] = set()
        self._state, self._resources, self._capabilities = state, resources, capabilities
        self._made_at = parse_time(recall(state, MADE).get("at"))
        self._known = {*state.ids.values(), *recall(state, _KNOWN).get("ids", ())}
        self._known |= {str(entry.data["unclaimed"]) for entry in state.unclaimed}
        self._known |= {id for record in state.records.values() for id in record.applied.get(DISMISSED, ())}
        self._known |= {resource.adopt_id or "" for resource in resources.values()}

    @cached_property
    def lists(self) -> Mapping[Read, _List]:
        """The lists of all places where something is declared or recorded, of whatever kind."""
        found: dict[Read, _List] = {}
        kinds = [kind for kind in find_kinds().values() if isinstance(kind, Importable) and kind.id_form]
        for address, kind in product({**self._resources, **self._state.records}, kinds):
            # Others make and replace what an import leaves out, as machines.
            place = "" if kind.import_when_asked else self._place(kind, address)
            read = kind.listing(place, self._capabilities) if place else None
            if read is not None:
                wanted = found.setdefault(read, _List(kind, place, [])).wanted
                if address.kind == kind.name and address in self._resources:
                    wanted.append(self._resources[address])
        return found

    def _place(self, kind: Importable, address: Address) -> str:
        """The place where objects of `kind` may be, because something is at `address`."""
        if kind.in_app:
            return address.app or ""
        if address.kind != kind.name:
            return ""
        resource, record = self._resources.get(address), self._state.records.get(address)
        place = kind.place(resource, self._resources) if resource is not None else ""
        return place or (record.scope.removeprefix("org/") if record is not None else "")

    def look(self, read: Read, observation: Observation) -> None:
        """Note what the answer to any `read` shows. What a manifest may adopt is not unknown."""
        if self._made_at is None or ALL in self._known:
            return
        older = [item for item in observation.objects if self._is_older(item, self._made_at)]
        about = self.lists.get(read) if older else None
        if about is None:
            return
        kind, place, wanted = about
        matches = [kind.match(resource.spec, resource.address) for resource in wanted]
        unknown = Lookup(older)
        claimed = {item.id for match in matches if match for item in unknown.possible(match)}
        self.found |= {f"{kind.name}/{place}/{item.id}" for item in older if item.id not in claimed}

    def _is_older(self, item: Any, made_at: datetime) -> bool:
        """Whether `item` was made before the state, and nobody knows it."""
        if item.id in self._known or not getattr(item, "present", False):
            return False
        created_at = parse_time(item.created_at)
        return created_at is not None and created_at < made_at

    def note(self) -> list[Diagnostic]:
        """One note, with all of them as its addresses."""
        if not self.found:
            return []
        forget, doctor = command("state", "forget", "--unclaimed", ALL), command("doctor")
        are = f"{counted(len(self.found), 'object')} {'is' if len(self.found) == 1 else 'are'}"
        return [
            Diagnostic(
                "older-objects",
                Severity.INFO,
                f"{are} older than this state and unknown to it: is an older state somewhere?",
                help=f"`{doctor}` names them; what only an older state knew (owed restarts, retained "
                f"objects, dismissals) is unknown; if they are meant to be there, run `{forget}`",
                advice=(doctor, forget),
                addresses=tuple(sorted(self.found)),
            )
        ]


async def older_objects(project: Project, resources: Mapping[Address, Resource]) -> list[Diagnostic]:
    """The note about older objects in all lists of what is declared or recorded. Sends nothing but GET."""
    older = Older(await project.store.load(), resources, project.capabilities)
    await read_all(project, list(older.lists), older.look)
    return older.note()


async def note_made(store: Store, actor: Actor) -> None:
    """Remember that the state is made now."""
    now = actor.clock.now().isoformat()
    await remember(store, actor, MADE, lambda known: known or {"at": now})


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
        _require_no_open_call(state, {move.source for move in moves} | {move.target for move in moves})
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
    """The moves of `source` and its `count`. Raises ReconcilerError for one that cannot be."""
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
    """Raises ReconcilerError where the record of `source` cannot become that of `target`."""
    record = state.records[source]
    if record.lifecycle.scratch:
        raise ReconcilerError(f"`{source}` is what a drill has made; drills delete it again")
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


def _require_no_open_call(state: State, addresses: Collection[Address]) -> None:
    """Raises ReconcilerError where a call is open. Under the lease: that of a run at work is not unknown."""
    for opened in state.open_intents:
        if opened.address in addresses:
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
        kinds = [kind for kind in find_kinds().values() if isinstance(kind, Importable) and kind.id_form]
        if id != ALL and not any(re.fullmatch(kind.id_form, id) for kind in kinds):
            return False  # no kind has such an id
        await remember(store, actor, _KNOWN, lambda known: {"ids": sorted({*known.get("ids", ()), id})})
        return True
    scope = found.data.get("scope", WHOLE_STATE)
    async with actor.leased(store, [scope]) as lease:
        await store.commit(lease, [actor.decided({"claimed": id}, found.address)])
    return True
