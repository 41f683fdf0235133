"""`reconcile approve`: a person's signature under exactly one plan."""

import os
import secrets
import sys
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.approvals import statement as signing
from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run, settings_here
from reconciler.cli.output import emit, refuse_output
from reconciler.cli.signals import blocking, confirmed
from reconciler.cli.verb import DONE, FAILED, argument, option, verb
from reconciler.core import advice
from reconciler.core.clock import SystemClock
from reconciler.core.words import counted
from reconciler.planning.saved import load_saved
from reconciler.project.apply import refuse_other_environment
from reconciler.project.files import read_file, write_output
from reconciler.reports.escape import visible
from reconciler.reports.formats import find_formats
from reconciler.reports.report import Page, PlanReport, advise_plan


@verb("approve", options.AUTO_APPROVE)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is signed, too.")
def command(
    auto_approve: bool,
    chosen: ChosenState,
    plan_file: Path = argument(metavar="PLAN", type=options.FILE),
    key: Path | None = option(
        "--key",
        "SSH key, or the public one of a key in the agent (default: the one that git signs with, or the "
        "agent's only key).",
        type=options.FILE,
        metavar="FILE",
    ),
    principal: str | None = option(
        "--principal", "Your name in allowed_signers, if several fit or none.", metavar="NAME"
    ),
    overrides: tuple[str, ...] = option(
        "--override",
        "A guardrail that this plan may step over, or an address that need not wait for a window: see `apply "
        "--now` (repeatable).",
        multiple=True,
        metavar="RULE|ADDRESS",
    ),
    out: Path | None = option(
        "--out", "Where the approval goes (default: PLAN.NAME.approval).", type=options.FILE, metavar="FILE"
    ),
) -> int:
    """Show the saved plan in PLAN, ask, and sign it with an SSH key.

    The approval holds for this plan and rehearsal, environment and state, for a limited time, once. It is for
    `apply --plan PLAN --approval FILE`. Off a terminal, --yes is needed.
    """
    if not auto_approve and not sys.stdin.isatty():
        raise click.UsageError("cannot ask on standard input: pass --yes to sign without asking")
    if not signing.is_reason(chosen.reason):
        raise click.UsageError(f"--reason is one line of at most {signing.MOST_REASON} characters")
    if principal is not None and not signing.PRINCIPAL.fullmatch(principal):
        raise click.UsageError("--principal is a name such as ana@example.com")
    if out is not None:
        refuse_output(out)
    saved = load_saved(read_file(plan_file))
    plan = saved.plan
    known = {word for item in plan.diagnostics for each in item.advice for word in each.words}
    addresses = {str(change.address) for change in plan.changes}
    if unknown := [name for name in overrides if name not in known | addresses]:
        raise click.UsageError(f"--override: this plan does not ask to override a guardrail `{unknown[0]}`")
    if chosen.env:
        refuse_other_environment(chosen.env, plan)
    config = settings_here(plan.context.environment, sandbox=chosen.sandbox)
    signer = signing.choose_key(config, key)
    name = principal or signing.principal_of(config, signer)
    target = out or plan_file.with_name(f"{plan_file.name}.{name}.approval")
    if out is None:
        refuse_output(target)
    now = SystemClock().now()
    nonce = secrets.token_hex(16)
    statement = signing.statement_of(config, saved, name, chosen.reason, now, nonce, overrides)
    run_options = of_this_run()
    if config.environments():  # what is typed next names the plan's own
        run_options = replace(run_options, env=plan.context.environment)
    shown = advise_plan(plan, run_options)
    report = PlanReport(plan=shown, rehearsal=saved.rehearsal, diagnostics=shown.diagnostics)
    click.echo(find_formats()["text"].render(report), err=True)
    click.echo("\n".join(signing.summary(saved, statement, signer)), err=True)
    if not auto_approve and not confirmed("Sign this approval?"):
        click.echo("not signed; nothing was written", err=True)
        return FAILED
    with blocking():  # the key may ask for its passphrase, or for a touch
        approval = signing.signed(config, statement, signer)
    write_output(target, approval.to_bytes(), mode=0o644)
    others = signing.given_already(plan_file, statement)
    left = signing.still_needed(config, saved, [*others.values(), approval])
    if left:
        then = advice.command("approve", plan_file, "--reason", "TEXT")
        next_step = f"{counted(left, 'more approval')} of other people {'is' if left == 1 else 'are'} needed"
    else:
        files = [word for file in (*others, target) for word in ("--approval", file)]
        files += [word for name in overrides if name in addresses for word in ("--now", name)]
        made_from = [os.path.relpath(config.root / path) for path in plan.manifests.paths]
        files += [f"--ref={plan.manifests.ref}"] if plan.manifests.ref else []
        files += ["--", *made_from] if made_from else []
        next_step, then = "Apply it with", advice.command("apply", "--plan", plan_file, *files)
    typed = visible(str(then.with_options(run_options)))
    document = {"approval": str(target), "principal": name, "plan": statement.plan, "id": approval.id}
    document |= {"expires": f"{statement.expires:%Y-%m-%dT%H:%M:%SZ}"}
    emit(Page(document=document, text=f"Approved as {name}: {target}\n{next_step}: {typed}\n"))
    return DONE
