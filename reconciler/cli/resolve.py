"""`reconcile resolve`: a person says what no evidence can."""

import click

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS
from reconciler.cli.failures import DONE, reports_failures
from reconciler.cli.output import emit, output
from reconciler.cli.signals import run
from reconciler.core.model import Address


@click.command("resolve", short_help="Say what became of a call whose outcome is unknown.")
@click.argument("address", type=ADDRESS)
@click.option("--adopt", metavar="ID", help="The call made this object; or: yes, an inferred id is ours.")
@click.option("--not-created", is_flag=True, help="The call made nothing; it may be sent again.")
@click.option("--restarted", is_flag=True, help="The restart that was owed is done.")
@options.lock_timeout
@options.platform
@output()
@reports_failures
def command(
    address: Address,
    adopt: str | None,
    not_created: bool,
    restarted: bool,
    lock_timeout: float,
    env: str,
    state_url: str | None,
    sandbox: bool,
) -> int:
    """Say what became of a call whose outcome is unknown, or that a restart that was owed is done."""
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.pipeline.desired import load_service_of
    from reconciler.pipeline.open import Options, open_project
    from reconciler.pipeline.resolve import resolve_unknown, settle_restart
    from reconciler.reports.report import Page

    if (adopt is not None) + not_created + restarted != 1:
        raise click.UsageError("give exactly one of --adopt ID, --not-created and --restarted")
    if adopt is not None and not adopt.strip():
        raise click.UsageError("--adopt is empty: an object has an id")
    found, reporter = settings_here(env), make_reporter()

    async def work() -> str:
        chosen = Options(sandbox, state_url, lock_timeout, read_only=True)
        policies = load_service_of(address, found, texts_here(), reporter)
        async with open_project(found, chosen, reporter, policies=policies) as project:
            if restarted:
                return await settle_restart(project, address)
            return await resolve_unknown(project, address, adopt=adopt)

    resolved = run(work)
    emit(Page(document={"address": str(address), "resolved": resolved}, text=f"{address}: {resolved}\n"))
    return DONE
