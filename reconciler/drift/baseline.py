"""Stores known drift next to the state, so that only new drift raises an alarm.

One entry is one value of one object, before and after. A value that changes again is new, and so is a value
of an object with another id. An object that gets another address stays known.
"""

import hashlib
import json
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Address, Change, Effect, FieldChange
from reconciler.core.steps import Plan
from reconciler.drift.find import Drift
from reconciler.kinds import find_kinds
from reconciler.manifests.writing.replace import Replacement, replace_files
from reconciler.planning.drift import change_of

FILE_NAME = "drift-baseline.json"
FORMAT_VERSION = "1"


class Entry(Struct, frozen=True):
    """One drifted value. A value that comes of a secret is stored as the SHA-256 of the platform's digest."""

    address: str
    id: str | None
    path: str
    before: Any
    after: Any

    @property
    def key(self) -> str:
        """All of the entry but the object's name, which a rename changes. May raise ValueError."""
        address = Address.parse(self.address)
        key = [address.kind, address.app, self.id, self.path, self.before, self.after]
        return json.dumps(key, sort_keys=True, default=str)


class Baseline(Struct, frozen=True):
    """The content of the file, in the order of its keys."""

    format_version: str
    lineage: str
    saved_at: datetime
    drift: tuple[Entry, ...]

    @property
    def keys(self) -> frozenset[str]:
        """The key of each known value."""
        return frozenset(entry.key for entry in self.drift)


def save_baseline(file: Path, plan: Plan, part: Collection[Address] | None = None) -> int:
    """Store the drift of `plan` as known, and return the number of its values.

    `part`: the addresses that were compared, where these are not all; the entries of other addresses stay
    known. Raises ReconcilerError, and stores nothing.
    """
    lineage = plan.context.lineage or ""
    earlier = load_baseline(file, lineage) if part is not None else None
    if has_errors(plan.diagnostics):
        raise Refused("not every object could be read, so no baseline was saved", plan.diagnostics)
    compared = {str(address) for address in part or ()}
    others = [entry for entry in earlier.drift if entry.address not in compared] if earlier else []
    drifted = [_entry(change, field) for change in plan.changes for field in change.fields]
    baseline = Baseline(FORMAT_VERSION, lineage, plan.context.at, (*others, *drifted))
    document = to_builtins(baseline, enc_hook=str)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as failure:
        raise ReconcilerError(f"cannot make {file.parent}: {failure.strerror}") from failure
    text = json.dumps(document, ensure_ascii=False, indent=2)
    replace_files([Replacement(file, f"{text}\n".encode())], mode=0o600)
    return len(drifted)


def load_baseline(file: Path, lineage: str | None) -> Baseline | None:
    """Return the stored baseline; None when there is none. Raises ReconcilerError for an unusable one.

    `lineage`: of the state that it must have been made with; "" for a state that does not exist yet.
    """
    save = command("drift", "--save-baseline")
    again = f"check the drift first; then create a new baseline of it with `{save}`"
    try:
        found = convert(json.loads(file.read_bytes()), Baseline)
        _ = found.keys
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure
    except (ValueError, ValidationError, RecursionError) as damage:
        raise ReconcilerError(f"the baseline {file} is damaged", help=again, advice=(save,)) from damage
    if found.format_version != FORMAT_VERSION:
        raise ReconcilerError(f"the baseline {file} was made by another version", help=again, advice=(save,))
    if lineage and found.lineage != lineage:
        raise ReconcilerError(f"the baseline {file} was made with another state", help=again, advice=(save,))
    return found


def only_new(drift: Drift, baseline: Baseline) -> tuple[Plan, int]:
    """The plan without the values that the baseline knows, and how many those were."""
    plan, keys = drift.plan, baseline.keys
    changes: list[Change] = []
    known = 0
    for change in plan.changes:
        new = [field for field in change.fields if _entry(change, field).key not in keys]
        known += len(change.fields) - len(new)
        if len(new) == len(change.fields):
            changes.append(change)
        elif new:
            kind, found = find_kinds()[change.address.kind], drift.drifted[change.address]
            changes.append(change_of(kind, found.record, found.resource, new))
    left_out = len(plan.changes) - len(changes)
    return replace(plan, changes=tuple(changes), unchanged=plan.unchanged + left_out), known


def _entry(change: Change, field: FieldChange) -> Entry:
    before, after = _stored(field, field.before), _stored(field, field.after)
    return Entry(str(change.address), change.id, field.path, before, after)


def _stored(field: FieldChange, value: Any) -> Any:
    if field.effect is not Effect.WRITE_ONLY:
        return value
    return f"sha256:{hashlib.sha256(str(value).encode()).hexdigest()}"
