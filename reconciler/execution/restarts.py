"""Whether a machine is to be restarted, and what that settles: by answers, and a look right before it."""

from collections.abc import Collection, Iterable

from reconciler.core.errors import NotFound
from reconciler.core.model import Address, Obligation, StateRecord
from reconciler.execution.recorder import Served
from reconciler.execution.run import Run
from reconciler.kinds.restarts import itself
from reconciler.services.registry import Services


async def served_by(run: Run, machine: str, owing: Iterable[StateRecord]) -> Served:
    """What a restart of `machine` settles; nothing where none of what owes is seen on it.

    It settles what an answer said of this machine, and all that is owed for the objects seen on it. Raises
    PlatformError.
    """
    found: dict[Address, Collection[Obligation]] = {}
    is_due = False
    for record in owing:
        settled = [owed for owed in record.obligations if owed.machine == machine]
        unsure = not is_due or len(settled) < len(record.obligations)
        if unsure and await is_held_by(run.services, record, machine):
            is_due, settled = True, list(record.obligations)
        if settled:
            found[record.address] = settled
    return found if is_due else {}


async def is_held_by(services: Services, record: StateRecord, machine: str) -> bool:
    """Whether the object of `record` itself shows that `machine` holds it. Raises PlatformError."""
    try:
        shown = (await services.read(itself(record.address, record.id))).objects
    except NotFound:
        return False
    return any(each.id == record.id and each.attached_machine_id == machine for each in shown)
