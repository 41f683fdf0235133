"""What a plan must know of manifest files that were not given, looked up before the plan is made."""

from collections.abc import Mapping

from reconciler.core.model import Address, StateRecord
from reconciler.kinds import find_kinds
from reconciler.moves.elsewhere import Elsewhere, questions
from reconciler.pipeline.declared import Desired


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
