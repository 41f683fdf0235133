"""All checks of one project, in the order in which a person would go through them."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.clock import Clock, SystemClock
from reconciler.core.context import EMBEDDED, Context, Origin, make_context
from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.errors import Locked, ManifestError, ReconcilerError
from reconciler.core.plural import counted
from reconciler.core.reporter import Reporter
from reconciler.core.state_url import shown_url
from reconciler.doctor.capabilities import check_capabilities
from reconciler.doctor.check import Check, fine, has_problems, suspicious, wrong
from reconciler.doctor.platform import check_platform, reads_of
from reconciler.doctor.state import (
    check_backups,
    check_lock,
    check_open,
    check_owed,
    check_state,
    some,
    unread,
)
from reconciler.drift.find import NOT_COMPARED, Drift, find_drift
from reconciler.planning.declared import Desired
from reconciler.project.open import Options, begin_work, open_platform, open_project
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import Opening, open_state
from reconciler.project.unknown_objects import older_objects
from reconciler.reports.report import DriftReport
from reconciler.reports.verdict import of_drift
from reconciler.state import files_of, has_files, prove
from reconciler.state.spooling import Spooling
from reconciler.state.store import State


class Examination(Struct, frozen=True):
    """What was looked at, and what was found."""

    context: Context
    checks: tuple[Check, ...]

    @property
    def is_well(self) -> bool:
        return not has_problems(self.checks)


async def examine(
    config: ProjectSettings,
    load: Callable[[], Desired],
    origin: Origin,
    *,
    sandbox: bool = False,
    state_url: str | None = None,
    probes: bool = False,
) -> Examination:
    """Look at everything that a run of this project relies on. Writes nothing, and sends nothing but GET.

    `load`: the manifests, which come from `origin`. `probes`: try out whether the store of the state keeps
    its word, which writes to it, in a place of its own.
    """
    if sandbox:
        config = config.in_sandbox()
    clock = SystemClock()
    desired, manifests = _manifests(load)
    store = [await _store(config, state_url)] if probes else []
    state, of_state = await _state(config, state_url, clock, sandbox=sandbox)
    address, of_platform = await _platform(config, desired, state, clock, sandbox=sandbox)
    context = make_context(
        config.env,
        EMBEDDED if sandbox else address,
        shown_url(state_url or config.settings.state_url),
        origin,
        state.lineage if state is not None else "",
        clock.now(),
    )
    looked = not has_problems([manifests, *of_platform[:3], *of_state[:1]])
    objects = (
        await _objects(config, desired, state, state_url, sandbox=sandbox)
        if looked
        else [suspicious("objects", "not compared: see the problems above")]
    )
    return Examination(context, (manifests, *of_platform[:3], *store, *of_state, *of_platform[3:], *objects))


def _manifests(load: Callable[[], Desired]) -> tuple[Desired, Check]:
    try:
        desired = load()
    except ManifestError as failure:
        validate, errors = command("validate"), counted(len(failure.diagnostics), "problem")
        return Desired(()), wrong("manifests", f"they hold {errors}", f"see `{validate}`", validate)
    return desired, fine("manifests", counted(len(desired.resources), "resource"))


async def _store(config: ProjectSettings, url: str | None) -> Check:
    try:
        async with open_state(config, Opening(url)) as store:
            await begin_work(config, store, Opening(url))
            proven = await prove(store)
    except ReconcilerError as failure:
        return unread(failure, "store")
    if not proven:
        return fine("store", "files of this machine: there is nothing to try out")
    return fine("store", "kept its word: 4 writers made 20 changes each at the same time, and none was lost")


async def _state(
    config: ProjectSettings, url: str | None, clock: Clock, *, sandbox: bool
) -> tuple[State | None, Sequence[Check]]:
    """The state, None where it cannot be read; and what is to be said of it."""
    remarks: list[str] = []
    try:
        async with open_state(config, Opening(url, read_only=True, tell=remarks.append)) as store:
            state, found = await _whole_state(config, store, url, remarks, sandbox=sandbox)
            kept = await files_of(store).backups() if has_files(store) else None
            backups = [check_backups(kept, state, clock.now())]
            holders = await store.holders(state.serials) if state is not None else {}
    except ReconcilerError as failure:
        return None, [unread(failure)]
    return state, [found, *_left_open(state, holders), *backups]


async def _whole_state(
    config: ProjectSettings, store: Spooling, url: str | None, remarks: Sequence[str], *, sandbox: bool
) -> tuple[State | None, Check]:
    settings, state = config.settings, None
    try:
        state = await store.load()
        return state, await check_state(
            store,
            state,
            shown_url(url or settings.state_url),
            remarks,
            pin=settings.state.lineage,
            address=settings.platform.base_url,
            sandbox=sandbox,
        )
    except ReconcilerError as failure:
        return state, unread(failure)


def _left_open(state: State | None, holders: Mapping[str, Locked]) -> Sequence[Check]:
    if state is None:
        unknown = "not known: the state cannot be read"
        return [suspicious(name, unknown) for name in ("lock", "owed", "open calls")]
    return [check_lock(holders), check_owed(state), check_open(state, holders)]


async def _platform(
    config: ProjectSettings, desired: Desired, state: State | None, clock: Clock, *, sandbox: bool
) -> tuple[str | None, Sequence[Check]]:
    """The platform's address, and what is to be said of it: address, token, clock, capabilities."""
    if sandbox and not (config.private / "sandbox.db").exists():
        return None, _unasked(suspicious("address", "there is no emulated platform yet", "a plan makes it"))
    resources, records = desired.by_address, state.records if state is not None else {}
    declared = config.settings.capabilities
    try:
        async with open_platform(config, Options(sandbox, read_only=True)) as (client, _):
            read = next(reads_of(resources, records, declared))
            checks = list(await check_platform(client, read, clock, sandbox=sandbox))
            if has_problems(checks):
                return client.base_url, [*checks, suspicious("capabilities", "not tried")]
            return client.base_url, [
                *checks,
                await check_capabilities(client, declared, resources, records),
            ]
    except ReconcilerError as failure:
        return None, _unasked(wrong("address", failure.message, failure.help, *failure.advice))


