"""`reconcile apply`: plan, ask, run; or run a saved plan."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import click
from msgspec.structs import replace

from reconciler.approvals.creates import Everything
from reconciler.approvals.judging import Given, read_approvals
from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS, CREATE
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.event_loop import Watch, run_watched
from reconciler.cli.metrics import counting
from reconciler.cli.output import emit, emit_part
from reconciler.cli.signals import Interrupted, confirmed
from reconciler.cli.verb import (
    DONE,
    FAILED,
    PENDING,
    code_of,
    echo_error,
    first_of,
    option,
    report_failure,
    report_interrupted,
    verb,
)
from reconciler.core.advice import command as advised
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import TO_APPROVE, Address
from reconciler.core.state_url import is_shared
from reconciler.core.steps import Plan
from reconciler.core.words import counted
from reconciler.planning.declared import Desired
from reconciler.project.apply import PlanRefused, about_targets, apply, read_saved, run_saved
from reconciler.project.identity import create_state
from reconciler.project.plan import unchanged_in
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.reports.escape import visible
from reconciler.reports.report import ApplyReport, PlanReport

# A skipped step waits for one that failed, is unknown or is pending, whose code says more. An unknown outcome
# without a question is settled by the next run.
_CODES = {"failed": FAILED, "skipped": PENDING, "unknown": PENDING, "pending": PENDING, "done": DONE}


@verb("apply", *options.OF_PLANS, options.AUTO_APPROVE, *options.DECIDES, report="apply", notifies=True)
def command(
    auto_approve: bool,
    show_all: bool,
    chosen: ChosenState,
    plan_file: Path | None = option(
        "--plan",
        "Run what was reviewed, a plan saved by `plan --out`, if the plan of now is the same.",
        type=options.FILE,
    ),
    approval_files: Sequence[Path] = option(
        "--approval",
        "With --plan: an approval that `approve` wrote, which also covers its deletes; may be repeated.",
        type=options.FILE,
        multiple=True,
        metavar="FILE",
    ),
    base: str = option(
        "--base",
        "The revision before the change, which says who has to approve it (default: from CI's variables).",
        metavar="REF",
        default="",
    ),
    approved_deletes: Sequence[Address] = option(
        "--approve-delete",
        "Allow the deletion of exactly this resource; may be repeated.",
        multiple=True,
        metavar="ADDRESS",
        type=ADDRESS,
    ),
    approved_creates: Sequence[str] = option(
        "--approve-create",
        "Allow this resource to be created although no list shows whether it exists, in the state that the "
        "plan calls WORD; may be repeated.",
        multiple=True,
        envvar="RECONCILE_APPROVE_CREATE",
        metavar="ADDRESS@WORD",
        type=CREATE,
    ),
    at_once: Sequence[Address] = option(
        "--now",
        "Do not wait for the window of this resource, which an --approval names; may be repeated.",
        multiple=True,
        metavar="ADDRESS",
        type=ADDRESS,
    ),
    spool_to: Path | None = option(
        "--spool-to",
        "Write to FILE what the state could not take, for `state ingest`.",
        type=options.FILE,
        metavar="FILE",
    ),
) -> int:
    """Show the plan, ask, and carry it out. Off a terminal, --auto-approve is needed."""
    if plan_file is not None and chosen.targets:
        raise click.UsageError("--plan runs what a saved plan names; it takes no --target")
    if plan_file is None and chosen.ref is not None:
        raise click.UsageError("--ref is for a plan that was saved with it: pass --plan FILE, too")
    if plan_file is None and not auto_approve and ("-" in chosen.paths or not sys.stdin.isatty()):
        raise click.UsageError("cannot ask on standard input: pass --auto-approve to apply without asking")
    if approval_files and plan_file is None:
        raise click.UsageError("--approval is for a saved plan: pass --plan FILE, too")
    if approved_deletes or approved_creates:
        chosen.require_person("--approve-delete" if approved_deletes else "--approve-create")
    approvals = read_approvals(approval_files)
    deletes, demanded = list(map(str, approved_deletes)), tuple(map(str, at_once))
    saved = read_saved(plan_file, chosen.config.env) if plan_file is not None else None
    desired = chosen.load_desired()
    about = about_targets(desired, saved.plan) if saved is not None else desired
    count = counting(about)

    def unchanged_of(plan: Plan) -> Sequence[Address] | None:
        """The unchanged addresses for --show-all; None without it."""
        if not show_all:
            return None
        return unchanged_in(plan, about)

    def show(plan: Plan) -> None:
        emit_part(PlanReport(plan=plan, unchanged=unchanged_of(plan), diagnostics=plan.diagnostics))

    def approve(plan: Plan) -> bool:
        show(plan)
        return auto_approve or confirmed(_question(plan))

    async def run(project: Project, watch: Watch) -> Applied:
        if saved is not None:
            rehearsal = saved.rehearsal.digest if saved.rehearsal is not None else ""
            return await run_saved(
                project,
                desired,
                saved.plan,
                deletes,
                approved_creates,
                given=Given(approvals, rehearsal, now=demanded),
                on_executor=watch.follow,
                tell=show,
            )
        if not auto_approve and not (await project.store.load()).lineage:
            place = project.state_url
            click.echo(f"There is no state at {place}: nothing is known of earlier applies.", err=True)
            if confirmed("Is this a new project? Then create the state"):
                await create_state(project.store, project.actor())
        return await apply(
            project,
            desired,
            approve=approve,
            approved_deletes=deletes,
            approved_creates=approved_creates if auto_approve else Everything(approved_creates),
            on_executor=watch.follow,
            tell=show,
            given=Given(now=demanded),
        )

    left: list[bytes] = []  # spooled outcomes: those that the state could not take

    async def work(watch: Watch) -> Applied:
        opened = chosen.project(desired.resources, desired.policies, read_only=False, base=base)
        async with opened as project:
            try:
                return await count(project, run(project, watch))
            finally:
                with anyio.CancelScope(shield=True), suppress(ReconcilerError):
                    left.extend(await project.store.spooled())

    shared = is_shared(chosen.url) and not chosen.sandbox
    try:
        applied = run_watched(work)
    except PlanRefused as refused:
        plan = replace(refused.plan, diagnostics=refused.diagnostics)
        unchanged = unchanged_of(refused.plan)
        report = _report_of(Applied(plan, owed=plan.owed), unchanged, desired, *desired.by_address)
        emit(replace(report, ended="refused", budget=None))
        echo_error(refused)
        return code_of(refused.diagnostics, FAILED)
    except Interrupted as interrupted:
        return report_interrupted(interrupted, "interrupted; nothing was changed")
    except ReconcilerError as failure:
        return report_failure(failure)
    else:
        whole = _report_of(applied, unchanged_of(applied.plan), desired)
        # A person who watched the plan gets only what came after it.
        emit(whole, unseen=replace(whole, plan_shown=True, diagnostics=applied.notices))
        return exit_code(applied)
    finally:
        print_spooled(left, spool_to, shared=shared)


def exit_code(applied: Applied) -> int:
    """The exit code: 0 only when everything is done. Owed restarts do not count."""
    if applied.declined:
        return FAILED
    held = FAILED if has_errors(applied.plan.diagnostics) else DONE
    codes = (_CODES[result.outcome] for result in applied.results)
    return first_of(code_of(applied.notices, DONE), held, *codes)


def _question(plan: Plan) -> str:
    """The question before an apply. It names resources that no list shows: a yes approves creating them."""
    hidden = [str(change.address) for change in plan.changes if change.reason.startswith(TO_APPROVE)]
    if not hidden:
        return "Apply this plan?"
    return f"Apply this plan, and create {', '.join(hidden)}? Look first: no list shows whether that exists"


def _report_of(
    applied: Applied, unchanged: Sequence[Address] | None, desired: Desired, *named: Address
) -> ApplyReport:
    """The whole report of an apply. `named`: what it may name besides the plan's resources."""
    return ApplyReport(
        plan=applied.plan,
        unchanged=unchanged,
        results=tuple(applied.results),
        owed=applied.owed,
        head=applied.head,
        run=applied.run,
        budget=applied.budget,
        ended="declined" if applied.declined else "done",
        diagnostics=(*applied.plan.diagnostics, *applied.notices),
        declared=desired.declared_at(applied.plan, *named),
    )


def print_spooled(left: list[bytes], file: Path | None, *, shared: bool) -> None:
    """Write `left` to `file`, for its owner alone, and print it; without a file, for a `shared` state only.

    A shared state is often used by a runner whose disk is discarded, so these lines are its last chance.
    """
    if not left or (file is None and not shared):
        return
    what = f"{counted(len(left), 'outcome')} could not be stored"
    ingest = advised("state", "ingest", file or "FILE").with_options(of_this_run())
    if file is not None:
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(b"".join(left))
                opened.flush()
                os.fsync(descriptor)
        except OSError as failure:
            click.echo(f"error: {file} cannot be written: {failure.strerror}", err=True)
        else:
            what += f"; {file} holds them"
    click.echo(f"{what}: keep these lines in a file, and run `{ingest}`", err=True)
    for line in left:
        click.echo(visible(line.decode().rstrip("\n")), err=True)
