"""Plans from a file: read by an apply that makes its own plan, and run as far as the two are the same."""

from collections.abc import Callable, Collection
from pathlib import Path

from msgspec.structs import replace

from reconciler.approvals.judging import NOTHING, Given
from reconciler.core.context import BASE
from reconciler.core.errors import Refused
from reconciler.core.model import Address
from reconciler.core.steps import Plan
from reconciler.execution.executor import Executor
from reconciler.planning.declared import Desired
from reconciler.planning.digest import origin, plan_digest
from reconciler.planning.reviewed import made_elsewhere
from reconciler.planning.saved import SavedPlan, load_saved
from reconciler.project.apply import Applied, apply
from reconciler.project.files import read_file
from reconciler.project.identity import require_state
from reconciler.project.project import Project


def read_saved(file: Path, environment: str) -> SavedPlan:
    """Raises ReconcilerError for a file that holds no plan, and Refused for a plan of another environment."""
    found = load_saved(read_file(file))
    refuse_other_environment(environment, found.plan)
    return found


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
        about_targets(desired, plan),
        approve=show,
        approved_deletes=approved_deletes,
        approved_creates=approved_creates,
        on_executor=on_executor,
        tell=tell,
        reviewed=plan,
        given=replace(given, plan=plan_digest(plan)),
    )


def about_targets(desired: Desired, plan: Plan) -> Desired:
    """`desired`, about the targets that `plan` was made for, and all else that it names."""
    targets = [Address.parse(each) for each in plan.manifests.targets]
    named = [each.address for each in plan.changes if each.address in desired.by_address] if targets else []
    return desired.with_targets(list(dict.fromkeys([*targets, *named])))


def refuse_other_environment(environment: str, plan: Plan) -> None:
    """Raises Refused for a plan of another environment: names hardly differ between them."""
    planned, here = plan.context.environment, environment or BASE
    if planned != here:
        raise Refused(
            f"this plan was made for environment `{planned}`, but `{here}` is chosen; nothing was changed",
            help=f"pass --env {planned}",
        )
