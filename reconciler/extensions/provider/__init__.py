"""The kit that extension providers are built with: five functions in, an ASGI application out.

See docs/providers.md.
"""

from reconciler.extensions.provider.app import Kit, create_app
from reconciler.extensions.provider.functions import (
    Cost,
    Declined,
    Functions,
    MachineEvent,
    Order,
    Provisioned,
    Report,
    Resource,
    Visitor,
)
from reconciler.extensions.provider.settings import ProviderSettings, SignInSettings

__all__ = [
    "Cost",
    "Declined",
    "Functions",
    "Kit",
    "MachineEvent",
    "Order",
    "ProviderSettings",
    "Provisioned",
    "Report",
    "Resource",
    "SignInSettings",
    "Visitor",
    "create_app",
]
