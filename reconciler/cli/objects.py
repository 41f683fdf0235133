"""`reconcile show`, `resolve` and `extension sso`: verbs about single recorded objects."""

import sys
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS, AddressType
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.group import Group
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, argument, flag, option, verb
from reconciler.core.context import Context
from reconciler.core.errors import ManifestError
from reconciler.core.model import Address, Resource
from reconciler.planning.declared import Desired
from reconciler.project import resolve as decisions
from reconciler.project.desired import origin_here, service_of_object
from reconciler.project.project import Project
from reconciler.project.show import Shown, look_at, object_page, sign_in_address
from reconciler.reports.report import Page


@verb("show")
def show(chosen: ChosenState, address: Address = argument(type=ADDRESS)) -> int:
    """Show one recorded resource: live fields, endpoints, snapshots, backups, what is owed."""
    policies = service_of_object(address, chosen.load_desired)

    def manifests() -> Desired:
        """The declared resources; none where the manifests have errors: the record is shown in any case."""
        try:
            return chosen.load_desired()
        except ManifestError:
            return Desired(())

    async def work(project: Project) -> tuple[Shown, Context]:
        shown = await look_at(project, address, manifests, policies)
        return shown, project.context(origin_here(chosen.config), shown.lineage)

    shown, context = chosen.use_project(work, policies=policies)
    emit(object_page(shown, context))
    return FAILED if not shown.unreadable and shown.live is None else DONE


@verb("resolve", *options.DECIDES, by_people=True)
def resolve(
    chosen: ChosenState,
    addresses: tuple[Address, ...] = argument(type=ADDRESS, nargs=-1, metavar="ADDRESS..."),
    adopt: str | None = option(
        "--adopt", "The call made this object; also confirms an inferred id.", metavar="ID"
    ),
    not_created: bool = flag("--not-created", "The call made nothing; it may be sent again."),
    force: bool = flag("--force", "With --adopt or --not-created: even if the evidence says otherwise."),
    restarted: bool = flag("--restarted", "The owed restarts are done."),
    machine: str | None = option(
        "--machine", "With --restarted: of all volumes that this machine holds.", metavar="ID"
    ),
    confirm_inferred: bool = flag("--confirm-inferred", "The inferred ids are yours (default: all)."),
    dismiss: tuple[str, ...] = option(
        "--dismiss",
        "Stop reporting the similar object with this id; may be repeated.",
        metavar="ID",
        multiple=True,
    ),
) -> None:
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
        policies = service_of_object(addresses[0], chosen.load_desired)

    async def work(project: Project) -> Mapping[Address, str]:
        if restarted:
            return await decisions.settle_restarts(project, addresses, machine=machine)
        if confirm_inferred:
            return await decisions.confirm_inferred(project, addresses)
        (address,) = addresses
        if dismiss:
            return {address: await decisions.dismiss(project, address, dismiss)}
        return {address: await decisions.resolve_unknown(project, address, adopt=adopt, force=force)}

    resolved = chosen.use_project(work, policies=policies)
    documents = [{"address": str(address), "resolved": words} for address, words in resolved.items()]
    emit(
        Page(
            document=documents[0] if len(addresses) == 1 else {"resolved": documents},
            text="".join(f"{address}: {words}\n" for address, words in resolved.items()),
            notices="" if resolved else "no recorded id is inferred: there is nothing to confirm\n",
        )
    )


@click.group("extension", cls=Group, moved={"show": "show ADDRESS"})
def extension() -> None:
    """Sign in to recorded extensions. Their providers are those of the configured manifests."""


@verb("sso", of=extension, report=None)
def sso(
    chosen: ChosenState,
    address: Address = argument(type=AddressType("Extension")),
    only_print: bool = flag("--print", "Print the address instead of opening it."),
) -> None:
    """Open the page where the provider signs a person in; print it without a browser or terminal."""
    policies = chosen.load_desired().policies
    url = chosen.use(lambda store: sign_in_address(store, policies, address))
    opened = False
    if not only_print and sys.stdout.isatty():
        with suppress(webbrowser.Error):
            opened = webbrowser.open(url)
    if not opened:
        click.echo(url)
