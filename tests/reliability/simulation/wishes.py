"""What the manifests of a history wish for, and where the world differs from it."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from reconciler.core.diagnostics import Severity
from reconciler.core.model import Address, Resource
from reconciler.manifests.load import load
from reconciler.sandbox.parts.secret import Secret, holds
from tests.reliability.simulation.ghost import Ghost
from tests.reliability.simulation.power import POWERS
from tests.reliability.simulation.process import secret_value


@lru_cache(maxsize=64)  # of one history
def resources(manifests: str) -> Sequence[Resource]:
    """The resources of JSON documents, which are YAML as well."""
    text = "\n---\n".join(json.dumps(each) for each in json.loads(manifests))
    loaded = load(["-"], root=Path("/"), stdin=text.encode)
    errors = [item.message for item in loaded.diagnostics if item.severity is Severity.ERROR]
    assert not errors, errors
    return loaded.resources


def differences(ghost: Ghost, resource: Resource, id: str, secret: int) -> list[str]:
    """Where the object `id` is not as `resource` says; `secret` numbers the value in the environment."""
    address, spec = resource.address, resource.spec
    if address.kind == "PostgresCluster":
        cluster = ghost.cluster(id)
        return [] if cluster is not None and cluster.state == "ready" else [f"{address} is not ready"]
    if address.kind == "Secret":
        want = _value_of(ghost, spec, secret)
        live = ghost.sandbox.world.find(Secret, f"{address.app}/{id}")
        return [] if live is not None and holds(live.fingerprint, want) else [f"{address} has another value"]
    if address.kind == "Machine":
        machine = ghost.machine(spec.id)
        state = machine.state if machine is not None else "not there"
        right = spec.power is None or state in POWERS[spec.power]
        return [] if right else [f"{address} is {state}, not {spec.power}"]
    volume = ghost.volume(id)
    if volume is None or not volume.present:
        return [f"{address} ({id}) is not there"]
    found = [
        f"{address} has {name} {getattr(volume, name)} instead of {getattr(spec, name)}"
        for name in ("snapshot_retention", "auto_backup_enabled")
        if name in spec.model_fields_set and getattr(spec, name) != getattr(volume, name)
    ]
    if spec.wanted_size_gb is not None and not spec.wanted_size_gb <= volume.size_gb <= spec.largest_size_gb:
        found.append(f"{address} has {volume.size_gb} GB instead of {spec.wanted_size_gb}")
    return found


def _value_of(ghost: Ghost, spec: Any, secret: int) -> str:
    value = secret_value(secret)
    if spec.value_from.env is not None:
        return value
    record = ghost.records.get(Address("PostgresCluster", "orders"))
    host = f"pooler.{record.id}.postgres.internal" if record is not None else ""
    text: str = spec.value_from.template
    return text.replace("${env:PASSWORD}", value).replace(
        "${PostgresCluster/orders:endpoints.primary.pooler.host}", host
    )
