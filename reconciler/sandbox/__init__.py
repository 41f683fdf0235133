"""A stateful emulator of the platform: in process (`core.Sandbox`), or served over HTTP (`serve`).

Source: platform API, 4.1 to 4.3; platform notes for what that document does not show.
"""

from typing import TYPE_CHECKING, Any

from reconciler.sandbox.lock import running_at

if TYPE_CHECKING:
    from reconciler.sandbox.server import serve

__all__ = ["running_at", "serve"]


def __getattr__(name: str) -> Any:
    """Late, because the server's imports cost half a second that tests in process need not pay."""
    if name == "serve":
        from reconciler.sandbox.server import serve

        return serve
    raise AttributeError(name)
