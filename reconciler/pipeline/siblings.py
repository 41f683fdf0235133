"""The states of the project's other environments, as far as they can be read here."""

from collections.abc import Iterable

from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import object_of
from reconciler.pipeline.private import require_own_place
from reconciler.pipeline.settings import ProjectSettings
from reconciler.pipeline.store import store_of
from reconciler.planning.siblings import Siblings


async def read_siblings(config: ProjectSettings) -> Siblings:
    """What environments on the same platform have recorded. Changes no file there, makes none, takes no lock.

    Ids of another platform are other objects'.
    """
    kinds, environments = find_kinds(), config.environments()
    owners: dict[tuple[str, str | None, str], tuple[str, Address]] = {}
    unread = []
    for name in (BASE, *environments) if environments else ():
        other = config.of(name)
        same_platform = other.settings.platform.base_url == config.settings.platform.base_url
        if other.env == config.env or not same_platform:
            continue
        records = await _records(other)
        if records is None:
            unread.append(name)
            continue
        for record in records:
            if record.id and record.address.kind in kinds:
                key = object_of(kinds[record.address.kind], record.address, record.id, None, record)
                owners.setdefault(key, (name, record.address))
    return Siblings(owners, tuple(unread))


async def _records(config: ProjectSettings) -> Iterable[StateRecord] | None:
    """None where there is no state, or none that can be read: it may be on another machine.

    Nor is another one read than the settings pin.
    """
    require_own_place(config, config.settings.state_url)
    try:
        store = store_of(config, read_only=True)
        try:
            state = await store.load()
        finally:
            await store.close()
    except ReconcilerError:
        return None
    pin = config.settings.state.lineage
    return state.records.values() if state.lineage and pin in (None, state.lineage) else None
