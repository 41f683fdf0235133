"""The origin of a volume's data, in manifests and in records.

Source: platform API, 4.2 (`snapshot_id`, `source_volume_id`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pydantic import Field as Describe

from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.model import Address, StateRecord
from reconciler.kinds.base import Subject
from reconciler.kinds.manifest import TEXT_PATTERN, Locate, Spec, point_at_patch

ORIGIN_FIELDS = frozenset({"snapshot_id", "source_volume_id", "from_"})  # of a manifest


class Origin(Spec):
    """Where the data comes from: exactly one of the three."""

    snapshot_id: str | None = Describe(
        None, pattern=TEXT_PATTERN, description="Snapshot to create the volume from.", examples=["vs_123"]
    )
    source_volume_id: str | None = Describe(
        None, pattern=TEXT_PATTERN, description="Id of the volume to fork.", examples=["vol_123"]
    )
    volume: str | None = Describe(
        None, description="Name of the Volume manifest of the same app to fork.", examples=["data"]
    )


def check_origin(
    origin: Origin | None, from_: Origin | None, written: Collection[str], span: Locate
) -> Iterable[Diagnostic]:
    """Yield the problems of the origin in a manifest.

    `from_`: its field `from`. `written`: the names of all its fields, also of those with an invalid value.
    """
    given: list[str] = [name for name in ("snapshot_id", "source_volume_id") if name in written]
    path = ("spec", given[0]) if given else ("spec", "from")
    inside = from_.model_fields_set if from_ is not None else set()
    if from_ is not None:
        given += [f"from.{name}" for name in Origin.model_fields if name in inside]
    elif "from_" in written:
        given.append("from")
    if len(given) > 1 or (from_ is not None and not given and not inside):
        problem = error(
            "one-of",
            f"a volume has one origin, but {len(given)} are given" if given else "`from` has no origin",
            span(*path),
            label=", ".join(given),
            help="give exactly one of `snapshot_id`, `source_volume_id` and `volume`",
        )
        offered = [("spec", "from", name) for name in Origin.model_fields]
        yield point_at_patch(problem, [("spec", *name.split(".")) for name in given], offered, span)
        return
    if origin is None:
        return
    if origin.snapshot_id is not None and "region" not in written:
        yield error(
            "missing-field",
            "`region` is required when a volume is created from a snapshot",
            span(*path),
            help="set `region` to the region of the machine that the volume will be attached to",
        )


def size_of_source(origin: Origin, subject: Subject) -> int | None:
    """Return the size (GB) of the volume to fork, where the app's list shows it."""
    named = Address("Volume", origin.volume or "", subject.address.app)
    source = subject.neighbours.by_id.get(origin.source_volume_id or subject.referred.get(named, ""))
    return source.size_gb if source is not None else None


def size_not_given(subject: Subject, default_gb: int) -> Diagnostic:
    """Return a warning about an origin of unknown size."""
    return warning(
        "size-not-given",
        f"no `size_gb`: the default of {default_gb} GB is sent, which is too small if the origin is larger",
        subject.span("spec", "from" if subject.spec.from_ is not None else "snapshot_id"),
        help="set `size_gb` to at least the origin's size",
    )


def may_be_from(
    origin: Origin | None, record: StateRecord, alias: Callable[[Address, Address], bool]
) -> bool:
    """Whether the volume of `record` may have been created from `origin`, as far as is known.

    `alias`: whether two addresses are those of one volume.
    """
    if origin is None:
        return True
    if origin.source_volume_id == record.id:
        return False  # its own origin
    if "origin" not in record.applied:
        return True
    known = record.applied["origin"]
    if known is None:
        return False
    want = origin.model_dump(exclude_none=True)
    if known.keys() == want.keys() == {"volume"}:
        kind, app = record.address.kind, record.address.app
        return alias(Address(kind, known["volume"], app), Address(kind, want["volume"], app))
    # A name and an id may be of one volume.
    return bool(known == want) or known.keys() ^ want.keys() == {"volume", "source_volume_id"}


def renamed_origin(record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
    """Return `record.applied` after `moved`: a forked volume names its source by the new address."""
    name = (record.applied.get("origin") or {}).get("volume")
    after = moved.get(Address(record.address.kind, name, record.address.app)) if name else None
    if after is None:
        return record.applied
    if after.ordinal:  # no manifest can name that one
        return {key: value for key, value in record.applied.items() if key != "origin"}
    return {**record.applied, "origin": {"volume": after.name}}


def names_of_origin(record: StateRecord | None) -> Collection[str]:
    """Return the address or the id of what the recorded volume was made from; none where that is unknown."""
    if record is None or not (origin := record.applied.get("origin")):
        return ()
    kind, app = record.address.kind, record.address.app
    return [str(Address(kind, of, app)) if field == "volume" else of for field, of in origin.items()]


def why_created(origin: Origin | None) -> str:
    """Return the reason of a create, as a plan shows it."""
    if origin is None:
        return "not on the platform"
    if origin.snapshot_id is not None:
        return f"from snapshot {origin.snapshot_id}"
    return f"forked from {origin.source_volume_id or origin.volume}"
