"""Saved plans of one state: signed with its key, read only if they are, and run if they are still true."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.diagnostics import APPROVAL_NEEDED, error
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.reporter import Reporter
from reconciler.core.steps import ManifestSet, Plan
from reconciler.execution.executor import Executor
from reconciler.pipeline.apply import Applied, refuse_unless_runnable, run_plan, with_head
from reconciler.pipeline.declared import Desired
from reconciler.pipeline.files import read_file
from reconciler.pipeline.identity import require_state
from reconciler.pipeline.judge_approvals import NOTHING, Given
from reconciler.pipeline.open import Options, open_project, open_state
from reconciler.pipeline.preconditions import refuse_unless_current
from reconciler.pipeline.project import Project
from reconciler.pipeline.settings import ProjectSettings
from reconciler.planning import saved
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
    """Run a plan from a file, if neither the manifests nor what it is about has changed since.

    `given`: the approvals that were given for it, which also cover its deletes.
    `tell`: called with the plan, in the context of this run, before the platform is read. What the file, the
    manifests and the state refuse by themselves is refused before that.
    """
    project.sources.runs_programs = True
    refuse_other_environment(project.environment, plan)
    _refuse_other_platform(project, plan)
    _refuse_other_addresses(project, plan)  # these are other manifests, too: this says which and where
    _refuse_other_manifests(desired, plan)
    state = await require_state(project)
    refuse_unless_current(plan, state)
    told = tuple(each for each in plan.diagnostics if each.code != APPROVAL_NEEDED)  # judged anew, below
    plan = replace(plan, context=project.context(desired.origin, state.lineage), diagnostics=told)
    judged = await refuse_unless_runnable(
        project, desired, plan, state, approved_deletes, approved_creates, given
    )
    if judged.counting:
        approved_deletes = {*approved_deletes, *map(str, plan.deletes)}
    plan = replace(plan, diagnostics=(*plan.diagnostics, *judged.problems))
    tell(plan)
    applied = await run_plan(
        project,
        plan,
        approved_deletes=approved_deletes,
        given=given,
        resources=desired.by_address,
        on_executor=on_executor,
    )
    return await with_head(project, applied)


def refuse_other_environment(environment: str, plan: Plan) -> None:
    """Raises Refused for a plan of another environment: names hardly differ between them."""
    planned, here = plan.context.environment, environment or BASE
    if planned != here:
        raise Refused(
            f"this plan was made for environment `{planned}`, but `{here}` is chosen; nothing was changed",
            help=f"pass --env {planned}",
        )


def _refuse_other_platform(project: Project, plan: Plan) -> None:
    """Raises Refused for a plan of another platform: a state that is new has not recorded its own yet."""
    planned, here = plan.context.platform, project.address
    if planned == here:
        return
    anew = command("plan", "--out", "FILE")
    raise Refused(
        "the plan was made for another platform; nothing was changed",
        [
            error(
                "other-platform",
                f"the plan was made for the platform at {planned}, but this run uses the one at {here}",
                help="check RECONCILE_BASE_URL and `platform.base_url` in reconcile.yaml, or make a new plan "
                f"and review it: `{anew}`",
                advice=(anew,),
            )
        ],
    )


def _refuse_other_manifests(desired: Desired, plan: Plan) -> None:
    """Raises Refused where the manifests are others, such as those of a branch that was not merged."""
    if plan.manifests.digest == desired.manifests.digest:
        return
    anew = command("plan", "--out", "FILE")
    was, now = (
        revision[:8] if revision else "" for revision in (plan.context.revision, desired.origin.revision)
    )
    between = f" ({was} then, {now} now)" if was and now and was != now else ""
    raise Refused(
        "the plan was made from other manifests; nothing was changed",
        [
            error(
                "plan-of-other-manifests",
                f"the manifests have changed since the plan was made{between}",
                help=f"make a new plan and review it: `{anew}`",
                advice=(anew,),
            )
        ],
    )


def _refuse_other_addresses(project: Project, plan: Plan) -> None:
    """A provider's answers become an app's secrets: whose they are is part of what was reviewed.

    Before any read, too: those are signed, and another server is not to have them.
    """
    anew = command("plan", "--out", "FILE")
    moved = [
        error(
            "provider-moved",
            f"ExtensionProvider/{name} is at {project.providers[name].base_url}; "
            f"the plan was made for {planned}",
            help=f"set its `base_url` back to {planned}, or make a new plan and review it: `{anew}`",
            advice=(anew,),
        )
        for name, planned in plan.providers.items()
        if name in project.providers and project.providers[name].base_url != planned
    ]
    if moved:
        raise Refused(
            "the plan is stale: an extension provider's address has changed; nothing was changed", moved
        )


async def key_of(store: Store) -> bytes:
    """The key that signs the plans of this state, which there is."""
    return plan_key(await store.fingerprint_key())


async def _key(store: Store, what: str) -> bytes:
    if not (await store.load()).lineage:
        init = command("state", "init")
        raise ReconcilerError(
            f"there is no state, but {what} only with one: its key signs the plan",
            help=f"check --state, or, for a new project, make one with `{init}`",
            advice=(init,),
        )
    return await key_of(store)
