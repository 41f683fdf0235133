"""Drift that is known: kept beside the state, so that only what is new makes an alarm.

One entry is one value of one object, with what it was and what it became: one that moves further, or an
object with another id, is new. An object that got another address stays known.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
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


class Baseline(Struct, frozen=True):
    """`entries`: each value known to have drifted, by what it is known by."""

    lineage: str
    saved_at: datetime
    entries: Mapping[str, Mapping[str, Any]]

    def about_others(self, addresses: Collection[Address]) -> list[Mapping[str, Any]]:
        """The entries of all addresses but these."""
        ours = {str(address) for address in addresses}
        return [entry for entry in self.entries.values() if entry["address"] not in ours]


def save_drift(drift: Drift, file: Path, part: Collection[Address] | None = None) -> int:
    """Store what drifts now as known, and return how many values.

    `part`: the addresses that were looked at, where those are not all: what is known of others stays known.
    Raises ReconcilerError, and stores nothing.
    """
    before = load_baseline(file, drift.plan.context.lineage) if part is not None else None
    return save_baseline(file, drift.plan, before.about_others(part) if before and part is not None else ())


def save_baseline(file: Path, plan: Plan, keep: Collection[Mapping[str, Any]] = ()) -> int:
    """Store what drifts now, and return how many values. Raises ReconcilerError, and stores nothing.

    `keep`: entries of an earlier baseline that stay known.
    """
    if has_errors(plan.diagnostics):
        raise Refused("not every object could be read, so no baseline was saved", plan.diagnostics)
    entries = list(_entries(plan))
    document = {
        "format_version": FORMAT_VERSION,
        "lineage": plan.context.lineage or "",
        "saved_at": plan.context.at.isoformat(),
        "drift": [*keep, *entries],
    }
    text = json.dumps(document, ensure_ascii=False, indent=2, default=str)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as failure:
        raise ReconcilerError(f"cannot make {file.parent}: {failure.strerror}") from failure
    replace_files([Replacement(file, f"{text}\n".encode())], mode=0o600)
    return len(entries)


def load_baseline(file: Path, lineage: str | None) -> Baseline | None:
    """The stored baseline; None when there is none. Raises ReconcilerError for one that cannot be relied on.

    `lineage`: of the state that it must have been made with; "" for a state that is not there yet.
    """
    save = command("drift", "--save-baseline")
    again = f"check the drift first; then create a new baseline of it with `{save}`"
    try:
        document = json.loads(file.read_bytes())
        found = Baseline(
            document["lineage"],
            datetime.fromisoformat(document["saved_at"]),
            {_known_by(entry): entry for entry in document["drift"]},
        )
        version = document["format_version"]
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure
    except (ValueError, KeyError, TypeError, RecursionError) as damage:
        raise ReconcilerError(f"the baseline {file} is damaged", help=again, advice=(save,)) from damage
    if version != FORMAT_VERSION:
        raise ReconcilerError(f"the baseline {file} was made by another version", help=again, advice=(save,))
    if lineage and found.lineage != lineage:
        raise ReconcilerError(f"the baseline {file} was made with another state", help=again, advice=(save,))
    return found


def only_new(drift: Drift, baseline: Baseline) -> tuple[Plan, int]:
    """The plan without the values that the baseline knows, and how many those were."""
    plan = drift.plan
    changes: list[Change] = []
    known = 0
    for change in plan.changes:
        new = [field for field in change.fields if _known_by(_entry(change, field)) not in baseline.entries]
        known += len(change.fields) - len(new)
        if len(new) == len(change.fields):
            changes.append(change)
        elif new:
            kind, found = find_kinds()[change.address.kind], drift.drifted[change.address]
            changes.append(change_of(kind, found.record, found.resource, new))
    left_out = len(plan.changes) - len(changes)
    return replace(plan, changes=tuple(changes), unchanged=plan.unchanged + left_out), known


def _entries(plan: Plan) -> Iterator[Mapping[str, Any]]:
    for change in plan.changes:
        for field in change.fields:
            yield _entry(change, field)


def _entry(change: Change, field: FieldChange) -> Mapping[str, Any]:
    return {
        "address": str(change.address),
        "id": change.id,
        "path": field.path,
        "before": _kept(field, field.before),
        "after": _kept(field, field.after),
    }


def _kept(field: FieldChange, value: Any) -> Any:
    """What comes of a secret is not even kept as the platform's digest of it."""
    if field.effect is not Effect.WRITE_ONLY:
        return value
    return f"sha256:{hashlib.sha256(str(value).encode()).hexdigest()}"


def _known_by(entry: Any) -> str:
    """All of an entry but the object's name, which a rename changes: the id says which object it is.

    Raises ValueError or TypeError for what is not an entry.
    """
    if not isinstance(entry, dict) or not entry.keys() >= {"address", "id", "path", "before", "after"}:
        raise ValueError("no entry of a baseline")
    address = Address.parse(entry["address"])
    named = [address.kind, address.app, *(entry[name] for name in ("id", "path", "before", "after"))]
    return json.dumps(named, sort_keys=True, default=str)
