"""From a URL to a store. Nothing is sent yet, and obstore is imported only here."""

from collections.abc import Mapping

from reconciler.core.clock import Clock
from reconciler.core.extras import require_extra
from reconciler.core.state_url import LEASE_S
from reconciler.state.objects.store import ObjectStore

SCHEMES = ("s3", "gs", "az")


def open_objects(
    url: str,
    clock: Clock,
    *,
    variables: Mapping[str, str],
    endpoint: str = "",
    environment: str = "",
    read_only: bool = False,
    lease_s: float = LEASE_S,
) -> ObjectStore:
    """`variables`: the environment's, for credentials. `endpoint`: of the store, if not the provider's own.

    Raises StoreError for a URL that names no place, and ReconcilerError where the extra is missing.
    """
    require_extra("objects", "a state in an object store")
    from reconciler.state.objects.driver import open_bucket

    bucket = open_bucket(url, variables, endpoint)
    return ObjectStore(bucket, clock, environment=environment, read_only=read_only, lease_s=lease_s)
