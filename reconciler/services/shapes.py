"""What each GET answers: from the raw body to a list of wire models."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from reconciler.services.machines.wire.cluster import ClusterBackupList, ClusterList, ClusterReply
from reconciler.services.machines.wire.machine import Machine, MachineWaited
from reconciler.services.machines.wire.secret import SecretList
from reconciler.services.machines.wire.volume import Snapshot, Volume
from reconciler.services.providers.wire import Extension, ExtensionCosts

_SHAPES: dict[str, tuple[Any, Callable[[Any], Sequence[Any]]]] = {
    "cluster": (ClusterReply, lambda reply: [reply.data]),
    "clusters": (ClusterList, lambda reply: reply.data),
    "cluster_backups": (ClusterBackupList, lambda reply: reply.data),
    "volume": (Volume, lambda volume: [volume]),
    "volumes": (list[Volume], lambda volumes: volumes),
    "snapshots": (list[Snapshot], lambda snapshots: snapshots),
    "secrets": (SecretList, lambda reply: reply.secrets),
    "machine": (Machine, lambda machine: [machine]),
    "machines": (list[Machine], lambda machines: machines),
    "machine_wait": (MachineWaited, lambda waited: [waited]),
    "extension": (Extension, lambda extension: [extension]),
    "extension_costs": (ExtensionCosts, lambda costs: [costs]),
}


@cache
def _adapter(shape: str) -> TypeAdapter[Any]:
    return TypeAdapter(_SHAPES[shape][0])


def read_shape(shape: str, body: bytes) -> Sequence[Any]:
    """The objects in `body`, one for single answers. Raises pydantic.ValidationError (a ValueError)."""
    if shape == "machine_wait" and not body.strip():
        body = b"{}"  # its status says it all
    return _SHAPES[shape][1](_adapter(shape).validate_json(body))
