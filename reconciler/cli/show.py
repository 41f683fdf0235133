"""`reconcile show`: one resource as the platform and the record have it."""

from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, echo_json, reports_failures
from reconciler.cli.state import document, parse_address


@click.command("show", short_help="Show one resource: live fields, snapshots, what is owed.")
@click.argument("address")
@options.platform
@reports_failures
def command(address: str, output: str, state_url: str | None, sandbox: bool) -> int:
    """Show one recorded resource: live fields, endpoints, snapshots, backups, what is owed."""
    import anyio

    from reconciler.cli.progress import make_reporter
    from reconciler.cli.project import Options, open_project, settings_here
    from reconciler.pipeline.show import look_at

    parsed = parse_address(address)

    async def work() -> Any:
        chosen = Options(sandbox, state_url, read_only=True)
        async with open_project(settings_here(), chosen, make_reporter()) as project:
            return await look_at(project, parsed)

    record, live, details = anyio.run(work)
    found = {
        "format_version": "1",
        "record": document(record),
        "live": live,
        **details,
    }
    if output == "json":
        echo_json(found)
    else:
        import json

        click.echo(f"{address} ({record.id})")
        click.echo(json.dumps(found["live"], indent=2, ensure_ascii=False))
        for name, items in details.items():
            click.echo(f"{name}:")
            for item in items:
                click.echo(f"  {json.dumps(item, ensure_ascii=False)}")
        for owed in found["record"]["owed"]:
            click.echo(f"owed: {owed['work']}, because {owed['because']} ({owed['certainty']})")
    return DONE if live is not None else FAILED
