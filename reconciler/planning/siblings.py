"""What the project's other environments record: one object belongs to one of them."""

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.plural import in_a_row
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import object_of


class Siblings(Struct, frozen=True):
    """`owners`: by what tells an object from all others (`object_of`), the environment and the address.

    `unread`: the environments whose state is not here, or cannot be read.
    """

    owners: Mapping[tuple[str, str | None, str], tuple[str, Address]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def recorded_as(self, kinds: Mapping[str, Kind], record: StateRecord) -> str:
        """Where the object of `record`, which is new, is recorded already; "" for nowhere."""
        kind, address = kinds[record.address.kind], record.address
        owner = self.owners.get(object_of(kind, address, record.id, None, record))
        return f"as `{owner[1]}` in environment `{owner[0]}`" if owner is not None else ""

    def owner(self, kind: Kind, resource: Resource, id: str) -> tuple[str, Address] | None:
        """Which environment has the object `id` recorded, and where; None for none that is known."""
        return self.owners.get(object_of(kind, resource.address, id, resource.spec, None))


def recorded_elsewhere(kind: Kind, resource: Resource, id: str, owner: tuple[str, Address]) -> Diagnostic:
    """Two environments that both own an object would undo each other's changes, or delete it."""
    environment, address = owner
    return error(
        "recorded-elsewhere",
        f"`{resource.address}` would take {id}, which is recorded as `{address}` in environment "
        f"`{environment}`",
        resource.span(*(kind.id_path if resource.adopt_id is not None else ("metadata", "name"))),
        help=f"choose it with --env {environment}, or give this environment its own app or name; to "
        f"hand the object over, forget `{address}` there first",
    )


def unread_siblings(siblings: Siblings) -> Diagnostic:
    """Said once where something is taken over, and an environment may own it that nobody could ask."""
    names = in_a_row([f"`{name}`" for name in siblings.unread])
    unread = f"the state of {names}" if len(siblings.unread) == 1 else f"the states of {names}"
    return Diagnostic(
        "environment-not-read",
        Severity.INFO,
        f"another environment may own the objects that this plan adopts: {unread} cannot be read here",
    )
