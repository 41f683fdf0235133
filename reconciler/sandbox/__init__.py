"""A stateful emulator of the platform: in process (`core.Sandbox`), or served over HTTP (`serve`).

Source: platform API, 4.1 to 4.3; platform notes for what that document does not show.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconciler.sandbox.server import running_at, serve

__all__ = ["running_at", "serve"]


def __getattr__(name: str) -> Any:
    """Late, because the server's imports cost half a second that tests in process need not pay."""
    if name in __all__:
        from reconciler.sandbox import server

        return getattr(server, name)
    raise AttributeError(name)
