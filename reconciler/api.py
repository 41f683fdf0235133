"""The reconciler in a Python program: what the verbs of the command line do, as functions that return values.

    async with open_project("infra", env="prod") as project:
        proposed = await plan(project)
        applied = await apply(project, approve=lambda plan: True)

Nothing is printed, no signal is handled, and click is not imported. Several projects may be open in one
process and one event loop. What a person has to know is raised: `ManifestError` and `Refused` carry all
`diagnostics`, every other failure is a `ReconcilerError`. Manifests and settings are read when a project is
opened; open it again to see what changed in them since.
"""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from reconciler.approvals.judging import Given, read_approvals
from reconciler.core.errors import Locked, ManifestError, Misused, ReconcilerError, Refused
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.doctor import examine
from reconciler.doctor.examine import Examination
from reconciler.drift.find import Drift, find_drift
from reconciler.planning.declared import Desired
from reconciler.planning.saved import SavedPlan, dump_plan, load_saved
from reconciler.project import apply as applying
from reconciler.project import identity
from reconciler.project import open as opening
from reconciler.project.desired import load_desired, origin_here
from reconciler.project.files import SourceTexts
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.project.settings import ProjectSettings, find_settings

__all__ = [
    "Applied",
    "Drift",
    "Examination",
    "Locked",
    "ManifestError",
    "Misused",
    "OpenProject",
    "Plan",
    "ReconcilerError",
    "Refused",
    "Reporter",
    "SavedPlan",
    "apply",
    "apply_saved",
    "create_state",
    "doctor",
    "drift",
    "dump_plan",
    "load_saved",
    "open_project",
    "plan",
]


class OpenProject(Struct, frozen=True):
    """A project between `open_project` and its end.

    `desired`: its manifests. `project`: its state, platform and providers, as the pipeline takes them.
    """

    desired: Desired
    project: Project


@asynccontextmanager
async def open_project(
    path: str | Path = ".",
    *,
    env: str = "",
    sandbox: bool = False,
    state: str | None = None,
    manifests: Sequence[str | Path] = (),
    variables: Mapping[str, str] | None = None,
    reporter: Reporter | None = None,
    lock_timeout_s: float = 0.0,
    read_only: bool = False,
    untrusted: str | None = None,
    reason: str = "",
    base: str = "",
) -> AsyncIterator[OpenProject]:
    """The project whose `reconcile.yaml` stands in `path` or a folder above it, until the `async with` ends.

    `env`, `sandbox`, `state`, `lock_timeout_s` (seconds): as the options of the command line; the sandbox
    has a state of its own, which is made here. `manifests`:
    files and folders instead of the configured ones. `variables`: in the place of the process's environment
    variables, for settings, the token and the sources of secrets. `reporter`: is called with progress.
    `read_only`: every call but GET is refused. `untrusted`: as --untrusted, a git revision: the files are
    somebody else's, and can only be planned. `reason`: why, for the journal: `reconcile history` shows it.
    `base`: as --base, the revision before the change, whose rules and signers count for approvals.

    Raises Misused where there are environments and `env` names none (`base`: the manifests without an
    overlay), ManifestError when settings or manifests hold errors, ReconcilerError when the environment, the
    platform or the state cannot be had.
    """
    reporter = reporter or Reporter()
    config = _settings(path, variables, env, untrusted, sandbox=sandbox)
    desired = load_desired([str(path) for path in manifests], config, SourceTexts(config.root), reporter)
    read_only = read_only or untrusted is not None
    options = opening.Options(state, lock_timeout_s, read_only, take_signals=False, reason=reason, base=base)
    async with opening.open_project(
        config, options, reporter, desired.resources, desired.policies
    ) as project:
        yield OpenProject(desired, project)


def _settings(
    path: str | Path,
    variables: Mapping[str, str] | None,
    env: str,
    untrusted: str | None = None,
    *,
    sandbox: bool,
) -> ProjectSettings:
    variables = os.environ if variables is None else variables
    config = find_settings(Path(path).absolute(), variables, env, trusted=untrusted)
    config.refuse_unknown_environment()
    config.refuse_forgotten_environment()
    return config.in_sandbox() if sandbox else config


def _refuse_untrusted(project: OpenProject) -> None:
    """Raises Refused where the files are somebody else's: nothing may come of them but a plan to look at."""
    if project.desired.trusted is not None:
        raise Refused(
            "these files are somebody else's (untrusted): they can be planned, and nothing else",
            help="open the project without `untrusted` once they are merged",
        )


