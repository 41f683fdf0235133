"""What we know and what we did: records, journal and leases behind one small protocol (`store.Store`)."""

from collections.abc import Callable
from pathlib import Path

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.store import Store

DEFAULT_URL = "sqlite:.reconcile/state.db"


def open_store(
    url: str,
    *,
    root: Path,
    clock: Clock,
    tell: Callable[[str], None] = lambda message: None,
    environment: str = "",
) -> Store:
    """The store that `url` names; paths in it are relative to `root`. Touches no file and no network yet.

    `tell` is told of what went wrong beside the work that was asked for, such as a backup.
    `environment`: whose state it must be, or becomes when it is made; "" for that of no environment.

    Raises StoreError for an unknown scheme. The rest of `url` may hold a password and is never repeated.
    """
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite" or not rest:
        raise StoreError(
            f"no state backend for scheme `{scheme}`" if rest else "the state's URL names no place",
            help=f"backends are sqlite:PATH, such as {DEFAULT_URL}",
        )
    from reconciler.state.sqlite.store import SqliteStore

    # Resolved, so that a link and what it points to are one state, with one key and one lock.
    return SqliteStore((root / rest).resolve(), clock, tell=tell, environment=environment)
