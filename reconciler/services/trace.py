"""One debug event a request: method, path and status, never bodies, headers or signatures."""

import logging

# The stdlib's level check costs 0.1 µs; structlog itself is imported when someone listens.
_listener = logging.getLogger("reconciler.http")


def trace(method: str, path: str, status: int, elapsed_s: float, *, service: str = "") -> None:
    """`status` is 0 when no answer came; `service` names a provider."""
    if not _listener.isEnabledFor(logging.DEBUG):
        return
    import structlog

    log = structlog.get_logger("reconciler.http")
    where = {"service": service} if service else {}
    log.debug(
        "http.request", method=method, path=path, status=status, elapsed_ms=round(elapsed_s * 1000), **where
    )
