"""`--report openmetrics=FILE`: the numbers of one run, which a controller would give after the same look."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import click
from msgspec.structs import replace

from reconciler.cli.command_line import command_line
from reconciler.controller.status import Look, ScopeStatus, View, scopes_of
from reconciler.core.context import BASE
from reconciler.core.extras import require_extra
from reconciler.core.steps import Plan, Result
from reconciler.drift.find import Drift
from reconciler.planning.declared import Desired
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.state.store import WHOLE_STATE


def counting(desired: Desired) -> Callable[..., Awaitable[None]]:
    """Counts a run (see `_count`) for its report, if that is asked for; else does nothing.

    Raises ReconcilerError without the extra, and UsageError for a run about parts of scopes.
    """
    line = command_line()
    if all(
        each is None or each.name != "openmetrics" for each in (line.format, *(f.format for f in line.files))
    ):
        return _nothing
    require_extra("controller", "the format openmetrics")
    if desired.targets or desired.focus is not None or desired.moved is not None:
        raise click.UsageError("openmetrics is about whole scopes: leave PATHs and --target out")
    return partial(_count, desired)


async def _nothing(*about: object) -> None: ...


async def _count(
    desired: Desired, project: Project, plan: Plan, drift: Drift | None = None, results: Sequence[Result] = ()
) -> None:
    """Keep the numbers. `drift`: without it, what drifted is among the changes of the plan."""
    from reconciler.controller.metrics import text  # needs the extra

    state, now = await project.store.load(), project.clock.now()
    scopes = scopes_of(state, desired.resources)
    names = {*scopes.values()} - {WHOLE_STATE}
    drift = drift or Drift(replace(plan, changes=(), diagnostics=()), {})
    held = await project.store.holders(names)
    seen = Look(drift, plan, state, desired.by_address, scopes, held).seen(names)
    view = View(
        project.environment or BASE,
        {scope: ScopeStatus(scope, each.status, now).after(each, now) for scope, each in seen.items()},
        seen,
        {scopes[each.address]: now for each in results if each.address in scopes},
        Counter(each.outcome for each in results),
        project.platform.rate.waited_s,
        once=True,
    )
    command_line().metrics = text([view])


def left_of(applied: Applied) -> Plan:
    """The plan of what an apply left undone."""
    undone = {each.address for each in applied.results if each.outcome != "done"}
    return replace(
        applied.plan,
        changes=[each for each in applied.plan.changes if applied.declined or each.address in undone],
        owed=applied.owed,
        diagnostics=(*applied.plan.diagnostics, *applied.notices),
    )
