"""Planting a world: apps and machines by the bodies of their control verbs, the rest as wire objects."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconciler.errors import StoreError
from reconciler.sandbox import control, fields, provider
from reconciler.sandbox.app import register, register_organization
from reconciler.sandbox.cluster import PLANS, Cluster
from reconciler.sandbox.exchange import Refusal
from reconciler.sandbox.secret import Secret
from reconciler.sandbox.volume import Snapshot, Volume, settle_in
from reconciler.sandbox.world import App, World
from reconciler.wire.base import parse_time

_GB = 1000**3


def plant(
    world: World,
    seed: Path | Mapping[str, Any] | None,
    apps: Sequence[Mapping[str, Any]],
    machines: Sequence[Mapping[str, Any]],
) -> None:
    """Plant `seed` into a world without apps, providers and users, then register `apps` and `machines`.

    A seed has the form of `GET /_sandbox/world`; ids may be missing, and a secret may have its `value`.
    From a path it is read as JSON. Raises StoreError when it cannot be read or planted.
    """
    name = seed if isinstance(seed, Path) else "this"
    try:
        if seed is not None and not any(
            any(world.all(cls)) for cls in (App, provider.Provider, provider.User)
        ):
            _plant_document(world, json.loads(seed.read_bytes()) if isinstance(seed, Path) else seed)
        for body in apps:
            control.register_app(world, body)
        for body in machines:
            control.register_machine(world, body)
    except Refusal as refusal:
        raise StoreError(f"the sandbox cannot hold this: {refusal.message}") from None
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StoreError(f"{name} is not a seed: {error}") from error
    except KeyError as error:
        raise StoreError(f"{name} is not a seed: {error} is missing") from error


def _plant_document(world: World, seed: Mapping[str, Any]) -> None:
    unknown = set(seed) - set(_PARTS)
    if unknown:
        raise ValueError(f"`{min(unknown)}` is none of {', '.join(_PARTS)}")
    for part, put in _PARTS.items():
        for item in seed.get(part) or ():
            put(world, item)


def _app(world: World, item: Mapping[str, Any]) -> None:
    control.register_app(world, item)


def _cluster(world: World, item: Mapping[str, Any]) -> None:
    plan = item.get("plan", "basic")
    fields.whole(item, "disk_size_gb", 1)
    if plan not in PLANS:
        raise ValueError(f"{plan} is not a plan")
    slug = item.get("organization", {}).get("slug", "personal")
    register_organization(world, slug)
    created_at = _at(world, item.get("created_at"))
    state = item.get("status", "ready")
    id = fields.text(item, "id") or world.new_id()
    cluster = Cluster(
        id,
        name=item.get("name", id),
        org_slug=slug,
        region=item.get("region", "ams"),
        plan=plan,
        pg_major_version=item.get("pg_major_version", "16"),
        disk_size_gb=item.get("disk_size_gb", 10),
        postgis_enabled=item.get("postgis_enabled", False),
        pool_mode="session",
        replicas=item.get("replicas", 1),
        attached_apps=[app["name"] for app in item.get("attached_apps", ())],
        created_at=created_at,
        ready_at=created_at if state == "ready" else None,
    )
    world.enter(cluster, state)


def _volume(world: World, item: Mapping[str, Any]) -> None:
    register(world, item["app"])
    fields.whole(item, "size_gb", 1)
    fields.whole(item, "snapshot_retention", 1)
    volume = Volume(
        fields.text(item, "id") or f"vol_{world.new_id()}",
        app=item["app"],
        name=fields.required_text(item, "name"),
        region=item.get("region", "ams"),
        zone=item.get("zone", "0000"),
        size_gb=item.get("size_gb", 3),
        encrypted=item.get("encrypted", True),
        fstype=item.get("fstype") or "ext4",
        snapshot_retention=item.get("snapshot_retention", 5),
        auto_backup_enabled=item.get("auto_backup_enabled", True),
        created_at=_at(world, item.get("created_at")),
        attached_machine_id=item.get("attached_machine_id"),
    )
    settle_in(world, volume, item.get("state", "created"))


def _snapshot(world: World, item: Mapping[str, Any]) -> None:
    source = world.find(Volume, item["volume_id"])
    created_at = _at(world, item.get("created_at"))
    days = item.get("retention_days", 5)
    size_gb = item["volume_size"] // _GB if "volume_size" in item else source.size_gb if source else 1
    snapshot = Snapshot(
        fields.text(item, "id") or f"vs_{world.new_id()}",
        volume_id=item["volume_id"],
        app=source.app if source else item.get("app", ""),
        volume_size_gb=size_gb,
        encrypted=source.encrypted if source else True,
        fstype=source.fstype if source else "ext4",
        retention_days=days,
        requested_at=created_at,
        created_at=created_at,
        size=item.get("size", 0),
    )
    world.enter(snapshot, "created", created_at, lasts_s=days * 24 * 3600)


def _secret(world: World, item: Mapping[str, Any]) -> None:
    register(world, item["app"])
    created_at = _at(world, item.get("created_at"))
    updated_at = _at(world, item.get("updated_at"))
    value = fields.text(item, "value")
    sha256 = item.get("sha256", "") if value is None else hashlib.sha256(value.encode()).hexdigest()
    digest = item.get("digest", sha256[:16])
    world.put(
        Secret(
            f"{item['app']}/{item['name']}",
            item["app"],
            item["name"],
            sha256,
            digest,
            created_at,
            updated_at,
        )
    )


def _machine(world: World, item: Mapping[str, Any]) -> None:
    """A machine as the world shows it, or the body of the control verb."""
    register(world, item["app"])
    config = item.get("config", {})
    body = {**config.get("guest", {}), **config.get("init", {}), "schedule": config.get("schedule"), **item}
    body["volumes"] = item.get("volumes") or [mount["volume"] for mount in config.get("mounts", ())]
    control.register_machine(world, body)


def _provider(world: World, item: Mapping[str, Any]) -> None:
    control.register_provider(world, _said(item))


def _user(world: World, item: Mapping[str, Any]) -> None:
    provider.register_user(world, _said(item))


def _resource(world: World, item: Mapping[str, Any]) -> None:
    provider.register_resource(world, _said(item))


def _said(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


# In this order, because machines hold volumes and snapshots are of volumes.
_PARTS: Mapping[str, Callable[[World, Mapping[str, Any]], None]] = {
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
    moment: datetime | None = parse_time(text)
    return world.now if moment is None else moment.astimezone(UTC).timestamp()
