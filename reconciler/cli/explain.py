"""`reconcile explain`: what a field means, and what a diagnostic's code means."""

import os

import click

from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, verb
from reconciler.explanations import Explanation
from reconciler.manifests.authoring.explain import (
    UnknownTopic,
    all_explanations,
    all_kinds,
    find_topic,
    topics_like,
)
from reconciler.manifests.authoring.reference import CapabilityPage
from reconciler.reports import explain
from reconciler.reports.report import Page


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Kinds, capabilities and codes, or the fields of the kind that is written already."""
    return topics_like(incomplete)


@verb("explain")
@click.argument("topic", required=False, shell_complete=complete_topic)
@click.option("--codes", is_flag=True, help="List the codes of all errors, warnings and remarks.")
def command(topic: str | None, codes: bool) -> int:
    """Explain a kind, a field of it, or the code of an error, a warning or a remark.

    TOPIC is a KIND such as Volume, a field such as Volume.size_gb or Volume.lifecycle.deletion, a
    capability such as machine.get, or a CODE such as volume-shrink. Without it, the kinds are listed.
    """
    if codes and topic is not None:
        raise click.UsageError("--codes lists all codes, and takes no topic")
    emit(_about(topic) if topic is not None else _all(codes=codes))
    return DONE


def _all(*, codes: bool) -> Page:
    return (
        explain.codes_page(all_explanations(), _heading)
        if codes
        else explain.kinds_page(all_kinds(), _heading)
    )


def _about(topic: str) -> Page:
    try:
        found = find_topic(topic)
    except UnknownTopic as unknown:
        raise click.UsageError(f"{unknown.message}; {unknown.help}") from None
    if isinstance(found, Explanation):
        return explain.code_page(found, _heading)
    if isinstance(found, tuple):
        return explain.field_page(*found, _heading)
    if isinstance(found, CapabilityPage):
        return explain.capability_page(found, _heading)
    return explain.kind_page(found, _heading)


def _heading(text: str) -> str:
    """Bold, except where no colours are wanted; click takes it off what is not a terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, bold=True)
