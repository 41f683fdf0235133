"""The numbers of one run, as a controller would give them after the same look."""

from collections import Counter
from typing import Any

from msgspec.structs import replace

from reconciler.controller.metrics import text
from reconciler.controller.status import Look, ScopeStatus, View, scopes_of
from reconciler.core.context import BASE
from reconciler.drift.find import Drift
from reconciler.planning.declared import Desired
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.state.store import WHOLE_STATE


async def text_of(project: Project, desired: Desired, made: Any) -> str:
    """The metrics of a drift, an applied plan, or a plan with more. Raises ReconcilerError."""
    return text([await _view(project, desired, made)])


async def _view(project: Project, desired: Desired, made: Any) -> View:
    """The scopes after one run. What drifted is among the changes of a plan; an apply leaves some undone."""
    plan = made[0] if isinstance(made, tuple) else made.plan
    drift = made if isinstance(made, Drift) else Drift(replace(plan, changes=(), diagnostics=()), {})
    results = made.results if isinstance(made, Applied) else ()
    if isinstance(made, Applied):
        undone = {each.address for each in results if each.outcome != "done"}
        left = [each for each in plan.changes if made.declined or each.address in undone]
        plan = replace(plan, changes=left, owed=made.owed, diagnostics=(*plan.diagnostics, *made.notices))
    state, now = await project.store.load(), project.clock.now()
    scopes = scopes_of(state, desired.resources)
    names = {*scopes.values()} - {WHOLE_STATE}
    held = await project.store.holders(names)
    seen = Look(drift, plan, state, desired.by_address, scopes, held).seen(names)
    return View(
        project.environment or BASE,
        {scope: ScopeStatus(scope, each.status, now).after(each, now) for scope, each in seen.items()},
        seen,
        {scopes[each.address]: now for each in results if each.address in scopes},
        Counter(each.outcome for each in results),
        project.platform.rate.waited_s,
        once=True,
    )
