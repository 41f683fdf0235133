"""An address that is in no record."""

from collections.abc import Collection

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.manifests.validation.references import nearest_address


def not_recorded(address: Address, recorded: Collection[Address]) -> ReconcilerError:
    """What to raise; it names the one of `recorded` that is perhaps meant."""
    near, listed = nearest_address(address, recorded), command("state", "list")
    return ReconcilerError(
        f"`{address}` is not recorded",
        help=near or f"`{listed}` shows what is",
        advice=() if near else (listed,),
    )
