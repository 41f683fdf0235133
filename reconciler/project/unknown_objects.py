"""What no record tracks: an address, what a call of ours made, and objects that are older than the state."""

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
from reconciler.core.model import DISMISSED, Address, Observation, Resource
from reconciler.core.steps import Read
from reconciler.core.wire import parse_time
from reconciler.core.words import counted
from reconciler.execution.decisions import Actor, recall, remember
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import Importable
from reconciler.manifests.validation.references import nearest_address
from reconciler.project.project import Project, read_all
from reconciler.state.store import LOST_ROWS, JournalEntry, State, Store


def not_recorded(address: Address, recorded: Collection[Address]) -> ReconcilerError:
    """What to raise; it names the one of `recorded` that is perhaps meant."""
    near, listed = nearest_address(address, recorded), command("state", "list")
    return ReconcilerError(
        f"`{address}` is not recorded",
        help=near or f"`{listed}` shows what is",
        advice=() if near else (listed,),
    )


def no_record_of(entry: JournalEntry, makes: Collection[Address], asks: Collection[Address]) -> Diagnostic:
    """What a call of ours made, or may have made, and no record tracks: a question before it is made again.

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


_MADE = "made"  # what the state remembers: when it was made
_KNOWN = "older"  # what the state remembers: ids of older objects that a person knows
ALL = "all"  # in the place of an id: whatever is older


class _List(NamedTuple):
    """What one list shows. `wanted`: what the manifests declare of it."""

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
        self._made_at = parse_time(recall(state, _MADE).get("at"))
        self._known = {*state.ids.values(), *recall(state, _KNOWN).get("ids", ())}
        self._known |= {str(entry.data["unclaimed"]) for entry in state.unclaimed}
        self._known |= {id for record in state.records.values() for id in record.applied.get(DISMISSED, ())}
        self._known |= {resource.adopt_id or "" for resource in resources.values()}

    @cached_property
    def lists(self) -> Mapping[Read, _List]:
        """Those of all places where something is declared or recorded, of whatever kind."""
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
        """Where objects of `kind` may be, because something is at `address`."""
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
        if item.id in self._known or not getattr(item, "present", False):
            return False
        created_at = parse_time(item.created_at)
        return created_at is not None and created_at < made_at

    def told(self) -> list[Diagnostic]:
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
    """As `Older.told`, of all lists of what is declared or recorded. Sends nothing but GET."""
    older = Older(await project.store.load(), resources, project.capabilities)
    await read_all(project, list(older.lists), older.look)
    return older.told()


async def note_made(store: Store, actor: Actor) -> None:
    """The state is made now."""
    now = actor.clock.now().isoformat()
    await remember(store, actor, _MADE, lambda known: known or {"at": now})


async def note_known(store: Store, actor: Actor, id: str) -> bool:
    """Objects of this id (`ALL`: all) are not told any more. False for what no kind takes for an id."""
    forms = [kind.id_form for kind in find_kinds().values() if isinstance(kind, Importable) and kind.id_form]
    if id != ALL and not any(re.fullmatch(form, id) for form in forms):
        return False
    await remember(store, actor, _KNOWN, lambda known: {"ids": sorted({*known.get("ids", ()), id})})
    return True
