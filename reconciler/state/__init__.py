"""What we know and what we did: records, journal and leases behind one small protocol (`store.Store`)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.extras import require_extra
from reconciler.core.state_url import DATABASES, DEFAULT_URL, LEASE_S, OBJECTS, is_shared, shown_url
from reconciler.core.words import did_you_mean
from reconciler.state.encryption.bucket import Encryption, SealedBucket
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.store import LogStore
from reconciler.state.marks import Marks
from reconciler.state.spooling import Spooling
from reconciler.state.store import Store

if TYPE_CHECKING:
    from reconciler.state.places.sqlite.store import SqliteStore

NO_ENCRYPTION = Encryption()


def open_store(
    url: str,
    *,
    root: Path,
    clock: Clock,
    tell: Callable[[str], None] = lambda message: None,
    environment: str = "",
    read_only: bool = False,
    marks: Path | None = None,
    endpoint: str = "",
    lease_s: float = LEASE_S,
    variables: Mapping[str, str] = {},
    encryption: Encryption = NO_ENCRYPTION,
) -> Spooling:
    """The store that `url` names; paths in it are relative to `root`. Touches no file and no network yet.

    `tell` gets a line about what was done or failed besides the requested work: a migration, a backup.
    `environment`: whose state it must be, or becomes when it is made; "" for that of no environment.
    `read_only`: change no file, and make none. `marks`: a folder for what was seen of states (`Marks`). None:
    there is none. Of stores that are shared, `endpoint`: where an object store is, if that is not its
    provider's own place; `lease_s`: how long a lease lasts unless it is renewed; `variables`: the
    environment's, with credentials; `encryption`: whether, and how, it is encrypted.

    Raises StoreError for an unknown scheme or a URL that names no place, and ReconcilerError where a package
    is missing. `url` may hold a password and is never repeated.
    """
    scheme, _, rest = url.partition(":")
    if not rest or not (scheme == "sqlite" or is_shared(url)):
        raise _no_backend(scheme, rest)
    # What a shared store could not take stays on this machine.
    spool = root / ".reconcile" / environment / "state.spool"

    def seal(bucket: Bucket) -> SealedBucket:
        return SealedBucket(bucket, encryption, tell=tell)

    def shared(store: Store) -> Spooling:
        place = " ".join(filter(None, [shown_url(url), endpoint, environment]))
        seen = Marks(marks, place, read_only=read_only) if marks is not None else None
        return Spooling(store, spool, clock, sealing_of(store), seen)

    if scheme in DATABASES:
        require_extra("postgres", "a state in PostgreSQL")
        from reconciler.state.places.postgres.store import PostgresStore

        database = PostgresStore(
            url, clock, tell=tell, environment=environment, read_only=read_only, lease_s=lease_s, seal=seal
        )
        return shared(database)
    if scheme in OBJECTS:
        require_extra("objects", "a state in an object store")
        from reconciler.state.places.objects.bucket import open_objects

        objects = open_objects(
            url,
            clock,
            variables=variables,
            endpoint=endpoint,
            environment=environment,
            read_only=read_only,
            lease_s=lease_s,
            seal=seal,
        )
        return shared(objects)
    from reconciler.state.places.sqlite.files import spool_path
    from reconciler.state.places.sqlite.store import SqliteStore

    # Resolved, so that a link and what it points to are one state, with one key and one lock.
    path = (root / rest).resolve()
    if not path.name:
        raise _no_backend(scheme, "")
    store = SqliteStore(path, clock, tell=tell, environment=environment, read_only=read_only)
    seen = Marks(marks, str(path), tell, read_only=read_only) if marks is not None else None
    return Spooling(store, spool_path(path), clock, marks=seen)


def _no_backend(scheme: str, rest: str) -> StoreError:
    """Repeats only what is surely a scheme: without one, what comes before a colon may be a password."""
    message, near = "the state's URL does not begin with a scheme", ""
    if rest.startswith("//") and scheme.isalnum():
        message = f"no state backend for scheme `{scheme}`"
        near = did_you_mean(scheme, sorted(DATABASES | OBJECTS))
    elif scheme == "sqlite":
        message = "the state's URL has no path"
    return StoreError(
        message,
        help=f"{near and f'{near} '}backends are sqlite:PATH, such as {DEFAULT_URL}, "
        "postgresql://HOST/DATABASE, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX and az://CONTAINER/PREFIX",
    )


def backend_of(store: Store) -> LogStore:
    """The store itself, behind all that wraps it."""
    while not isinstance(store, LogStore):
        store = store.inner
    return store


def files_of(store: Store) -> "SqliteStore | None":
    """`store` where the state is in files of this machine, with backups beside them; None for another."""
    from reconciler.state.places.sqlite.store import SqliteStore

    backend = backend_of(store)
    return backend if isinstance(backend, SqliteStore) else None


def sealing_of(store: Store) -> SealedBucket | None:
    """What encrypts the state of `store`; None where it cannot be encrypted."""
    bucket = backend_of(store).bucket
    return bucket if isinstance(bucket, SealedBucket) else None


def is_encrypted(store: Store) -> bool:
    """Whether the state that was read last from `store` is encrypted."""
    sealing = sealing_of(store)
    return sealing is not None and sealing.generation > 0
