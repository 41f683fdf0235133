"""The state's store, as the settings say."""

from collections.abc import Callable

from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError
from reconciler.core.state_url import is_shared
from reconciler.pipeline.encryption import encryption_of
from reconciler.pipeline.settings import ProjectSettings
from reconciler.state import open_store
from reconciler.state.spooling import Spooling


def store_of(
    config: ProjectSettings,
    url: str | None = None,
    *,
    environment: str | None = None,
    read_only: bool = False,
    tell: Callable[[str], None] = lambda message: None,
    changing: bool = False,
    others: str = "",
) -> Spooling:
    """The store at `url`, or the configured one; see `open_store`. Nobody has closed it yet.

    `changing`: however it is encrypted. `others`: identities that open it, next to that of the settings.
    Raises ReconcilerError where a lease would end before a call that it was taken for, and for a state in a
    file that should be encrypted.
    """
    settings = config.settings
    url = url or settings.state_url
    lease_s, deadline_s = settings.execution.lease_s, settings.execution.deadline_s
    if is_shared(url) and lease_s <= deadline_s:
        raise ReconcilerError(
            f"`execution.lease_s` ({lease_s:g} s) must be longer than `execution.deadline_s` "
            f"({deadline_s:g} s): a call must not outlive the lock that it is sent under",
            help=f"set `execution.lease_s` in reconcile.yaml to {deadline_s * 2:g} or more",
        )
    return open_store(
        url,
        root=config.root,
        clock=SystemClock(),
        tell=tell,
        environment=config.env if environment is None else environment,
        read_only=read_only,
        marks=config.marks,
        endpoint=settings.state.endpoint or "",
        lease_s=lease_s,
        variables=config.variables,
        encryption=encryption_of(config, url, changing=changing, others=others),
    )