async def _objects(
    config: ProjectSettings, desired: Desired, state: State | None, url: str | None, *, sandbox: bool
) -> Sequence[Check]:
    """What `drift` says of all that is recorded, and what is older than the state."""
    if state is None or not state.lineage:
        return [fine("objects", "none is recorded")]
    options = Options(sandbox, url, read_only=True)
    try:
        async with (
            open_state(config, Opening(url, read_only=True)) as store,
            open_project(config, options, Reporter(), (), desired.policies, store) as project,
        ):
            compared = fine("objects", "none is recorded")
            if state.records:
                compared = check_objects(await find_drift(project, desired))
            older = await older_objects(project, desired.by_address)
    except ReconcilerError as failure:
        return [suspicious("objects", f"not compared: {failure.message}", failure.help, *failure.advice)]
    except ValueError:  # of an open call that an older version wrote
        return [suspicious("objects", "not compared: not all that the state holds can be understood")]
    return [compared, *map(_older, older)]


def _older(found: Diagnostic) -> Check:
    return suspicious(
        "older objects", f"{found.message}: {', '.join(found.addresses)}", found.help, *found.advice
    )


def check_objects(drift: Drift) -> Check:
    """What `drift` says of all that is recorded."""
    plan, left, see = drift.plan, len(drift.without_manifest), command("drift")
    verdict = of_drift(DriftReport(plan=plan, without_manifest=left)).removesuffix(".")
    verdict = "; ".join([verdict, *(each.message for each in plan.diagnostics if each.code == NOT_COMPARED)])
    told = [str(change.address) for change in plan.changes]
    told += [each.message for each in plan.diagnostics if each.severity is Severity.ERROR]
    if told:
        return wrong("objects", f"{verdict}: {some(told)}", f"`{see}` says more", see)
    warned = [each.message for each in plan.diagnostics if each.severity is Severity.WARNING]
    if warned:
        return suspicious("objects", f"{verdict}; {some(warned)}", f"`{see}` says more", see)
    return fine("objects", verdict)


def _unasked(address: Check) -> Sequence[Check]:
    return [address, *(suspicious(name, "not tried") for name in ("token", "clock", "capabilities"))]
