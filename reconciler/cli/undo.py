"""`reconcile undo`: what would take a run back."""

from collections.abc import Iterator, Sequence

from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.output import echo_diagnostics, emit
from reconciler.cli.verb import argument, verb
from reconciler.core.advice import command as command_of
from reconciler.core.steps import Call
from reconciler.core.words import counted
from reconciler.project.history import find_history, find_run
from reconciler.project.project import Project
from reconciler.project.undo import Undo, plan_undo
from reconciler.reports.escape import in_json, page_text
from reconciler.reports.report import Page
from reconciler.state.runs import PastRun


@verb("undo")
def command(chosen: ChosenState, run: str = argument(metavar="RUN")) -> None:
    """Show what would take RUN back, and why the rest of it stays. Changes nothing.

    RUN is the beginning of an id that `reconcile history` lists. What can go back is written into the
    manifests (by hand, or with `git revert`), planned and applied as every change is.
    """
    desired = chosen.load_desired()
    echo_diagnostics(desired.diagnostics)

    async def work(project: Project) -> tuple[PastRun, Undo]:
        past, _, _ = await find_run(project.store, run)
        runs = (await find_history(project.store, None, past.began_at)).history.runs
        later = sorted((one for one in runs if one.began_at > past.began_at), key=lambda one: one.began_at)
        return past, await plan_undo(project, desired, past, later)

    past, undo = chosen.use_project(work, desired.resources, desired.providers)
    fields = [
        {
            "address": str(item.address),
            "field": item.field,
            "before": item.before,
            "now": item.now,
            "stays": item.why or None,
        }
        for item in undo.fields
    ]
    document = {
        "run": past.id,
        "fields": fields,
        "stays": [{"step": step, "why": why} for step, why in undo.stays],
        "calls": [{"method": call.method, "path": call.path} for call in _calls(undo)],
    }
    emit(Page(document={"undo": document}, text=page_text(list(_lines(past, undo)))))


def _calls(undo: Undo) -> Sequence[Call]:
    """The calls that would be sent."""
    return [step.call for step in undo.plan.steps if step.mutates] if undo.plan is not None else []


def _lines(past: PastRun, undo: Undo) -> Iterator[str]:
    going = [item for item in undo.fields if not item.why]
    yield f"run {past.id}: {counted(len(going), 'field')} can go back"
    for item in going:
        yield f"  {item.address}  {item.field}: {in_json(item.now)} -> {in_json(item.before)}"
    for call in _calls(undo):
        yield f"      {call.method} {call.path}"
    staying = [
        (f"{item.address}  {item.field}: {in_json(item.now)}", item.why) for item in undo.fields if item.why
    ]
    for what, why in [*staying, *undo.stays]:
        yield f"  stays: {what}"
        yield f"      {why}"
    if going:
        plan = command_of("plan").with_options(of_this_run())
        yield f"Write these values into the manifests (or revert the commit), then: {plan}"
