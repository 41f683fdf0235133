"""One resource as the platform and the record have it."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.errors import NotFound, ReconcilerError
from reconciler.kinds import find_kinds
from reconciler.model import Address, StateRecord
from reconciler.pipeline.project import Project


async def look_at(
    project: Project, address: Address
) -> tuple[StateRecord, dict[str, Any] | None, Mapping[str, Sequence[dict[str, Any]]]]:
    """The record, the live object (None: not on the platform, or not readable) and its details by name."""
    record = (await project.store.load()).records.get(address)
    kind = find_kinds().get(address.kind)
    if record is None or kind is None:
        raise ReconcilerError(f"`{address}` is not recorded", help="`reconcile state list` shows what is")
    read = kind.read(address, record.id, project.capabilities)
    live = None
    if read is not None:
        assert isinstance(read.path, str)
        try:
            objects = (await project.platform.read(read.path, read.shape)).objects
        except NotFound:
            objects = ()
        live = next((item for item in objects if item.id == record.id), None)
    details = {}
    for name, detail in kind.details(address, record.id, project.capabilities).items():
        assert isinstance(detail.path, str)
        if live is not None:
            answer = await project.platform.read(detail.path, detail.shape)
            details[name] = [item.model_dump() for item in answer.objects]
    return record, live.model_dump() if live is not None else None, details
