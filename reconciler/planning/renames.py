"""A manifest that left and one that came, for what may be one object: a renamed resource. Pure.

The platform renames nothing, so a renamed manifest looks like a removed and a new one. To act on that
would delete or abandon the data and make a second, empty object.

**A new address may be that of a recorded object if the object could become what the manifest says**: same
kind, same app, no field that the platform cannot change differs (where both values are known), and none
would have to shrink. Other fields may differ. An object that is known by its name or by an id in the
manifest must have the same one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pydantic import BaseModel

from reconciler.diagnostics import Diagnostic, error, warning
from reconciler.kinds.base import Kind
from reconciler.model import Action, Address, Change, Effect, Resource, StateRecord
from reconciler.planning.moves import another_name

# The field of a record that an apply has seen leave the manifests: what comes later is not its other half.
LEFT = "left the manifests"

_MAKES = (Action.CREATE, Action.RESTORE, Action.SET)
_LEAVES = (Action.RETAIN, Action.DELETE, Action.FORGET, Action.REFUSED)
_MOST_NAMED = 5
_MOST_COMPARED = 2_500  # pairs of names; where there are more, the order of the manifests decides,
_ENOUGH = 2 * _MOST_NAMED  # and so many candidates for each are looked at


@dataclass(frozen=True, slots=True)
class Rename:
    """What may be one resource under two names: `pairs` of (record, new resource), those of one `count`.

    `differing`: fields that a plan would change afterwards. `others`: records that it may be as well.
    `kept`: it left the manifests in an earlier apply, so that this is likely another one.
    """

    pairs: Sequence[tuple[StateRecord, Resource]]
    differing: Sequence[str]
    others: Sequence[StateRecord]
    kept: bool

    @property
    def reasons(self) -> dict[Address, str]:
        """Why nothing is done about each of the addresses."""
        new = {
            resource.address: f"perhaps {record.address} under a new name" for record, resource in self.pairs
        }
        old = {record.address: f"perhaps {resource.address} by now" for record, resource in self.pairs}
        return new | old

    @property
    def diagnostic(self) -> Diagnostic:
        """An error; a warning where the record has been `kept` on purpose."""
        record, resource = self.pairs[0]
        old, new = record.address, resource.address
        others = [f"`{each.address}` ({each.id})" for each in self.others]
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        notes = []
        if others:
            notes.append(f"it may also be {', '.join(others[:_MOST_NAMED])}{more}")
        if self.differing:
            named = ", ".join(f"`{name}`" for name in self.differing)
            notes.append(f"once it has moved, a plan compares {named}, which may differ")
        if self.kept:
            return warning(
                "perhaps-renamed",
                f"`{new}` may be `{old}` ({record.id}), which is kept without a manifest, under a new name",
                resource.span("metadata", "name"),
                notes=tuple(notes),
                help=f"if it is the same, do not apply, and add this manifest:\n{self._entries()}",
            )
        return error(
            "renamed",
            f"`{new}` may be `{old}` ({record.id}) under a new name: it would be made a second time",
            resource.span("metadata", "name"),
            notes=tuple(notes),
            help=f"if it is the same, add this manifest; then the record follows, and no call is sent:\n"
            f"{self._entries()}\n"
            f"{self._commands()}"
            f"if it is a new one, apply the manifests without it first, or run "
            f"`reconcile state forget {old}`",
        )

    def _moves(self) -> list[tuple[StateRecord, Address]]:
        """What has to be said: one move for all of a `count`, or else each by itself."""
        record, resource = self.pairs[0]
        whole = not record.address.ordinal and not resource.address.ordinal
        return [(old, new.address) for old, new in (self.pairs[:1] if whole else self.pairs)]

    def _entries(self) -> str:
        return "---\n".join(
            "apiVersion: reconciler/v1\nkind: Moved\n"
            f"metadata: {{name: {_entry_name(new)}}}\nspec: {{from: {old.address}, to: {new}}}\n"
            for old, new in self._moves()
        ).rstrip("\n")

    def _commands(self) -> str:
        """Empty where only a manifest can tell that the name on the platform stays."""
        if any(old.id in ("", old.address.name) for old, _ in self._moves()):
            return ""
        commands = (f"reconcile state mv {_quoted(old.address)} {_quoted(new)}" for old, new in self._moves())
        return f"or run `{' && '.join(commands)}`;\n"


def find_renames(
    kinds: Mapping[str, Kind],
    changes: Mapping[Address, Change],
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    left: Collection[Address],
) -> Iterator[Rename]:
    """Each new address at most once, and each of `left` too: addresses without a manifest, for good."""
    leavers: dict[tuple[str, str | None], dict[Address, list[StateRecord]]] = {}
    ids: set[str] = set()
    for address in sorted(left):
        change = changes.get(address)
        if change is not None and change.action in _LEAVES:
            whole = address._replace(ordinal=0)
            leavers.setdefault((address.kind, address.app), {}).setdefault(whole, []).append(records[address])
            ids.add(records[address].id)
    if not leavers:
        return
    comers: dict[tuple[str, str | None], dict[Address, list[Resource]]] = {}
    for address, change in changes.items():
        resource = resources.get(address)
        if resource is None or address in records or (address.kind, address.app) not in leavers:
            continue
        if change.action in _MAKES or (change.action is Action.REFUSED and resource.adopt_id in ids):
            whole = address._replace(ordinal=0)
            comers.setdefault((address.kind, address.app), {}).setdefault(whole, []).append(resource)
    for group, came in comers.items():
        yield from _paired(kinds[group[0]], list(came.values()), list(leavers[group].values()))


def _paired(
    kind: Kind, came: Sequence[Sequence[Resource]], left: Sequence[Sequence[StateRecord]]
) -> Iterator[Rename]:
    """The likeliest first: what left just now, with the fewest differences and the nearest name."""
    named = len(came) * len(left) <= _MOST_COMPARED
    found = []
    candidates: list[list[int]] = []
    for at, resources in enumerate(came):
        candidates.append([])
        # Where all were renamed at once, the one at the same place is the likeliest.
        for place in range(len(left)):
            to = (at + place) % len(left)
            differing = _differing(kind, resources[0], left[to])
            if differing is None:
                continue
            one, other = resources[0].address.name, left[to][0].address.name
            distance = 1 - SequenceMatcher(None, one, other).ratio() if named else place / len(left)
            kept = resources[0].adopt_id is None and all(each.applied.get(LEFT) for each in left[to])
            found.append((kept, len(differing), distance, at, to, differing))
            candidates[at].append(to)
            if not named and len(candidates[at]) == _ENOUGH:
                break
    found.sort(key=lambda item: item[:5])
    done_came: set[int] = set()
    done_left: set[int] = set()
    for kept, _, _, at, to, differing in found:
        if at in done_came or to in done_left:
            continue
        done_came.add(at)
        done_left.add(to)
        others = [left[other][0] for other in sorted(candidates[at]) if other != to]
        pairs = list(zip(left[to], came[at], strict=False))
        yield Rename(pairs, differing, others, kept)


def _differing(kind: Kind, resource: Resource, records: Sequence[StateRecord]) -> list[str] | None:
    """Of the first of `records` that `resource` may be; None: of none."""
    for record in records:
        found = _differences(kind, resource, record)
        if found is not None:
            return found
    return None


def _differences(kind: Kind, resource: Resource, record: StateRecord) -> list[str] | None:
    """Names of the fields that differ from the record; None where it cannot be the same object."""
    if resource.adopt_id is not None:
        return [] if kind.claim(resource.adopt_id, resource.spec, None) == _claim(kind, record) else None
    if not kind.fits(resource.spec, record) or another_name(kind, resource, record):
        return None
    differing = []
    for field in kind.fields:
        if field.name not in resource.spec.model_fields_set:
            continue
        want, known = getattr(resource.spec, field.name), record.applied.get(field.name)
        if want is None or known is None or known == want:
            continue
        if field.equal is not None and field.equal(want, known):
            continue
        if isinstance(want, BaseModel) and want.model_dump(exclude_none=True) == known:
            continue
        if field.effect is Effect.REFUSED or (field.effect is Effect.GROW and _shrinks(want, known)):
            return None
        differing.append(field.name)
    return differing


def _claim(kind: Kind, record: StateRecord) -> str:
    return kind.claim(record.id, None, record)


def _shrinks(want: object, known: float) -> bool:
    largest = getattr(want, "max", want)
    return isinstance(largest, int) and largest < known


def _entry_name(new: Address) -> str:
    parts = [new.kind.lower(), new.app, new.name, str(new.ordinal) if new.ordinal else None]
    return "-".join(part for part in parts if part)[:63]


def _quoted(address: Address) -> str:
    """For a shell, which takes `[1]` for a pattern."""
    return f"'{address}'" if address.ordinal else str(address)
