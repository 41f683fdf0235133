"""Extension providers of a seed."""

from reconciler.sandbox import registration
from reconciler.sandbox.part import Seed, said
from reconciler.sandbox.parts.provider import Provider, wire

SEED = Seed(
    "providers",
    Provider,
    shown=lambda world, each: wire(each),
    titles=("name", "organization", "base URL", "redirect URI", "events"),
    cells=lambda world, each: (
        *(each.id, each.organization, each.base_url, each.redirect_uri),
        "yes" if each.events else "no",
    ),
    plant=lambda world, item: registration.register_provider(world, said(item)),
)
