"""Saved plans of one state: signed with its key, read only if they are, and run if they are still true."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import ManifestSet, Plan
from reconciler.execution.executor import Executor
from reconciler.pipeline.apply import Applied, apply
from reconciler.pipeline.declared import Desired
from reconciler.pipeline.files import read_file
from reconciler.pipeline.identity import require_state
from reconciler.pipeline.judge_approvals import NOTHING, Given
from reconciler.pipeline.open import Options, open_project, open_state
from reconciler.pipeline.project import Project
from reconciler.pipeline.settings import ProjectSettings
from reconciler.pipeline.targets import with_targets
from reconciler.planning import saved
from reconciler.planning.digest import origin, plan_digest
from reconciler.planning.reviewed import made_elsewhere
from reconciler.planning.saved import SavedPlan
from reconciler.rehearsal.matrix import Rehearsal
from reconciler.secrets.fingerprint import plan_key
from reconciler.state.store import Store


async def dump_plan(store: Store, plan: Plan, rehearsal: Rehearsal | None = None) -> bytes:
    """`plan`, signed with the key of the state. Raises ReconcilerError where there is no state."""
    return saved.dump_plan(plan, await _key(store, "a plan is saved"), rehearsal)


async def load_saved(store: Store, text: bytes) -> saved.SavedPlan:
    """Raises ReconcilerError where there is no state, and for what was not made with it, or changed since."""
    return saved.load_saved(text, await _key(store, "a saved plan is read"))


@asynccontextmanager
async def open_saved(
    file: Path,
    config: ProjectSettings,
    options: Options,
    reporter: Reporter,
    load: Callable[[ManifestSet], Desired],
) -> AsyncIterator[tuple[SavedPlan, Desired, Project]]:
    """The plan in `file`, its manifests as they are now, and the project to run it on.

    `load` reads the manifests: those that a plan names, which is signed with the key of this state, and made
    for this environment. Raises ReconcilerError for any other.
    """
    text = read_file(file)
    async with open_state(config, options.state_url, tell=reporter.note) as store:
        found = saved.load_saved(text, await _key(store, "a saved plan runs"))
        refuse_other_environment(config.env, found.plan)
        desired = load(found.plan.manifests)
        async with open_project(
            config, options, reporter, desired.resources, desired.policies, store
        ) as project:
            yield found, desired, project


async def run_saved(
    project: Project,
    desired: Desired,
    plan: Plan,
    approved_deletes: Collection[str],
    approved_creates: Collection[str] = (),
    *,
    given: Given = NOTHING,
    on_executor: Callable[[Executor], None] = lambda executor: None,
    tell: Callable[[Plan], None] = lambda plan: None,
) -> Applied:
    """Plan anew, and run what `plan`, from a file, names of that: where it is another one, nothing runs.

    `given`: the approvals that were given for it, which also cover its deletes. `tell`: called with the plan
    that runs. Raises Refused, before any call, for a file that was made for another place, and PlanRefused
    for one whose plan is not the one made here.
    """
    refuse_other_environment(project.environment, plan)
    context = project.context(desired.origin, (await require_state(project)).lineage)
    elsewhere = list(made_elsewhere(plan, origin(context, desired.manifests)))
    if elsewhere:
        raise Refused("the file holds the plan of another run; nothing was changed", elsewhere)

    def show(found: Plan) -> bool:
        tell(found)
        return True

    return await apply(
        project,
        with_targets(desired, [Address.parse(each) for each in plan.manifests.targets]),
        approve=show,
        approved_deletes=approved_deletes,
        approved_creates=approved_creates,
        on_executor=on_executor,
        tell=tell,
        reviewed=plan,
        given=replace(given, plan=plan_digest(plan)),
    )


def refuse_other_environment(environment: str, plan: Plan) -> None:
    """Raises Refused for a plan of another environment: names hardly differ between them."""
    planned, here = plan.context.environment, environment or BASE
    if planned != here:
        raise Refused(
            f"this plan was made for environment `{planned}`, but `{here}` is chosen; nothing was changed",
            help=f"pass --env {planned}",
        )


async def key_of(store: Store) -> bytes:
    """The key that signs the plans of this state, which there is."""
    return plan_key(await store.fingerprint_key())


async def _key(store: Store, what: str) -> bytes:
    if not (await store.load()).lineage:
        init = command("state", "init", "--new")
        raise ReconcilerError(
            f"there is no state, but {what} only with one: its key signs the plan",
            help=f"check --state, or, for a new project, make one with `{init}`",
            advice=(init,),
        )
    return await key_of(store)
