"""`--report openmetrics=FILE`: the numbers of one run, which a controller would give after the same look."""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import click
from msgspec.structs import replace

from reconciler.cli.command_line import command_line
from reconciler.controller.status import Look, ScopeStatus, View, scopes_of
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.drift.find import Drift
from reconciler.planning.declared import Desired
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.state.store import WHOLE_STATE


def counting(desired: Desired) -> Callable[[Project, Awaitable[Any]], Awaitable[Any]]:
    """Awaits a drift, an applied plan, or a plan with more, and counts it where a report asks for that.

    Raises ReconcilerError without the extra, and UsageError for a run about parts of scopes.
    """
    line = command_line()
    formats = (line.format, *(file.format for file in line.files))
    if asked := any(each is not None and each.name == "openmetrics" for each in formats):
        require_extra("controller", "the format openmetrics")
        if desired.targets or desired.focus is not None or desired.moved is not None:
            raise click.UsageError("openmetrics is about whole scopes: leave PATHs and --target out")

    async def count(project: Project, making: Awaitable[Any]) -> Any:
        made = await making
        if asked:
            from reconciler.controller.metrics import text  # needs the extra

            with suppress(ReconcilerError):  # what was done counts, also where the state cannot be read
                line.metrics = text([await _view(project, desired, made)])
        return made

    return count


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
