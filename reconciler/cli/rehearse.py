"""`reconcile rehearse`: what becomes of a plan on a twin of the platform, clean and with faults."""

from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState, chosen_state
from reconciler.cli.failures import DONE, FAILED, code_of, first_of, reports_failures
from reconciler.cli.output import emit, reports
from reconciler.cli.signals import run
from reconciler.core.diagnostics import has_errors
from reconciler.core.steps import Plan
from reconciler.pipeline.saved import about_targets, read_saved
from reconciler.rehearsal.matrix import Rehearsal
from reconciler.rehearsal.rehearse import plan_and_rehearse, rehearse_saved
from reconciler.reports.report import PlanReport


@click.command("rehearse", short_help="Rehearse a plan on a twin of the platform.")
@click.argument(
    "plan_file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, path_type=Path)
)
@options.paths
@options.ref
@options.no_pager
@chosen_state
@reports("plan")
@reports_failures
def command(
    plan_file: Path | None,
    paths: Sequence[str],
    chosen: ChosenState,
) -> int:
    """Carry a plan out on a twin of the platform: once clean, then with each fault in each of its calls.

    PLAN is a file that `plan --out` wrote, with the PATHs and --ref that it was made with; without it, the
    configured manifests are planned first. The twin is an emulated platform in memory, which begins as the
    live one is. The platform itself is only read, no secret value is used, and nothing is stored. Exits 1 if
    a clean run does not do what the plan says.
    """
    saved = read_saved(plan_file, chosen.config.env).plan if plan_file is not None else None
    desired = chosen.load_desired(paths)

    async def work() -> tuple[Plan, Rehearsal | None]:
        async with chosen.project(desired.resources, desired.providers) as project:
            if saved is None:
                return await plan_and_rehearse(project, desired)
            return saved, await rehearse_saved(project, about_targets(desired, saved), saved)

    plan, rehearsal = run(work)
    declared = desired.declared_at(plan)
    report = PlanReport(plan=plan, rehearsal=rehearsal, diagnostics=plan.diagnostics, declared=declared)
    emit(report, paged=True)
    codes = [code_of(plan.diagnostics, FAILED) if has_errors(plan.diagnostics) else DONE]
    if rehearsal is not None and (rehearsal.differences or rehearsal.clean.end != "converged"):
        codes.append(FAILED)
    return first_of(*codes)
