"""Ids that no path may hold and no command may repeat: what has one is neither used nor passed over."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import BAD_ANSWER, Address, Resource, StateRecord
from reconciler.core.wire import is_id
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import holds_secrets

_FORM = "ids have letters, digits, `.`, `_`, `~` and `-`, and begin with a letter or digit"


def bad_records(
    kinds: Mapping[str, Kind], records: Mapping[Address, StateRecord], resources: Mapping[Address, Resource]
) -> Mapping[Address, Diagnostic]:
    """An error for each record whose object has no id that can be used.

    Its service answered with none (`BAD_ANSWER`), or the record holds it: earlier versions recorded whatever
    was answered.
    """
    found = {}
    for address, record in records.items():
        kind = kinds.get(address.kind)
        if record.applied.get(BAD_ANSWER):
            found[address] = _bad_answer(address, resources.get(address))
            continue
        if is_id(record.id) or not record.id or kind is None or holds_secrets(kind):
            continue
        resource, forget = resources.get(address), command("state", "forget", address)
        found[address] = error(
            "bad-id",
            f"`{address}` is recorded with an invalid id: `{record.id}`",
            resource.span("metadata", "name") if resource is not None else None,
            help=f"{_FORM}; `{forget}` drops the record, and does not change the object",
            advice=(forget,),
        )
    return found


def _bad_answer(address: Address, resource: Resource | None) -> Diagnostic:
    forget = command("state", "forget", address)
    return error(
        "bad-id",
        f"`{address}` was created, and the answer holds no id that can be used: nothing is sent about it",
        resource.span("metadata", "name") if resource is not None else None,
        help=f"{_FORM}: ask the provider for the object, and for a proper id; then run `{forget}`, and the "
        "next apply sends the same order again",
        advice=(forget,),
    )


def bad_object(resource: Resource, item: Any) -> Diagnostic | None:
    """An error where `item`, which is or may be the object of `resource`, has an id that is none."""
    name = item.bad_id
    if not name:
        return None
    return error(
        "bad-id",
        f"an object that is or may be `{resource.address}` is listed with an invalid id: "
        f"`{name}` is `{getattr(item, name)}`",
        resource.span("metadata", "name"),
        help=f"{_FORM}: look at the object, and check that the platform itself answers",
    )
