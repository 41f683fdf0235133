"""Makes the world that the twin starts with, from the answers of live reads."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from reconciler.core.errors import ReconcilerError, StoreError
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import secret_names
from reconciler.sandbox.catalog import SEEDS
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.machine import Machine
from reconciler.services.machines.wire.secret import Secret
from reconciler.services.machines.wire.volume import Snapshot, Volume

Seed = dict[str, list[dict[str, Any]]]

_PARTS: Mapping[type[BaseModel], str] = {
    Volume: "volumes",
    Cluster: "clusters",
    Machine: "machines",
    Snapshot: "snapshots",
    Secret: "secrets",
}
_FORMS = {seed.name: seed.form for seed in SEEDS}
SOMETHING = "rehearsed"  # the value of every secret in that world


def seed_of(
    observed: Mapping[Read, Observation],
    resources: Collection[Resource],
    records: Mapping[Address, StateRecord],
) -> Seed:
    """Return a seed of the sandbox with every observed object.

    The apps, machines and secrets that `resources` and `records` name exist, too, although no answer may have
    shown them: these machines run, and these secrets have any value. Raises ReconcilerError where the sandbox
    cannot hold an object.
    """
    kinds = find_kinds()
    apps = {address.app or "" for address in (*(resource.address for resource in resources), *records)}
    machines = [
        (resource.address.app or "", resource.adopt_id or "")
        for resource in resources
        if not kinds[resource.address.kind].takes_over
    ]
    secrets = [
        (address.app or "", name)
        for address, record in records.items()
        for name in secret_names(kinds[address.kind], None, record)
    ]
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
    for read, observation in observed.items():
        app, within = _place(str(read.path))
        for item in observation.objects:
            part = _PARTS.get(type(item))
            if part is not None:
                found[part][app, item.id] = _fitting(
                    part, len(found[part]), item.model_dump(exclude_none=True) | within
                )
    seen = {id for app, id in found["machines"]}
    held = [(volume["app"], volume.get("attached_machine_id") or "") for volume in found["volumes"].values()]
    for app, id in (*machines, *held):
        if id and id not in seen:
            found["machines"][app, id] = {"app": app, "id": id, "state": "started"}
    for app, name in secrets:
        found["secrets"].setdefault((app, name), {"app": app, "name": name})
    for secret in found["secrets"].values():
        secret.setdefault("value", SOMETHING)
    named = {name for cluster in found["clusters"].values() for name in _attached(cluster)}
    placed = {app for part in found.values() for app, _ in part}
    every = sorted({*apps, *named, *placed} - {""})
    return {"apps": [{"name": name} for name in every]} | {
        part: list(items.values()) for part, items in found.items()
    }


def cannot_plant(failure: StoreError) -> ReconcilerError:
    """The error where the sandbox cannot hold the observed world."""
    return ReconcilerError(
        f"the plan cannot be rehearsed, as the twin cannot hold what the platform shows: {failure.message}",
        help="apply does not need a rehearsal; please report what the twin does not know",
    )


def _place(path: str) -> tuple[str, dict[str, Any]]:
    """The app in `path`, and the fields of a seed that are in the path and not in the objects."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[1:2] != ["apps"]:
        return "", {}
    app = parts[2]
    if "snapshots" in parts:
        return app, {"app": app, "volume_id": parts[4]}
    return app, {"app": app}


def _attached(cluster: Mapping[str, Any]) -> list[str]:
    return [app["name"] for app in cluster.get("attached_apps", ()) if "name" in app]


def _fitting(part: str, index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `item` that the form of a seed has. Raises ReconcilerError where the form refuses one."""
    form = _FORMS[part]
    assert form is not None
    try:
        return form.model_validate(item, extra="ignore").model_dump(exclude_unset=True)
    except ValidationError as failure:
        first = failure.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (f"{part}[{index}]", *first["loc"])))
        raise cannot_plant(StoreError(f"{place}: {first['msg']}")) from None
