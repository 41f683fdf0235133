"""`reconcile show`: one resource as the platform and the record have it."""

import json
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS
from reconciler.cli.failures import DONE, FAILED, echo_json, reports_failures
from reconciler.cli.signals import run
from reconciler.cli.state import document
from reconciler.core.model import Address, owed_work
from reconciler.reports.visible import visible

if TYPE_CHECKING:
    from reconciler.pipeline.show import Shown


@click.command("show", short_help="Show one resource: live fields, snapshots, what is owed.")
@click.argument("address", type=ADDRESS)
@options.platform
@reports_failures
def command(address: Address, env: str, output: str, state_url: str | None, sandbox: bool) -> int:
    """Show one recorded resource: live fields, endpoints, snapshots, backups, what is owed."""
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.core.errors import ManifestError
    from reconciler.pipeline.desired import load_desired, load_policies
    from reconciler.pipeline.open import Options, open_project
    from reconciler.pipeline.project import Desired
    from reconciler.pipeline.show import look_at

    found, reporter = settings_here(env), make_reporter()

    def manifests() -> Desired:
        try:
            return load_desired((), found, texts_here(), reporter)
        except ManifestError:
            return Desired(())  # a record is shown whatever the manifests hold

    async def work() -> "Shown":
        chosen = Options(sandbox, state_url, read_only=True)
        policies = load_policies(found, texts_here(), reporter) if address.kind == "Extension" else ()
        async with open_project(found, chosen, reporter, policies=policies) as project:
            return await look_at(project, address, manifests)

    shown = run(work)
    if output == "json":
        sets = {"sets": list(shown.sets)} if shown.sets else {}
        told = {"record": document(shown.record), "live": shown.live, **sets, **shown.details}
        echo_json({"format_version": "1", **told})
    else:
        _echo(shown)
    return FAILED if not shown.unreadable and shown.live is None else DONE


def _echo(shown: "Shown") -> None:
    _line(f"{shown.record.address} {shown.record.id}".rstrip())
    if shown.live is not None:
        for name, value in shown.live.items():
            _line(f"  {name}: {_json(value)}")
    else:
        unreadable = f"  not readable on the platform ({shown.unreadable})"
        click.echo(unreadable if shown.unreadable else "  not on the platform")
    if shown.sets:
        _line(f"sets secrets: {', '.join(shown.sets)}")
    for name, items in shown.details.items():
        _line(f"{name}:{'' if items else ' none'}")
        for item in items:
            _line(f"  {_json(item)}")
    for owed in owed_work({shown.record.address: shown.record}):
        _line(f"owed: {owed.work} ({owed.certainty}), because {owed.because}")


def _line(text: str) -> None:
    click.echo(visible(text))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
