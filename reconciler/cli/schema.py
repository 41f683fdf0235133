"""`reconcile schema`: the manifests' JSON Schema, for editors."""

import click

from reconciler.cli.failures import DONE, echo_json


@click.command("schema", short_help="Print the JSON Schema of the manifests.")
def command() -> int:
    """Print the JSON Schema of the manifests, which editors' YAML language servers complete by."""
    from reconciler.manifests.schema import json_schema

    echo_json(json_schema())
    return DONE
