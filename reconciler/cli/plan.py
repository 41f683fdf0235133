"""`reconcile plan`: what apply would do, as text, JSON or a file to apply later."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.metrics import counting
from reconciler.cli.options import Moment
from reconciler.cli.output import emit, refuse_output
from reconciler.cli.verb import CHANGES, DONE, FAILED, PENDING, code_of, first_of, flag, option, verb
from reconciler.core import advice
from reconciler.core.diagnostics import has_errors, refuse_all
from reconciler.core.model import Action
from reconciler.core.steps import Plan
from reconciler.inventory.prices import price_of_plan, prices_of
from reconciler.project.files import write_output
from reconciler.project.plan import make_plan, unchanged_in
from reconciler.project.project import Project
from reconciler.reports.report import PlanReport
from reconciler.reports.verdict import approvals
from reconciler.services.registry import Budget

if TYPE_CHECKING:  # few plans rehearse or look ahead
    from reconciler.rehearsal.results import Forecast, Rehearsal
    from reconciler.reports.fragments import PriceJson


@verb(
    "plan",
    *options.OF_PLANS,
    options.CHANGED_SINCE,
    options.UNTRUSTED_REF,
    options.NO_PAGER,
    report="plan",
)
def command(
    show_all: bool,
    chosen: ChosenState,
    out: Path | None = option("--out", "Save the plan for `apply --plan`.", type=options.FILE),
    detailed_exitcode: bool = flag("--detailed-exitcode", "Exit 2 when there are changes."),
    with_exec: bool = flag("--with-exec", "Run the programs that give secret values, as apply does."),
    rehearse: bool = flag("--rehearse", "Rehearse the plan on a twin of the platform, too."),
    plan_file: Path | None = option(
        "--plan",
        "With --rehearse: rehearse a plan saved by `plan --out`, instead of making one.",
        type=options.FILE,
    ),
    at: datetime | None = option(
        "--at",
        "Say what will have come to pass at that time (+12h, +30d, +2w, or a time in UTC).",
        type=Moment(ahead=True),
        metavar="+30d|TIME",
    ),
    after_apply: bool = flag("--after-apply", "With --at: as if this plan were applied now."),
) -> int:
    """Show what apply would do. Reads the platform, sends no change, takes no lock.

    With --rehearse, the plan is also carried out on a twin of the platform: once clean, then with each fault
    in each of its calls. The twin is an emulated platform in memory, which begins as the live one is. Exits 1
    if a clean run does not do what the plan says. With --plan, a saved plan is rehearsed, with the PATHs and
    --ref that it was made with; then no secret value is used.
    """
    if chosen.untrusted is not None and with_exec:
        raise click.UsageError("--with-exec: no program runs for an untrusted change (--untrusted)")
    if after_apply and at is None:
        raise click.UsageError("--after-apply: needs --at, the time to look at")
    if plan_file is not None and not rehearse:
        raise click.UsageError("--plan: goes with --rehearse; `apply --plan` carries a saved plan out")
    if plan_file is not None and any(
        (out, at, with_exec, detailed_exitcode, chosen.targets, chosen.changed_since)
    ):
        raise click.UsageError("--plan: a saved plan is rehearsed as it is; only PATHs and --ref go with it")
    if out is not None:
        refuse_output(out)
    saved = None
    if plan_file is not None:
        from reconciler.project.apply import read_saved  # it brings all that apply needs

        saved = read_saved(plan_file, chosen.config.env).plan
    desired = chosen.load_desired()
    count = counting(desired)
    prices = prices_of(chosen.config)

    async def make(project: Project) -> "tuple[Plan, Rehearsal | None, Forecast | None]":
        """The plan, and the rehearsal and the forecast where they were asked for."""
        if not rehearse and at is None:
            return await make_plan(project, desired, with_exec=with_exec), None, None
        from reconciler.rehearsal.forecast import look_ahead  # no other plan needs these
        from reconciler.rehearsal.rehearse import rehearse_saved

        if saved is not None:
            return saved, await rehearse_saved(project, desired, saved), None
        return await look_ahead(
            project, desired, with_exec=with_exec, rehearses=rehearse, at=at, after_apply=after_apply
        )

    async def work(
        project: Project,
    ) -> "tuple[Plan, Rehearsal | None, Forecast | None, Budget, PriceJson | None]":
        made, price = await count(project, make(project)), None
        if prices is not None:
            price = price_of_plan(prices, made[0], desired.by_address, await project.store.load())
        return *made, project.budget, price

    plan, rehearsal, forecast, budget, price = chosen.use_project(work, desired.resources, desired.providers)
    savable = not refuse_all(plan.diagnostics)
    if out is not None and savable:
        from reconciler.planning.saved import dump_plan  # it brings rehearsals, which few plans have

        write_output(out, dump_plan(plan, rehearsal), mode=0o600)
    unchanged = unchanged_in(plan, desired) if show_all else None
    foretold = [item.address for item in forecast.items] if forecast is not None else []
    report = PlanReport(
        plan=plan,
        unchanged=unchanged,
        rehearsal=rehearsal,
        forecast=forecast,
        budget=budget,
        price=price,
        diagnostics=plan.diagnostics,
        declared=desired.declared_at(plan, *foretold),
    )
    emit(report, paged=True)
    if out is not None:
        given = [*(("--ref", chosen.ref) if chosen.ref is not None else ()), *chosen.paths]
        approved = shlex.split(" ".join(approvals(plan)))
        run_it = advice.command("apply", "--plan", out, *approved, *given).with_options(of_this_run())
        click.echo(
            f"Saved the plan: {run_it}" if savable else "error: a plan with errors is not saved", err=True
        )
    failed = rehearsal is not None and not rehearsal.is_as_planned
    return first_of(exit_code(plan, detailed=detailed_exitcode), FAILED if failed else DONE)


def exit_code(plan: Plan, *, detailed: bool) -> int:
    """The exit code of a plan. Owed work and retained objects are not changes; unfinished work is pending."""
    codes = [DONE]
    if has_errors(plan.diagnostics):
        codes.append(code_of(plan.diagnostics, FAILED))
    if detailed:
        if any(change.action.changes_something for change in plan.changes):
            codes.append(CHANGES)
        elif plan.steps or any(change.action is Action.NOOP for change in plan.changes):
            codes.append(PENDING)
    return first_of(*codes)