async def create_state(project: OpenProject, *, new: bool = False) -> bool:
    """Make the state that `apply` needs; False where there is one already.

    `new` changes nothing any more. Raises StoreError where traces of an older state are visible.
    """
    _refuse_untrusted(project)
    if new:
        project.project.reporter.note(identity.NEW_IGNORED)
    return await identity.create_state(project.project.store, project.project.actor())


async def plan(project: OpenProject, *, with_exec: bool = False, targets: Collection[str] = ()) -> Plan:
    """What `apply` would do. Sends nothing but GET, and takes no lock.

    `with_exec`: programs that give secret values are run, never those of somebody else. Without it, such a
    secret is planned as set, and its value is compared when that is applied. `targets`: only
    these addresses, such as Volume/shop/data, and what they need; one without [index] is all of a `count`.
    Raises Misused for one that names nothing.

    Errors stand in the plan's `diagnostics`: such a plan cannot be applied.
    """
    with_exec = with_exec and project.desired.trusted is None
    return await make_plan(project.project, _about(project, targets), with_exec=with_exec)


def _about(project: OpenProject, targets: Collection[str]) -> Desired:
    if isinstance(targets, str):
        raise TypeError("`targets` must be a collection of addresses, not one text")
    return project.desired.with_targets([Address.parse(target) for target in targets])


async def apply(
    project: OpenProject,
    *,
    approve: Callable[[Plan], bool],
    approved_deletes: Collection[str] = (),
    approved_creates: Collection[str] = (),
    targets: Collection[str] = (),
) -> Applied:
    """Settle what earlier runs left open, plan, ask `approve`, and carry the plan out.

    `approve` gets the plan when there is anything to send or to adopt; its False ends the apply with
    `Applied.declined`. `approved_deletes`: the addresses that may be deleted, such as Volume/shop/old.
    `approved_creates`: as ADDRESS@WORD, what may be created although no list shows whether it exists; the
    word is the plan's `context.word`. `targets`: as in `plan`; nothing else is changed or deleted.

    Raises Refused, before any call, when there is no state (`create_state`), when the plan holds errors or
    lacks an approval, or is not true any more; Locked when somebody else applies. What became of
    each call stands in `Applied.results`.
    """
    _refuse_untrusted(project)
    return await applying.apply(
        project.project,
        _about(project, targets),
        approve=approve,
        approved_deletes=approved_deletes,
        approved_creates=approved_creates,
    )


async def apply_saved(
    project: OpenProject,
    plan: Plan | SavedPlan,
    *,
    approvals: Collection[str | Path] = (),
    approved_deletes: Collection[str] = (),
    approved_creates: Collection[str] = (),
) -> Applied:
    """Plan anew, and carry out what `plan`, which was reviewed, names of that, as `apply --plan` does.

    `dump_plan` and `load_saved` keep it between processes. `approvals`: files that `reconcile approve` wrote,
    as --approval; they cover the plan's deletes, too. For a plan that was saved with its rehearsal, `plan`
    must be what `load_saved` returned: approvals are of both.

    Raises Refused, before any call, when the plan of now is another one for an address that `plan` names, or
    when a rule asks for more approvals than count; ReconcilerError for a file that holds none; otherwise as
    `apply`.
    """
    _refuse_untrusted(project)
    if isinstance(approvals, str):
        raise TypeError("`approvals` must be a collection of files, not one text")
    whole = plan if isinstance(plan, SavedPlan) else SavedPlan(plan)
    rehearsal = whole.rehearsal.digest if whole.rehearsal is not None else ""
    given = Given(read_approvals([Path(file) for file in approvals]), rehearsal)
    return await applying.run_saved(
        project.project, project.desired, whole.plan, approved_deletes, approved_creates, given=given
    )


async def drift(project: OpenProject, *, targets: Collection[str] = ()) -> Drift:
    """What changed on the platform since the last apply. Sends nothing but GET; `Drift.plan` has no steps.

    `targets`: as in `plan`.
    """
    _refuse_untrusted(project)
    return await find_drift(project.project, _about(project, targets))


async def doctor(
    path: str | Path = ".",
    *,
    env: str = "",
    sandbox: bool = False,
    state: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Examination:
    """Whether all that a run relies on is as it should be, also where `open_project` would raise.

    Arguments are as those of `open_project`. Writes nothing, takes no lock, and sends nothing but GET. What
    is wrong stands in `Examination.checks`. Raises ReconcilerError for settings that cannot be read.
    """
    config = _settings(path, variables, env, sandbox=sandbox)

    def load() -> Desired:
        return load_desired((), config, SourceTexts(config.root), Reporter())

    return await examine.examine(config, load, origin_here(config), state_url=state)
