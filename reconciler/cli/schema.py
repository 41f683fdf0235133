"""`reconcile schema`: the JSON Schema of manifests, for editors, and of `plan -o json`, for policies."""

import json
import os
from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.verb import DONE, verb
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.authoring.reference import json_schema
from reconciler.project.files import write_output
from reconciler.reports.schema import plan_schema


@verb("schema", report=None)
@click.argument(
    "of", type=click.Choice(["manifests", "plan"]), default="manifests", metavar="[manifests|plan]"
)
@click.option(
    "--out",
    type=options.FILE,
    help="Write it to FILE; new manifests name reconcile.schema.json.",
)
def command(of: str, out: Path | None) -> int:
    """Print a JSON Schema: of manifests, for editors with a YAML language server (the default), or of what
    `plan -o json` prints, for policies and scripts.
    """
    schema = plan_schema() if of == "plan" else json_schema()
    if out is None:
        click.echo(json.dumps(schema, ensure_ascii=False, indent=2))
    else:
        _write(out, schema)
        click.echo(f"Wrote {out}")
    return DONE


def _write(out: Path, schema: dict[str, Any]) -> None:
    """Replace an earlier schema of ours, and nothing else. Raises ReconcilerError."""
    try:
        if os.path.lexists(out) and not _is_ours(out, schema["title"]):
            raise ReconcilerError(f"{out} exists and is not a reconcile schema", help="name another file")
    except OSError as failure:
        raise ReconcilerError(f"cannot write {out}: {failure.strerror}") from failure
    write_output(out, f"{json.dumps(schema, ensure_ascii=False, indent=2)}\n".encode())


def _is_ours(out: Path, title: str) -> bool:
    if out.is_symlink():
        return False
    try:
        found = json.loads(out.read_bytes())
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("title") == title
