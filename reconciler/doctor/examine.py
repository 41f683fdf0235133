"""All checks of one project, in the order in which a person would go through them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.clock import Clock, SystemClock
from reconciler.core.context import EMBEDDED, Context, Origin, make_context
from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.errors import Locked, ManifestError, ReconcilerError
from reconciler.core.reporter import Reporter
from reconciler.core.state_url import shown_url
from reconciler.core.words import counted
from reconciler.doctor import state as states
from reconciler.doctor.check import Check, failed, fine, has_problems, suspicious, wrong
from reconciler.doctor.platform import check_capabilities, check_platform, reads_of
from reconciler.drift.find import NOT_COMPARED, Drift, find_drift
from reconciler.planning.declared import Desired
from reconciler.project.open import Options, begin_work, open_platform, open_project
from reconciler.project.records import older_objects
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import Opening, open_state
from reconciler.reports.report import DriftReport
from reconciler.reports.verdict import of_drift
from reconciler.state import backend_of, files_of
from reconciler.state.spooling import Spooling
from reconciler.state.store import State


class Examination(Struct, frozen=True):
    """The checks of one project, and the context that a report about them begins with."""

    context: Context
    checks: tuple[Check, ...]

    @property
    def is_well(self) -> bool:
        """Whether no check found a problem."""
        return not has_problems(self.checks)


async def examine(
    config: ProjectSettings,
    load: Callable[[], Desired],
    origin: Origin,
    *,
    state_url: str | None = None,
    probes: bool = False,
) -> Examination:
    """Check everything that a run of this project relies on. Writes nothing, and sends nothing but GET.

    `load`: reads the manifests, which come from `origin`. `probes`: also write to the store of the state, in
    a place of its own, to prove that it keeps its promises.
    """
    doctor = _Doctor(config, state_url, SystemClock())
    desired, manifests = _manifests(load)
    store = [await doctor.probe_store()] if probes else []
    state, of_state = await doctor.check_state()
    address, of_platform = await doctor.check_platform(desired, state)
    context = make_context(
        config.env,
        EMBEDDED if config.emulated else address,
        doctor.place,
        origin,
        state.lineage if state is not None else "",
        doctor.clock.now(),
    )
    if has_problems([manifests, *of_platform[:3], *of_state[:1]]):
        objects: Sequence[Check] = [suspicious("objects", "not compared: see the problems above")]
    else:
        objects = await doctor.check_objects(desired, state)
    return Examination(context, (manifests, *of_platform[:3], *store, *of_state, *of_platform[3:], *objects))


def _manifests(load: Callable[[], Desired]) -> tuple[Desired, Check]:
    """The declared resources (none where the manifests have errors), and the check of them."""
    try:
        desired = load()
    except ManifestError as failure:
        validate, errors = command("validate"), counted(len(failure.diagnostics), "problem")
        return Desired(()), wrong("manifests", f"they hold {errors}", f"see `{validate}`", validate)
    return desired, fine("manifests", counted(len(desired.resources), "resource"))


@dataclass(frozen=True, slots=True)
class _Doctor:
    """One examination. `url`: of the state, where it is not that of the settings."""

    config: ProjectSettings
    url: str | None
    clock: Clock

    @property
    def place(self) -> str:
        """The URL of the state, without credentials."""
        return shown_url(self.url or self.config.settings.state_url)

    async def probe_store(self) -> Check:
        """Write to the store of the state, in a place of its own, and check what comes back."""
        try:
            async with open_state(self.config, Opening(self.url)) as store:
                await begin_work(self.config, store, Opening(self.url))
                proven = await backend_of(store).probe()
        except ReconcilerError as failure:
            return failed("store", failure)
        if not proven:
            return fine("store", "files of this machine: there is nothing to try out")
        return fine("store", "passed the concurrency test (4 writers, 20 changes each)")

    async def check_state(self) -> tuple[State | None, Sequence[Check]]:
        """The state (None where it cannot be read), and all checks of it."""
        remarks: list[str] = []
        try:
            opening = Opening(self.url, read_only=True, tell=remarks.append)
            async with open_state(self.config, opening) as store:
                state, found = await self._whole_state(store, remarks)
                files = files_of(store)
                backups = await files.backups() if files is not None else None
                holders = await store.holders(state.serials) if state is not None else {}
        except ReconcilerError as failure:
            return None, [failed("state", failure)]
        checks = [found, *_left_open(state, holders), states.check_backups(backups, state, self.clock.now())]
        return state, checks

    async def _whole_state(self, store: Spooling, remarks: Sequence[str]) -> tuple[State | None, Check]:
        """The loaded state, None where that failed, and the check of it."""
        state = None
        try:
            state = await store.load()
            return state, await states.check_state(store, state, self.config, self.place, remarks)
        except ReconcilerError as failure:
            return state, failed("state", failure)

    async def check_platform(
        self, desired: Desired, state: State | None
    ) -> tuple[str | None, Sequence[Check]]:
        """The platform's address, and its checks: address, token, clock, capabilities."""
        if self.config.emulated and not (self.config.private / "sandbox.db").exists():
            missing = suspicious("address", "there is no emulated platform yet", "a plan makes it")
            return None, _not_tried(missing)
        resources, records = desired.by_address, state.records if state is not None else {}
        declared = self.config.settings.capabilities
        try:
            async with open_platform(self.config, Options(read_only=True)) as (client, _):
                read = next(reads_of(resources, records, declared))
                checks = list(await check_platform(client, read, self.clock, sandbox=self.config.emulated))
                if has_problems(checks):
                    checks.append(suspicious("capabilities", "not tried"))
                else:
                    checks.append(await check_capabilities(client, declared, resources, records))
                return client.base_url, checks
        except ReconcilerError as failure:
            return None, _not_tried(wrong("address", failure.message, failure.help, *failure.advice))

    async def check_objects(self, desired: Desired, state: State | None) -> Sequence[Check]:
        """The verdict of `drift` about all recorded objects, and the objects older than the state."""
        if state is None or not state.lineage:
            return [fine("objects", "none is recorded")]
        options = Options(self.url, read_only=True)
        try:
            async with (
                open_state(self.config, Opening(self.url, read_only=True)) as store,
                open_project(self.config, options, Reporter(), (), desired.policies, store) as project,
            ):
                found = [fine("objects", "none is recorded")]
                if state.records:
                    drift = await find_drift(project, desired)
                    now = self.clock.now()
                    proven = [
                        f"{proof.of}: {proof.missing(now) or proof.proven(now)}" for proof in drift.proofs
                    ]
                    said = suspicious if any(proof.missing(now) for proof in drift.proofs) else fine
                    found = [check_objects(drift), *([said("drills", "; ".join(proven))] if proven else ())]
                older = await older_objects(project, desired.by_address)
        except ReconcilerError as failure:
            return [suspicious("objects", f"not compared: {failure.message}", failure.help, *failure.advice)]
        except ValueError:  # an open call that an older version wrote
            return [suspicious("objects", "not compared: not all that the state holds can be understood")]
        return [*found, *map(_older, older)]


