"""`reconcile extension`: signing in to an extension."""

import sys
import webbrowser

import click

from reconciler.cli import options
from reconciler.cli.addresses import AddressType
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import texts_here
from reconciler.cli.group import Group
from reconciler.cli.verb import DONE, verb
from reconciler.core.model import Address
from reconciler.project.desired import load_policies
from reconciler.project.show import sign_in_address

EXTENSION = AddressType("Extension")


@click.group("extension", cls=Group, moved={"show": "show ADDRESS"})
def command() -> None:
    """Sign in to recorded extensions. Their providers are those of the configured manifests."""


@verb("sso", *options.ON_STATE, of=command, report=None)
@click.argument("address", type=EXTENSION)
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening it.")
def sso(address: Address, only_print: bool, chosen: ChosenState) -> int:
    """Open the page where the provider signs a person in; print it without a browser or terminal."""
    policies = load_policies(chosen.config, texts_here(), chosen.reporter)
    url = chosen.use(lambda store: sign_in_address(store, policies, address))
    if only_print or not sys.stdout.isatty() or not _opened(url):
        click.echo(url)
    return DONE


def _opened(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
