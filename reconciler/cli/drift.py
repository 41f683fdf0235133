"""`reconcile drift`: changes on the platform without us. --accept writes them into the manifests."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from reconciler.cli import options
from reconciler.cli.addresses import PATH_OR_ADDRESS, other_kind
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.metrics import counting
from reconciler.cli.output import emit
from reconciler.cli.verb import CHANGES, DONE, FAILED, argument, code_of, first_of, flag, verb
from reconciler.core import advice
from reconciler.core.diagnostics import FOUND_BY_DRIFT, has_errors
from reconciler.core.model import Address
from reconciler.core.words import counted
from reconciler.drift.accept import accept as accept_drift
from reconciler.drift.accept import keep_records
from reconciler.drift.acceptance import Environments, acceptance_document, render_acceptance
from reconciler.drift.baseline import FILE_NAME, load_baseline, only_new
from reconciler.drift.baseline import save_baseline as save
from reconciler.drift.find import Drift, find_drift
from reconciler.policies import find_manifest_kinds
from reconciler.project.scopes import declared_in_focus
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import require_private
from reconciler.reports.report import DriftReport


@verb("drift", options.TARGET, options.NO_PAGER, report="drift", notifies=True)
def command(
    chosen: ChosenState,
    arguments: Sequence[str] = argument(nargs=-1, metavar="[PATH]... [ADDRESS]...", type=PATH_OR_ADDRESS),
    accept: bool = flag(
        "--accept",
        "Write the platform's values into the manifests, for the given ADDRESSes or for all drift; no other "
        "byte changes.",
    ),
    all_fields: bool = flag("--all-fields", "Exit 2 also for fields that no manifest sets."),
    only_new: bool = flag("--only-new", "Leave out what the saved baseline knows."),
    save_baseline: bool = flag("--save-baseline", "Save the present drift as known, for --only-new."),
) -> int:
    """Compare the platform with what was last applied. Sends nothing but GET. Exit 2 when something moved.

    With --accept, only manifests change, and the records of objects that no manifest names; exit 0 once
    nothing drifts any more, 1 when a value cannot be accepted: then nothing was changed. An ADDRESS is taken
    with --accept only.
    """
    if accept + only_new + save_baseline > 1:
        raise click.UsageError("--accept, --only-new and --save-baseline exclude each other")
    paths, addresses = _sorted_out(arguments) if accept else (arguments, [])
    if accept:
        chosen.require_person("drift --accept")  # accepted drift is not reported again

    config, desired = chosen.config, chosen.load_desired(paths)
    look = partial(chosen.use_project, resources=desired.resources, policies=desired.policies)
    count = counting(desired)
    drift = look(lambda project: count(project, find_drift(project, desired)))
    if accept:
        shared = Environments(config.env, config.settings.overlays) if config.environments() else None
        done = accept_drift(drift, desired, config.root, addresses, shared)
        if done.records:
            look(lambda project: keep_records(project, done.records))
        plan = done.shown_in(drift.plan)
        shown = replace(drift, plan=plan)
        _report(shown, render_acceptance(done, paths, of_this_run()), acceptance_document(done))
        return first_of(FAILED if has_errors(plan.diagnostics) else DONE, CHANGES if done.remaining else DONE)
    if save_baseline:
        require_private(config.root, config.private)
        file, compared = config.private / FILE_NAME, None
        if paths or chosen.targets:  # of these manifests alone
            compared = [resource.address for resource in declared_in_focus(desired)]
        known = save(file, drift.plan, compared)
        saved_at = drift.plan.context.at.isoformat()
        saved = {"baseline": {"file": str(file), "saved_at": saved_at, "known": known}}
        _report(drift, f"Saved {counted(known, 'drifted value')} as known: see --only-new.\n", saved)
        return DONE
    code = _only_new(drift, config) if only_new else _report(drift)
    return first_of(code, CHANGES if all_fields and drift.unmanaged else DONE)


def _sorted_out(arguments: Sequence[str]) -> tuple[list[str], list[Address]]:
    """The arguments as PATHs, which exist, and ADDRESSes. Raises UsageError for neither and for both."""
    paths: list[str] = []
    addresses: dict[Address, None] = {}
    for given in arguments:
        try:
            address = Address.parse(given)
        except ValueError:
            address = None
        if address is not None and address.kind not in find_manifest_kinds():
            address = None
        there = given == "-" or Path(given).exists()
        if address is not None and there:
            raise click.UsageError(f"`{given}` is an address and a path: write ./{given} for the path")
        if there:
            paths.append(given)
        elif address is not None:
            addresses[address] = None
        else:
            hint = other_kind(given) or "; one looks like Volume/shop/data"
            raise click.UsageError(f"`{given}` is neither a path nor an address{hint}")
    return paths, list(addresses)


def _report(
    drift: Drift, note: str = "", more: dict[str, Any] | None = None, *, only_new: bool = False
) -> int:
    """Print the drift with a `note` for people and `more` for JSON; returns the exit code."""
    plan = drift.plan
    report = DriftReport(
        plan=plan,
        unmanaged=drift.unmanaged,
        without_manifest=len(drift.without_manifest),
        only_new=only_new,
        note=note,
        more=more or {},
        diagnostics=plan.diagnostics,
        declared=drift.declared,
    )
    emit(report, paged=True)
    failed = code_of(plan.diagnostics, FAILED) if has_errors(plan.diagnostics) else DONE
    found = any(problem.code in FOUND_BY_DRIFT for problem in plan.diagnostics)
    return first_of(failed, CHANGES if plan.changes or found else DONE)


def _only_new(drift: Drift, config: ProjectSettings) -> int:
    """Print the drift that the saved baseline does not know; returns the exit code."""
    require_private(config.root, config.private)
    file = config.private / FILE_NAME
    baseline = load_baseline(file, drift.plan.context.lineage)
    if baseline is None:
        more = {"baseline": {"file": str(file), "saved_at": None, "known": 0}}
        to_save = advice.command("drift", "--save-baseline").with_options(of_this_run())
        more_text = f"No baseline yet: all of it is new. To make one: {to_save}\n"
        return _report(drift, more_text, more)
    plan, known = only_new(drift, baseline)
    saved_at = baseline.saved_at
    more = {"baseline": {"file": str(file), "saved_at": saved_at.isoformat(), "known": known}}
    more_text = f"Left out: {known} known since {saved_at:%Y-%m-%d %H:%M} UTC.\n" if known else ""
    return _report(replace(drift, plan=plan), more_text, more, only_new=True)
