"""The kit that extension providers are built with: five functions in, an ASGI application out.

See docs/providers.md.
"""

from reconciler.providers.kit.app import Kit, create_app
from reconciler.providers.kit.functions import (
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
from reconciler.providers.kit.settings import ProviderSettings, SignInSettings

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