def _older(found: Diagnostic) -> Check:
    """The warning about objects that are older than the state."""
    message = f"{found.message}: {', '.join(found.addresses)}"
    return suspicious("older objects", message, found.help, *found.advice)


def _left_open(state: State | None, holders: Mapping[str, Locked]) -> Sequence[Check]:
    """The checks of what earlier runs left: locks, owed work, open calls."""
    if state is None:
        unknown = "not known: the state cannot be read"
        return [suspicious(name, unknown) for name in ("lock", "owed", "open calls")]
    return [states.check_lock(holders), states.check_owed(state), states.check_open(state, holders)]


def check_objects(drift: Drift) -> Check:
    """The verdict of `drift` about all recorded objects, as one check."""
    plan, left, see = drift.plan, len(drift.without_manifest), command("drift")
    verdict = of_drift(DriftReport(plan=plan, without_manifest=left)).removesuffix(".")
    verdict = "; ".join([verdict, *(item.message for item in plan.diagnostics if item.code == NOT_COMPARED)])
    problems = [str(change.address) for change in plan.changes]
    problems += [item.message for item in plan.diagnostics if item.severity is Severity.ERROR]
    if problems:
        return wrong("objects", f"{verdict}: {states.some(problems)}", f"`{see}` says more", see)
    warnings = [item.message for item in plan.diagnostics if item.severity is Severity.WARNING]
    if warnings:
        return suspicious("objects", f"{verdict}; {states.some(warnings)}", f"`{see}` says more", see)
    return fine("objects", verdict)


def _not_tried(address: Check) -> Sequence[Check]:
    """The checks of a platform that was not asked: its address, and the rest as not tried."""
    return [address, *(suspicious(name, "not tried") for name in ("token", "clock", "capabilities"))]
