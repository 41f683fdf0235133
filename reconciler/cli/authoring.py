"""`reconcile new`, `schema` and `explain`: what manifests look like, for people and their editors."""

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from reconciler.agents import guide
from reconciler.cli import options
from reconciler.cli.addresses import KIND
from reconciler.cli.command_line import settings_here
from reconciler.cli.output import emit
from reconciler.cli.verb import argument, flag, option, verb
from reconciler.explanations import Explanation
from reconciler.guardrails.kinds import find_guardrails
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.authoring import explain as topics
from reconciler.manifests.authoring.reference import CapabilityPage, json_schema
from reconciler.manifests.authoring.skeleton import skeleton
from reconciler.manifests.suggestions import pattern_help
from reconciler.manifests.writing.write import modeline
from reconciler.policies import find_manifest_kinds
from reconciler.project.files import require_ours, write_new, write_output
from reconciler.reports import explain as pages
from reconciler.reports.report import Page
from reconciler.reports.schema import plan_schema, schema_of


@verb("new")
def new(
    kind: str = argument(type=KIND),
    name: str = option("--name", "The resource's name.", default="NAME", show_default=True),
    app: str = option("--app", "The app it belongs to.", default="APP", show_default=True),
    out: Path | None = option("--out", "Write it to a new file.", type=options.FILE),
) -> None:
    """Print a manifest of KIND: required fields with placeholders, all others commented out."""
    chosen = find_manifest_kinds()[kind]
    for given, text, pattern in (
        ("--name", name, chosen.name_pattern),
        ("--app", app, ManifestKind.name_pattern),
    ):
        if not re.fullmatch(pattern, text):
            raise click.UsageError(f"{given} `{text}` is not a valid name: {pattern_help(pattern)}")
    config = settings_here(manifests_only=True)
    likely = config.root / next(iter(config.settings.manifests), ".") / "new.yaml"
    text = f"# {modeline((out or likely).parent, config.root)}\n" + skeleton(chosen, name=name, app=app)
    message = text
    if out is not None:
        write_new(out, text.encode())
        message = f"Wrote {out}: replace the words in capitals.\n"
    document = {"kind": kind, "file": str(out) if out is not None else None, "manifest": text}
    emit(Page(document=document, text=message))


@verb("schema", report=None)
def schema(
    of: str = argument(
        type=click.Choice(["manifests", "plan", "inventory"]),
        default="manifests",
        metavar="[manifests|plan|inventory]",
    ),
    out: Path | None = option(
        "--out", "Write it to FILE; new manifests name reconcile.schema.json.", type=options.FILE
    ),
) -> None:
    """Print a JSON Schema: of manifests, for editors with a YAML language server (the default), or of what
    `plan -o json` or `inventory -o json` prints, for policies and scripts.
    """
    if of == "inventory":
        from reconciler.inventory.page import InventoryJson  # it brings all that looks for objects

        found = schema_of(InventoryJson, "reconciler inventory")
    else:
        found = plan_schema() if of == "plan" else json_schema()
    text = json.dumps(found, ensure_ascii=False, indent=2)
    if out is None:
        click.echo(text)
    else:
        title = found["title"]
        require_ours(out, lambda data: _title_of(data) == title, "a reconcile schema", "name another file")
        write_output(out, f"{text}\n".encode())
        click.echo(f"Wrote {out}")


def _title_of(data: bytes) -> Any:
    """The title of a JSON Schema; None for any other text."""
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found.get("title") if isinstance(found, dict) else None


@verb("explain")
def explain(
    topic: str | None = argument(
        required=False,
        shell_complete=lambda ctx, param, incomplete: topics.topics_like(incomplete, find_guardrails),
    ),
    codes: bool = flag("--codes", "List the codes of all errors, warnings and remarks."),
) -> None:
    """Explain a kind, a field of it, or the code of an error, a warning or a remark.

    TOPIC is a KIND such as Volume, a field such as Volume.size_gb or Volume.lifecycle.deletion, a
    capability such as machine.get, or a CODE such as volume-shrink. Without it, the kinds are listed.
    `reconcile explain agents` prints the guide for agents.
    """
    if codes and topic is not None:
        raise click.UsageError("--codes lists all codes, and takes no topic")
    if topic == "agents":
        emit(Page(document={"guide": guide()}, text=guide()))
        return
    try:
        found = topics.find_topic(topic, find_guardrails) if topic is not None else None
    except topics.UnknownTopic as unknown:
        raise click.UsageError(f"{unknown.message}; {unknown.help}") from None
    if codes:
        page = pages.codes_page(topics.all_explanations(), _heading)
    elif found is None:
        page = pages.kinds_page(topics.all_kinds(find_guardrails), _heading)
    elif isinstance(found, Explanation):
        page = pages.code_page(found, _heading)
    elif isinstance(found, tuple):
        page = pages.field_page(*found, _heading)
    elif isinstance(found, CapabilityPage):
        page = pages.capability_page(found, _heading)
    else:
        page = pages.kind_page(found, _heading)
    emit(page)


def _heading(text: str) -> str:
    """`text` in bold, unless NO_COLOR is set. click removes the style where stdout is not a terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, bold=True)
