"""From what live reads showed to the world that the twin begins with."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic import BaseModel

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
SOMETHING = "rehearsed"  # what every secret holds that the world begins with


def seed_of(
    observed: Mapping[Read, Observation],
    resources: Collection[Resource],
    records: Mapping[Address, StateRecord],
) -> Seed:
    """A seed of the sandbox with every object that was seen.

    The apps, machines and secrets that `resources` and `records` name exist as well, though nothing may have
    shown them: the machines run, and nobody knows what the secrets hold.
    """
    kinds = find_kinds()
    apps = {address.app or "" for address in (*(each.address for each in resources), *records)}
    machines = [
        (each.address.app or "", each.adopt_id or "")
        for each in resources
        if not kinds[each.address.kind].takes_over
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
                found[part][app, item.id] = _fitting(_FORMS[part], item.model_dump()) | within
    seen = {id for app, id in found["machines"]}
    held = [(each["app"], each.get("attached_machine_id") or "") for each in found["volumes"].values()]
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
    return ReconcilerError(
        f"the plan cannot be rehearsed, as the twin cannot hold what the platform shows: {failure.message}",
        help="apply does not need a rehearsal; please report what the twin does not know",
    )


def _place(path: str) -> tuple[str, dict[str, Any]]:
    """The app of what `path` shows, and what a seed says that the objects themselves do not."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[1:2] != ["apps"]:
        return "", {}
    app = parts[2]
    if "snapshots" in parts:
        return app, {"app": app, "volume_id": parts[4]}
    return app, {"app": app}


def _attached(cluster: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in cluster.get("attached_apps", ()) if "name" in each]


def _fitting(form: type[BaseModel] | None, item: Mapping[str, Any]) -> dict[str, Any]:
    """What of `item` the form knows: answers may hold more, and null where nothing is known."""
    assert form is not None
    fitting = {}
    for name, field in form.model_fields.items():
        value = item.get(name)
        if value is None:
            continue
        inner = _form_in(field.annotation)
        if inner is not None and isinstance(value, list):
            value = [_fitting(inner, each) for each in value]
        elif inner is not None and isinstance(value, Mapping):
            value = _fitting(inner, value)
        fitting[name] = value
    return fitting


def _form_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((form for each in get_args(annotation) if (form := _form_in(each)) is not None), None)
