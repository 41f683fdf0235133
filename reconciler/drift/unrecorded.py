"""Diagnostics about manifests and objects that drift cannot compare: no record tracks them."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from reconciler.core.advice import command
from reconciler.core.diagnostics import IN_FLIGHT, Diagnostic, Severity, error, warning
from reconciler.core.model import Action, Address, Resource, StateRecord
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind, Subject
from reconciler.kinds.roles import Importable, listed
from reconciler.planning.decide import inferred_warning
from reconciler.planning.declared import declared_scopes
from reconciler.project.project import Project
from reconciler.project.unknown_objects import no_record_of
from reconciler.state.store import State


def left_open(
    project: Project,
    state: State,
    records: Mapping[Address, StateRecord],
    wanted: Mapping[Address, Resource],
    outside: Collection[Address],
) -> Iterator[Diagnostic]:
    """Yield what earlier runs left besides open calls: untracked objects, inferred ids, spooled outcomes."""
    kinds, new = find_kinds(), [address for address in wanted if address not in records]
    unlisted = [
        address
        for address in new
        if kinds[address.kind].role(Importable) and kinds[address.kind].read_alone
        if listed(kinds[address.kind], wanted[address], project.capabilities, wanted) is None
    ]
    yield from (no_record_of(entry, new, unlisted) for entry in state.unclaimed)
    for address, record in records.items():
        if record.inferred and address not in outside:
            named = wanted.get(address)
            yield inferred_warning(record, named.span("metadata", "name") if named is not None else None)
    if state.spooled:
        apply, scopes = command("apply"), ", ".join(f"`{scope}`" for scope in sorted(state.spooled))
        yield warning(
            "outcomes-spooled",
            f"outcomes of calls that the state did not take are in a file beside it; scopes: {scopes}",
            help=f"run `{apply}`, which takes them in",
            advice=(apply,),
        )


async def unrecorded(
    project: Project,
    wanted: Mapping[Address, Resource],
    records: Collection[Address],
    declared: Collection[Address],
) -> list[Diagnostic]:
    """Resources that have no record, so that they are not compared.

    An error where not one address of `declared` is recorded: the state may be the wrong one.
    """
    kinds = find_kinds()
    missing = [
        resource
        for address, resource in wanted.items()
        if address not in records and _is_made(kinds[address.kind], resource, project)
    ]
    if missing and not any(address in records for address in declared):
        return [await _nothing_recorded(project, missing)]
    return [
        Diagnostic(
            "not-recorded",
            Severity.INFO,
            f"`{resource.address}` is declared but not recorded: it was not compared",
            resource.span("metadata", "name"),
        )
        for resource in missing
    ]


async def _nothing_recorded(project: Project, missing: Sequence[Resource]) -> Diagnostic:
    """An error that names the apply that is running, or asks whether this is the right state."""
    nothing = f"{len(missing)} declared, nothing recorded"
    holders = await project.store.holders(declared_scopes(missing))
    if holders:
        (scope, held), drift = min(holders.items()), command("drift")
        return error(
            IN_FLIGHT,
            f"{held.holder} has been applying `{scope}` for {held.age_s:.0f} s{held.doubt}: "
            f"{nothing} yet, and nothing was compared",
            help=f"when that apply is done, run `{drift}` again",
            advice=(drift,),
        )
    listed = command("state", "list")
    return error(
        "nothing-recorded",
        f"{nothing}: nothing was compared",
        help=f"check that this is the state of these manifests (`{listed}`): a new runner, a wiped disk or "
        "another path has an empty one; an apply records everything that it creates and adopts",
        advice=(listed,),
    )


def _is_made(kind: Kind, resource: Resource, project: Project) -> bool:
    """Whether an apply would create an object for `resource`."""
    now, capabilities = project.clock.now(), project.capabilities
    subject = Subject(resource.address, resource, None, None, now, capabilities)
    return kind.create(subject).action is not Action.NOOP
