"""`reconcile resolve`: a person says what no evidence can."""

from collections.abc import Mapping, Sequence

import click

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import texts_here
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, verb
from reconciler.core.model import Address, Resource
from reconciler.project.desired import load_service_of
from reconciler.project.project import Project
from reconciler.project.resolve import confirm_inferred as confirm
from reconciler.project.resolve import dismiss as dismiss_lookalikes
from reconciler.project.resolve import resolve_unknown, settle_restarts
from reconciler.reports.report import Page


@verb("resolve", *options.DECIDES)
@click.argument("addresses", type=ADDRESS, nargs=-1, metavar="ADDRESS...")
@click.option("--adopt", metavar="ID", help="The call made this object; also confirms an inferred id.")
@click.option("--not-created", is_flag=True, help="The call made nothing; it may be sent again.")
@click.option(
    "--force", is_flag=True, help="With --adopt or --not-created: even if the evidence says otherwise."
)
@click.option("--restarted", is_flag=True, help="The owed restarts are done.")
@click.option("--machine", metavar="ID", help="With --restarted: of all volumes that this machine holds.")
@click.option("--confirm-inferred", is_flag=True, help="The inferred ids are yours (default: all).")
@click.option(
    "--dismiss",
    metavar="ID",
    multiple=True,
    help="Stop reporting the similar object with this id; may be repeated.",
)
def command(
    addresses: tuple[Address, ...],
    adopt: str | None,
    not_created: bool,
    force: bool,
    restarted: bool,
    machine: str | None,
    confirm_inferred: bool,
    dismiss: tuple[str, ...],
    chosen: ChosenState,
) -> int:
    """Settle a call with an unknown outcome, record that an owed restart is done, or stop reporting an object
    that looks like yours (`lookalike`).
    """
    if (adopt is not None) + not_created + restarted + confirm_inferred + bool(dismiss) != 1:
        raise click.UsageError(
            "give exactly one of --adopt ID, --not-created, --restarted, --confirm-inferred and --dismiss ID"
        )
    if adopt is not None and not adopt.strip():
        raise click.UsageError("--adopt is empty: an object has an id")
    if force and (restarted or confirm_inferred or dismiss):
        raise click.UsageError("--force goes with --adopt or --not-created")
    if machine is not None and (not restarted or addresses):
        raise click.UsageError("--machine goes with --restarted, in place of addresses")
    if not addresses and machine is None and not confirm_inferred:
        raise click.UsageError("Missing argument 'ADDRESS...'.")
    if len(addresses) > 1 and not (restarted or confirm_inferred):
        raise click.UsageError("--adopt, --not-created and --dismiss answer for one address at a time")
    policies: Sequence[Resource] = ()
    if addresses:
        policies = load_service_of(addresses[0], chosen.config, texts_here(), chosen.reporter)

    async def work(project: Project) -> Mapping[Address, str]:
        if restarted:
            return await settle_restarts(project, addresses, machine=machine)
        if confirm_inferred:
            return await confirm(project, addresses)
        (address,) = addresses
        if dismiss:
            return {address: await dismiss_lookalikes(project, address, dismiss)}
        return {address: await resolve_unknown(project, address, adopt=adopt, force=force)}

    resolved = chosen.use_project(work, policies=policies)
    documents = [{"address": str(address), "resolved": words} for address, words in resolved.items()]
    emit(
        Page(
            document=documents[0] if len(addresses) == 1 else {"resolved": documents},
            text="".join(f"{address}: {words}\n" for address, words in resolved.items()),
            notices="" if resolved else "no recorded id is inferred: there is nothing to confirm\n",
        )
    )
    return DONE
