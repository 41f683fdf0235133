"""What we know and what we did: records, journal and leases behind one small protocol (`store.Store`)."""

from collections.abc import Callable
from pathlib import Path

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.spooling import Spooling
from reconciler.state.store import Maintenance, Store

DEFAULT_URL = "sqlite:.reconcile/state.db"


def open_store(
    url: str,
    *,
    root: Path,
    clock: Clock,
    tell: Callable[[str], None] = lambda message: None,
    environment: str = "",
    read_only: bool = False,
    marks: Path | None = None,
) -> Spooling:
    """The store that `url` names; paths in it are relative to `root`. Touches no file and no network yet.

    `tell` hears of what was done or went wrong beside the work that was asked for: a migration, a backup.
    `environment`: whose state it must be, or becomes when it is made; "" for that of no environment.
    `read_only`: change no file, and make none. `marks`: a folder that does not go back to an older copy
    together with the state's, and so tells when a state in a file has. None: there is none.

    Raises StoreError for an unknown scheme. The rest of `url` may hold a password and is never repeated.
    """
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite" or not rest:
        raise StoreError(
            f"no state backend for scheme `{scheme}`" if rest else "the state's URL has no path",
            help=f"backends are sqlite:PATH, such as {DEFAULT_URL}",
        )
    from reconciler.state.sqlite.files import spool_path
    from reconciler.state.sqlite.store import SqliteStore

    # Resolved, so that a link and what it points to are one state, with one key and one lock.
    path = (root / rest).resolve()
    store = SqliteStore(path, clock, tell=tell, environment=environment, read_only=read_only, marks=marks)
    return Spooling(store, spool_path(path), clock)


def maintenance_of(store: Store) -> Maintenance:
    """What `store` offers beside the protocol. Raises StoreError when that is nothing."""
    backend = store.inner if isinstance(store, Spooling) else store
    if not isinstance(backend, Maintenance):
        raise StoreError("this kind of state has no files on this machine")
    return backend
