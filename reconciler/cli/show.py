"""`reconcile show`: one resource as the platform and the record have it."""

import click
from msgspec.structs import replace

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import texts_here
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, verb
from reconciler.core.context import Context
from reconciler.core.errors import ManifestError
from reconciler.core.model import Address
from reconciler.planning.declared import Desired
from reconciler.project.desired import load_service_of, origin_here
from reconciler.project.project import Project
from reconciler.project.show import Shown, look_at
from reconciler.reports.records import object_page


@verb("show", *options.ON_STATE)
@click.argument("address", type=ADDRESS)
def command(address: Address, chosen: ChosenState) -> int:
    """Show one recorded resource: live fields, endpoints, snapshots, backups, what is owed."""
    config = chosen.config

    def manifests() -> Desired:
        try:
            return chosen.load_desired()
        except ManifestError:
            return Desired(())  # a record is shown whatever the manifests hold

    policies = load_service_of(address, config, texts_here(), chosen.reporter)

    async def work(project: Project) -> tuple[Shown, Context]:
        shown = await look_at(project, address, manifests, policies)
        return shown, project.context(origin_here(config), shown.lineage)

    shown, context = chosen.use_project(work, policies=policies)
    page = object_page(
        shown.record,
        shown.live,
        shown.unreadable,
        shown.sets,
        shown.details,
        shown.known,
        shown.known_from,
    )
    emit(replace(page, context=context))
    return FAILED if not shown.unreadable and shown.live is None else DONE
