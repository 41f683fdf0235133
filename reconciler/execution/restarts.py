"""What a restart of a machine does, as far as answers and a look right before it tell."""

from collections.abc import Collection, Iterable, Mapping

from reconciler.core.errors import PlatformError
from reconciler.core.model import Address, Obligation, StateRecord
from reconciler.execution.own_calls import OwnReader
from reconciler.execution.run import Run
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HeldByMachine
from reconciler.services.registry import Services


async def served_by(
    run: Run, machine: str, owing: Iterable[StateRecord]
) -> Mapping[Address, Collection[Obligation]]:
    """What a restart of `machine` settles of what is owed now; nothing where it is not the one to restart.

    One of the objects must be seen on it: they may have moved since. It settles what an answer said of this
    machine, and all that is owed for the objects that are seen on it.
    """
    found: dict[Address, Collection[Obligation]] = {}
    is_due = False
    for record in owing:
        settled = [owed for owed in record.obligations if owed.machine == machine]
        if (not is_due or len(settled) < len(record.obligations)) and await _is_seen_on(run, record, machine):
            is_due, settled = True, list(record.obligations)
        if settled:
            found[record.address] = settled
    return found if is_due else {}


async def _is_seen_on(run: Run, record: StateRecord, machine: str) -> bool:
    reader = OwnReader(run.own, record.address, run.services, run.recorder.records)
    try:
        return await is_held_by(reader, record, machine)
    except PlatformError:
        return False


async def is_held_by(reader: OwnReader | Services, record: StateRecord, machine: str) -> bool:
    """Whether the object of `record` itself shows that `machine` holds it. Raises PlatformError."""
    kind = find_kinds()[record.address.kind].role(HeldByMachine)
    if kind is None:
        return False
    shown = (await reader.read(kind.itself(record.address, record.id))).objects
    return any(each.id == record.id and each.attached_machine_id == machine for each in shown)
