"""`reconcile show`: one resource as the platform and the record have it."""

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, output
from reconciler.cli.signals import run
from reconciler.core.model import Address

if TYPE_CHECKING:
    from reconciler.core.context import Context
    from reconciler.pipeline.show import Shown


@click.command("show", short_help="Show one resource: live fields, snapshots, what is owed.")
@click.argument("address", type=ADDRESS)
@options.state
@output()
@reports_failures
def command(address: Address, env: str, state_url: str | None, sandbox: bool) -> int:
    """Show one recorded resource: live fields, endpoints, snapshots, backups, what is owed."""
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.core.errors import ManifestError
    from reconciler.pipeline.declared import Desired
    from reconciler.pipeline.desired import load_desired, load_service_of, origin_here
    from reconciler.pipeline.open import Options, open_project
    from reconciler.pipeline.show import look_at
    from reconciler.reports.records import object_page

    found, reporter = settings_here(env), make_reporter()

    def manifests() -> Desired:
        try:
            return load_desired((), found, texts_here(), reporter)
        except ManifestError:
            return Desired(())  # a record is shown whatever the manifests hold

    async def work() -> "tuple[Shown, Context]":
        chosen = Options(sandbox, state_url, read_only=True)
        policies = load_service_of(address, found, texts_here(), reporter)
        async with open_project(found, chosen, reporter, policies=policies) as project:
            shown = await look_at(project, address, manifests)
            return shown, project.context(origin_here(found), shown.lineage)

    shown, context = run(work)
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
