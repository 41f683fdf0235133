"""Planting a world: everything is checked first, against its form and for what it refers to."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reconciler.core.errors import StoreError
from reconciler.core.wire import parse_time
from reconciler.sandbox import registration
from reconciler.sandbox.clock import YEAR_ONE
from reconciler.sandbox.exchange import Refusal
from reconciler.sandbox.fingerprint import fingerprint
from reconciler.sandbox.parts import provider
from reconciler.sandbox.parts.app import DEFAULT_REGION, PERSONAL, register, register_organization
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.parts.machine import YEAR_ONE_S
from reconciler.sandbox.parts.secret import Secret, digest
from reconciler.sandbox.parts.volume import DAY_S, GIB, Snapshot, Volume, free_zone, settle_in
from reconciler.sandbox.problem import listed, located, problems
from reconciler.sandbox.seed_form import (
    FORMS,
    AppItem,
    ClusterItem,
    Item,
    MachineItem,
    SecretItem,
    SnapshotItem,
    VolumeItem,
)
from reconciler.sandbox.world import App, Machine, World


def plant(
    world: World,
    seed: Path | Mapping[str, Any] | None,
    apps: Sequence[Mapping[str, Any]],
    machines: Sequence[Mapping[str, Any]],
    *,
    name: str = "",
) -> None:
    """Plant `seed` into a world without apps, clusters, providers and users, then `apps` and `machines`.

    `apps` and `machines` are bodies of the control verbs. A seed has the form of `GET /_sandbox/world`; ids
    may be missing, and a secret may have its `value`. From a path it is read as JSON. Raises StoreError,
    which names `name` (or the path) and each place, when it cannot be read or planted.
    """
    empty = not any(any(world.all(cls)) for cls in (App, Cluster, provider.Provider, provider.User))
    if seed is not None and empty:
        name = name or (str(seed) if isinstance(seed, Path) else "the seed")
        found = _plant_document(world, _document(seed, name) if isinstance(seed, Path) else seed)
        if found:
            raise StoreError(listed(found, name))
    try:
        for body in apps:
            registration.register_app(world, body)
        for body in machines:
            registration.register_machine(world, body)
    except Refusal as refusal:
        raise StoreError(f"the sandbox cannot hold this: {refusal.message}") from None


def _document(file: Path, name: str) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{name} is not a seed: {error}") from error


def _plant_document(world: World, seed: Any) -> list[str]:
    """What is wrong with the seed, as `place: problem`. Then the world is not to be used."""
    if not isinstance(seed, Mapping):
        return ["a seed is a mapping"]
    found = [f"{part}: is unknown; a seed has {', '.join(_PARTS)}" for part in seed if part not in _PARTS]
    parts: dict[str, list[Any]] = {}
    for part in _PARTS:
        items = seed.get(part)
        if items is not None and not isinstance(items, list):
            found.append(f"{part}: must be a list")
        else:
            checked = [_checked(part, number, item, found) for number, item in enumerate(items or ())]
            parts[part] = checked
            found += _repeated(part, checked)
    if found:
        return found
    found += _missing(parts)
    for part, put in _PARTS.items():
        for number, item in enumerate(parts[part]):
            try:
                put(world, item)
            except Refusal as refusal:
                found.append(f"{located(part, [number])}: {refusal.message}")
    for volume in world.all(Volume):
        if not volume.zone:
            volume.zone = free_zone(world, volume.app, volume.name, volume.region, unique=False)
    return found


def _checked(part: str, number: int, item: Any, found: list[str]) -> Any:
    place = located(part, [number])
    if not isinstance(item, Mapping):
        found.append(f"{place}: must be a mapping")
        return item
    if part not in FORMS:
        return item
    form = FORMS[part]
    try:
        return form.model_validate({name: value for name, value in item.items() if value is not None})
    except ValidationError as error:
        known = f"; {part} have {', '.join(form.model_fields)}"
        found += [
            f"{each}{known}" if each.endswith("is unknown") else each for each in problems(error, place)
        ]
        return item


def _repeated(part: str, items: Sequence[Any]) -> Iterator[str]:
    seen: dict[tuple[str, ...], int] = {}
    for number, item in enumerate(items):
        key = item.key() if isinstance(item, Item) else None
        if key is not None and seen.setdefault(key, number) != number:
            yield f"{located(part, [number])}: {'/'.join(key)} is {located(part, [seen[key]])} already"


def _missing(parts: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """References to what does not exist. An app exists as soon as something of it does."""
    apps = {item.name for item in parts["apps"]}
    apps |= {item.app for part in ("volumes", "snapshots", "secrets", "machines") for item in parts[part]}
    volumes = {item.id: item.app for item in parts["volumes"]}
    machines = {item.id: item.app for item in parts["machines"]}
    for number, cluster in enumerate(parts["clusters"]):
        for place, attached in enumerate(cluster.attached_apps):
            if attached.name not in apps:
                yield f"clusters[{number}].attached_apps[{place}].name: there is no app {attached.name}"
    for number, volume in enumerate(parts["volumes"]):
        holder = volume.attached_machine_id
        if holder is not None and machines.get(holder) != volume.app:
            yield (f"volumes[{number}].attached_machine_id: there is no machine {holder} in app {volume.app}")
    for number, snapshot in enumerate(parts["snapshots"]):
        alone = snapshot.app is not None and snapshot.volume_size is not None
        if snapshot.volume_id not in volumes and not alone:
            yield (
                f"snapshots[{number}].volume_id: there is no volume {snapshot.volume_id}; a snapshot of one "
                "that is gone has `app` and `volume_size`"
            )
        elif snapshot.app not in (None, volumes.get(snapshot.volume_id, snapshot.app)):
            yield f"snapshots[{number}].app: its volume is of app {volumes[snapshot.volume_id]}"


def _app(world: World, item: AppItem) -> None:
    app = register(world, item.name, item.org_slug, item.primary_region)
    app.secrets_version = item.secrets_version or 0
    world.put(app)


def _cluster(world: World, item: ClusterItem) -> None:
    slug = item.organization.slug if item.organization else PERSONAL
    register_organization(world, slug)
    created_at = _at(world, item.created_at)
    id = item.id or world.new_id()
    ready_at = _known(item.ready_at)
    cluster = Cluster(
        id,
        name=item.name or id,
        org_slug=slug,
        region=item.region or DEFAULT_REGION,
        plan=item.plan,
        pg_major_version=item.pg_major_version,
        disk_size_gb=item.disk_size_gb,
        postgis_enabled=item.postgis_enabled,
        pool_mode=item.pool_mode,
        replicas=item.replicas,
        attached_apps=[app.name for app in item.attached_apps],
        backups=[backup.model_dump() for backup in item.backups],
        created_at=created_at,
        ready_at=created_at if ready_at is None and item.status == "ready" else ready_at,
        deleted_at=_known(item.deleted_at),
    )
    world.enter(cluster, item.status)


def _volume(world: World, item: VolumeItem) -> None:
    """Without a zone at first, until the zones that are given are all known."""
    app = register(world, item.app)
    volume = Volume(
        item.id or f"vol_{world.new_id()}",
        app=item.app,
        name=item.name,
        region=item.region or app.primary_region,
        zone=item.zone or "",
        size_gb=item.size_gb,
        encrypted=item.encrypted,
        fstype=item.fstype,
        snapshot_retention=item.snapshot_retention,
        auto_backup_enabled=item.auto_backup_enabled,
        created_at=_at(world, item.created_at),
        attached_machine_id=item.attached_machine_id,
        attached_alloc_id=item.attached_alloc_id or None,
        host_dedication_key=item.host_dedication_key or "",
    )
    settle_in(world, volume, item.state)


def _snapshot(world: World, item: SnapshotItem) -> None:
    source = world.find(Volume, item.volume_id)
    app = item.app or (source.app if source else "")
    register(world, app)
    unknown = item.created_at is not None and item.created_at.startswith(YEAR_ONE[:5])
    state = item.status or ("running" if unknown else "created")
    finished = state == "created" or (state == "failed" and item.created_at is not None and not unknown)
    created_at = _at(world, item.created_at) if finished else None
    requested_at = _known(item.requested_at)
    snapshot = Snapshot(
        item.id or f"vs_{world.new_id()}",
        volume_id=item.volume_id,
        app=app,
        volume_size_gb=math.ceil(item.volume_size / GIB)
        if item.volume_size
        else source.size_gb
        if source
        else 1,
        encrypted=(source is None or source.encrypted) if item.encrypted is None else item.encrypted,
        fstype=item.fstype or (source.fstype if source else "ext4"),
        retention_days=item.retention_days,
        requested_at=(created_at or world.now) if requested_at is None else requested_at,
        created_at=created_at,
        size=item.size or 0,
        digest=item.digest or None,
    )
    lasts_s = item.retention_days * DAY_S if state == "created" else None
    world.enter(snapshot, state, created_at if state == "created" else None, lasts_s)


def _secret(world: World, item: SecretItem) -> None:
    register(world, item.app)
    kept = item.fingerprint if item.value is None else fingerprint(item.value, world.fingerprint_key)
    world.put(
        Secret(
            f"{item.app}/{item.name}",
            item.app,
            item.name,
            kept,
            digest(kept) if item.digest is None else item.digest,
            _at(world, item.created_at),
            _at(world, item.updated_at),
        )
    )


def _machine(world: World, item: MachineItem) -> None:
    register(world, item.app)
    guest, init = item.config.guest, item.config.init
    body: dict[str, Any] = {
        **guest.model_dump(exclude_none=True),
        **init.model_dump(exclude_none=True),
        "schedule": item.config.schedule,
        **item.model_dump(
            exclude_none=True,
            exclude={"config", "volumes", "instance_id", "memory_kept", "moved", "host", "private_ip"},
        ),
        "id": item.id or world.new_id(14),
    }
    named = item.volumes if item.volumes is not None else [mount.volume for mount in item.config.mounts]
    held = [each.id for each in world.children(Volume, item.app) if each.attached_machine_id == body["id"]]
    if not set(named) <= set(held):
        body["volumes"] = list(dict.fromkeys([*held, *named]))
    registration.register_machine(world, body)
    machine = world.find(Machine, body["id"])
    assert machine is not None
    machine.instance_id = item.instance_id or machine.instance_id
    machine.moved, machine.host = item.moved, item.host
    if item.memory_kept is not None:  # it is the world's own: an unknown boot stays unknown
        machine.memory_kept = item.memory_kept
        machine.booted_at = _known(item.booted_at)
    world.put(machine)


def _provider(world: World, item: Mapping[str, Any]) -> None:
    registration.register_provider(world, _said(item))


def _user(world: World, item: Mapping[str, Any]) -> None:
    provider.register_user(world, _said(item))


def _resource(world: World, item: Mapping[str, Any]) -> None:
    provider.register_resource(world, _said(item))


def _said(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


# In this order, because machines hold volumes and snapshots are of volumes.
_PARTS: Mapping[str, Callable[[World, Any], None]] = {
    "apps": _app,
    "clusters": _cluster,
    "volumes": _volume,
    "snapshots": _snapshot,
    "secrets": _secret,
    "machines": _machine,
    "providers": _provider,
    "users": _user,
    "resources": _resource,
}


def _at(world: World, text: str | None) -> float:
    """The moment in `text`, now where there is none."""
    known = _known(text)
    return world.now if known is None else known


def _known(text: str | None) -> float | None:
    if text is None:
        return None
    moment = parse_time(text)
    return YEAR_ONE_S if moment is None else moment.timestamp()
