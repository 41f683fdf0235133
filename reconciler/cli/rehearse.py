"""`reconcile rehearse`: what becomes of a plan on a twin of the platform, clean and with faults."""

from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, code_of, first_of, reports_failures
from reconciler.cli.output import emit, reports
from reconciler.cli.signals import run
from reconciler.core.diagnostics import has_errors
from reconciler.core.steps import ManifestSet, Plan


@click.command("rehearse", short_help="Rehearse a plan on a twin of the platform.")
@click.argument(
    "plan_file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, path_type=Path)
)
@options.no_pager
@options.state
@reports("plan")
@reports_failures
def command(plan_file: Path | None, env: str, state_url: str | None, sandbox: bool) -> int:
    """Carry a plan out on a twin of the platform: once clean, then with each fault in each of its calls.

    PLAN is a file that `plan --out` wrote; without it, the manifests are planned first. The twin is an
    emulated platform in memory, which begins as the live one is. The platform itself is only read, no secret
    value is used, and nothing is stored. Exits 1 if a clean run does not do what the plan says.
    """
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.pipeline.declared import Desired
    from reconciler.pipeline.desired import load_again, load_desired
    from reconciler.pipeline.open import Options, open_project
    from reconciler.pipeline.saved import open_saved
    from reconciler.rehearsal.matrix import Rehearsal
    from reconciler.rehearsal.rehearse import plan_and_rehearse, rehearse_saved
    from reconciler.reports.report import PlanReport

    found, reporter = settings_here(env, sandbox=sandbox), make_reporter()
    chosen = Options(sandbox, state_url, read_only=True)

    def load(made: ManifestSet) -> Desired:
        return load_again(made, found, texts_here(), reporter)

    async def work() -> tuple[Plan, Desired, Rehearsal | None]:
        if plan_file is not None:
            async with open_saved(plan_file, found, chosen, reporter, load) as (saved, again, project):
                return saved.plan, again, await rehearse_saved(project, again, saved.plan)
        desired = load_desired((), found, texts_here(), reporter)
        async with open_project(found, chosen, reporter, desired.resources, desired.providers) as project:
            plan, rehearsal = await plan_and_rehearse(project, desired)
            return plan, desired, rehearsal

    plan, desired, rehearsal = run(work)
    declared = desired.declared_at(plan)
    report = PlanReport(plan=plan, rehearsal=rehearsal, diagnostics=plan.diagnostics, declared=declared)
    emit(report, paged=True)
    codes = [code_of(plan.diagnostics, FAILED) if has_errors(plan.diagnostics) else DONE]
    if rehearsal is not None and (rehearsal.differences or rehearsal.clean.end != "converged"):
        codes.append(FAILED)
    return first_of(*codes)
