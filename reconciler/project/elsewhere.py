"""What other manifest files and the states of other environments know of objects."""

from collections.abc import Iterable, Mapping

from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import object_of
from reconciler.moves.elsewhere import Elsewhere, questions
from reconciler.planning.declared import Desired
from reconciler.planning.siblings import Siblings
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import require_own_place, store_of


def look_elsewhere(desired: Desired, records: Mapping[Address, StateRecord]) -> Elsewhere:
    """Reads other files only where a new resource may be what an unwanted record was made for.

    `records`: as they are once Moved manifests are followed.
    """
    wanted = {resource.address for resource in desired.resources}
    unwanted = [record for record in records.values() if record.address not in wanted]
    not_given = frozenset(record.address for record in unwanted if not desired.selected(record))
    if not unwanted or (not not_given and desired.moved is None):
        return Elsewhere(not_given)
    resources = desired.resources
    if desired.focus is not None:
        resources = [each for each in resources if each.address in desired.focus]
    gone: set[Address] = set()
    moved: dict[Address, str] = {}
    for question in questions(find_kinds(), resources, records, unwanted, not_given):
        gone.update(each.address for each in question.declared if not desired.declared(each))
        if desired.moved is None:
            continue
        for address in (each.address for each in question.suspects):
            if address in gone or address not in not_given:
                moved[address] = desired.moved(address)
    return Elsewhere(not_given, frozenset(gone), moved)


async def read_siblings(config: ProjectSettings | None) -> Siblings:
    """What other environments on the same platform have recorded, as far as they can be read here.

    Changes no file there, makes none, takes no lock. Ids of another platform are other objects'. None has
    no other environments.
    """
    if config is None:
        return Siblings()
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
