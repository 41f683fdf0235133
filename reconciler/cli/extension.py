"""`reconcile extension`: what a provider tells of an extension, and signing in to it."""

import json
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import click

from reconciler.cli.addresses import AddressType
from reconciler.cli.chosen_state import ChosenState, chosen_state
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, output
from reconciler.cli.sources import texts_here
from reconciler.core.model import Address
from reconciler.pipeline.desired import load_policies
from reconciler.pipeline.extension import ShownExtension, look_at_extension, sign_in_address
from reconciler.pipeline.open import open_providers, secret_sources
from reconciler.reports.report import Page
from reconciler.reports.visible import visible
from reconciler.services.client import Client
from reconciler.state.store import Store

T = TypeVar("T")
EXTENSION = AddressType("Extension")


@click.group("extension", short_help="Look at extensions: show, sso.")
def command() -> None:
    """Look at recorded extensions. Their providers are those of the configured manifests."""


@command.command("show")
@click.argument("address", type=EXTENSION)
@output()
@chosen_state
@reports_failures
def show(address: Address, chosen: ChosenState) -> int:
    """Show one extension: status, plan, names, the secrets that it sets, costs."""
    shown = _with_providers(
        chosen, lambda store, clients, costs: look_at_extension(store, clients, costs, address)
    )
    found = _document(shown)
    lines = [
        visible(f"{name}: {value if isinstance(value, str) else json.dumps(value)}\n".rstrip("\n"))
        for name, value in found.items()
        if name != "no_costs" and value is not None
    ]
    lines += [f"costs: not known ({shown.no_costs})"] if shown.no_costs else []
    notices = f"not at provider {shown.provider} any more\n" if shown.live is None else ""
    emit(Page(document=found, text="".join(f"{line}\n" for line in lines), notices=notices))
    return FAILED if shown.live is None else DONE


@command.command("sso")
@click.argument("address", type=EXTENSION)
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening it.")
@chosen_state
@reports_failures
def sso(address: Address, only_print: bool, chosen: ChosenState) -> int:
    """Open the page where the provider signs a person in; print it without a browser or terminal."""
    url = _with_providers(chosen, lambda store, clients, costs: sign_in_address(store, clients, address))
    if only_print or not sys.stdout.isatty() or not _opened(url):
        click.echo(url)
    return DONE


def _opened(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def _document(shown: ShownExtension) -> dict[str, object]:
    live = shown.live or {}
    applied = shown.record.applied
    return {
        "address": str(shown.record.address),
        "id": shown.record.id,
        "provider": shown.provider,
        "name": live.get("name") or applied.get("replacement_name") or applied.get("name"),
        "status": live.get("status"),
        "plan": live.get("plan"),
        "platform_app_name": live.get("platform_app_name") or applied.get("platform_app_name"),
        "sets": list(shown.sets),
        "costs": shown.costs,
        "no_costs": shown.no_costs or None,
    }


def _with_providers(
    chosen: ChosenState,
    work: Callable[[Store, Mapping[str, Client], Mapping[str, str | None]], Awaitable[T]],
) -> T:
    policies = load_policies(chosen.config, texts_here(), chosen.reporter)
    sources = secret_sources(chosen.config, runs_programs=True)

    async def main(store: Store) -> T:
        async with open_providers(policies, sources, read_only=True) as clients:
            costs = {each.address.name: getattr(each.spec, "costs_path", None) for each in policies}
            return await work(store, clients, costs)

    return chosen.use(main)
