"""`reconcile new`: a manifest to fill in."""

import re
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.addresses import KIND
from reconciler.cli.command_line import settings_here
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, verb
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.authoring.skeleton import skeleton
from reconciler.manifests.suggestions import pattern_help
from reconciler.manifests.writing.write import modeline
from reconciler.policies import find_manifest_kinds
from reconciler.project.files import write_new
from reconciler.reports.report import Page


@verb("new")
@click.argument("kind", type=KIND)
@click.option("--name", default="NAME", show_default=True, help="The resource's name.")
@click.option("--app", default="APP", show_default=True, help="The app it belongs to.")
@click.option("--out", type=options.FILE, help="Write it to a new file.")
def command(kind: str, name: str, app: str, out: Path | None) -> int:
    """Print a manifest of KIND: required fields with placeholders, all others commented out."""
    chosen = find_manifest_kinds()[kind]
    for option, text, pattern in (
        ("--name", name, chosen.name_pattern),
        ("--app", app, ManifestKind.name_pattern),
    ):
        if not re.fullmatch(pattern, text):
            raise click.UsageError(f"{option} `{text}` is not a valid name: {pattern_help(pattern)}")
    config = settings_here(manifests_only=True)
    likely = config.root / next(iter(config.settings.manifests), ".") / "new.yaml"
    text = f"# {modeline((out or likely).parent, config.root)}\n" + skeleton(chosen, name=name, app=app)
    if out is not None:
        write_new(out, text.encode(), help="name another file, or remove it")
    message = f"Wrote {out}: replace the words in capitals.\n"
    document = {"kind": kind, "file": str(out) if out is not None else None, "manifest": text}
    emit(Page(document=document, text=message if out is not None else text))
    return DONE
