"""A stateful emulator of the platform: in process (`core.Sandbox`), or served over HTTP (`serve`).

Source: platform API, 4.1 to 4.4; platform notes for what that document does not show.
"""

from typing import TYPE_CHECKING, Any

from reconciler.sandbox.lock import running_at

if TYPE_CHECKING:
    from reconciler.sandbox.server import serve, serving

__all__ = ["running_at", "serve", "serving"]


def __getattr__(name: str) -> Any:
    """Late, because the server's imports cost half a second that tests in process need not pay."""
    if name in ("serve", "serving"):
        from reconciler.sandbox import server

        return getattr(server, name)
    raise AttributeError(name)
