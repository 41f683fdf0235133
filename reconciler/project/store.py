"""Opens the store of a state as the settings say: its private folder, its encryption, its leases.

Opening reads nothing. A verb that works with the state first checks that it is the one that is meant, see
`open.begin_work`.
"""

import os
import stat
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct

from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.state_url import is_shared, shown_url
from reconciler.project.settings import PRIVATE, ProjectSettings
from reconciler.secrets import age
from reconciler.secrets.sources import Allowed, Sources
from reconciler.state import open_store
from reconciler.state.encryption import problems
from reconciler.state.encryption.bucket import Encryption
from reconciler.state.spooling import Spooling

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def require_private(root: Path, folder: Path, *, tighten: bool = True) -> None:
    """Raises ReconcilerError unless each folder from below `root` down to `folder`, if it is there, is ours.

    It is not a link and holds none, and nobody else owns it or what it holds. With `tighten`, others lose
    their rights.
    Root may use what belongs to the owner of `root`: jobs in containers run so.
    """
    owners = {os.geteuid()}
    if os.geteuid() == 0:
        owners.add(root.stat().st_uid)
    at = root
    for name in folder.relative_to(root).parts:
        at = at / name
        try:
            descriptor = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as failure:
            raise _refused(at) from failure
        try:
            _check(at, descriptor, owners, tighten=tighten)
        except OSError as failure:
            raise ReconcilerError(f"cannot restrict access to {at}: {failure.strerror}") from failure
        finally:
            os.close(descriptor)


def require_own_place(config: ProjectSettings, url: str, *, tighten: bool = True) -> None:
    """Raises ReconcilerError where the state at `url` lies in a folder of the project that is not ours."""
    if is_shared(url):  # beside it, only what it could not take is kept here
        require_private(config.root, config.private, tighten=tighten)
        return
    path = Path(os.path.normpath(config.root / url.partition(":")[2]))
    if path.is_relative_to(config.root / PRIVATE):
        require_private(config.root, path.parent, tighten=tighten)


def _check(at: Path, descriptor: int, owners: Collection[int], *, tighten: bool) -> None:
    """Raises ReconcilerError unless the open folder and all that it holds are ours."""
    status = os.fstat(descriptor)
    if status.st_uid not in owners:
        raise _of_another(at, status)
    with os.scandir(descriptor) as entries:
        for entry in entries:
            held = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(held.st_mode):
                raise _refused(at / entry.name)
            if held.st_uid not in owners:
                raise _of_another(at / entry.name, held)
    if tighten and status.st_mode & _OTHERS:
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_OTHERS)


def _refused(path: Path) -> ReconcilerError:
    """The error for a path that is not a folder of ours."""
    what = "is a symbolic link" if path.is_symlink() else "is not a folder, or cannot be used"
    return ReconcilerError(
        f"{path} {what}: nothing was read or written there",
        help="remove it; if you did not create it, find out what else was put there",
    )


def _of_another(path: Path, status: os.stat_result) -> ReconcilerError:
    """The error for a path of another user."""
    return ReconcilerError(
        f"{path} belongs to another user (uid {status.st_uid}): nothing was read or written there",
        help="run this as that user, or remove it; it may contain another user's data",
    )


class Opening(Struct, frozen=True):
    """How the store of a state is opened.

    `url`: the place; None for the configured one. `environment`: the environment that owns the state; None
    for the chosen one. `read_only`: no file is changed or made. `tell` gets what is done besides the work
    that was asked for: a migration, a backup. `changing`: the encryption is about to change, so the state
    opens however it is encrypted. `others`: identities that open it next to those of the settings.
    """

    url: str | None = None
    environment: str | None = None
    read_only: bool = False
    tell: Callable[[str], None] = lambda message: None
    changing: bool = False
    others: str = ""

    def place(self, config: ProjectSettings) -> str:
        """The URL with everything that it holds."""
        return self.url or config.settings.state_url

    def shown(self, config: ProjectSettings) -> str:
        """The URL as people and reports see it."""
        return shown_url(self.place(config))


AS_CONFIGURED = Opening()


@asynccontextmanager
async def open_state(config: ProjectSettings, opening: Opening = AS_CONFIGURED) -> AsyncIterator[Spooling]:
    """The store of a state, closed in the end. Nothing is read yet: no record, no secret, no identity.

    Raises ReconcilerError as `store_of`, and where the state lies in a folder that is not ours.
    """
    require_own_place(config, opening.place(config), tighten=not opening.read_only)
    store = store_of(config, opening)
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


def store_of(config: ProjectSettings, opening: Opening = AS_CONFIGURED) -> Spooling:
    """The store of a state, for a caller that closes it.

    Raises ReconcilerError where a lease would end before a call that it was taken for, and for a state in a
    file that should be encrypted.
    """
    settings, url = config.settings, opening.place(config)
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
        tell=opening.tell,
        environment=config.env if opening.environment is None else opening.environment,
        read_only=opening.read_only,
        marks=config.marks,
        endpoint=settings.state.endpoint or "",
        lease_s=lease_s,
        variables=config.variables,
        encryption=encryption_of(config, opening),
    )


def encryption_of(config: ProjectSettings, opening: Opening = AS_CONFIGURED) -> Encryption:
    """How the state is encrypted. Identities are read when something has to be decrypted.

    Raises ReconcilerError for a state in a file that should be encrypted, unless that is `changing`.
    """
    url = opening.place(config)
    recipients = tuple(dict.fromkeys(config.settings.state.encrypt_to))
    if recipients and not is_shared(url):
        if not opening.changing:
            raise ReconcilerError(
                f"the settings say `encrypt_to`, but the state {shown_url(url)} is in a file of this "
                "machine, which is not encrypted",
                help="name a shared state: `state: {url: s3://BUCKET/PREFIX, …}`; check --state and "
                "RECONCILE_STATE",
            )
        recipients = ()
    return Encryption(
        recipients,
        lambda data: age.encrypt(data, recipients).encode(),
        lambda data: _decrypted(config, data, opening.others),
        opening.changing,
    )


def _decrypted(config: ProjectSettings, data: bytes, others: str) -> bytes:
    """Raises StoreError where our identity does not open it, or where there is none."""
    source = config.settings.state.identity_from
    if source is None:
        raise problems.no_identity(
            "`state.identity_from` is not set", "set it in reconcile.yaml, such as {env: STATE_IDENTITY}"
        )
    sources = Sources(config.root, config.variables, Allowed(confined=config.trusted is not None))
    try:
        identities = sources.identities(source.ref())
    except SecretUnavailable as missing:
        raise problems.no_identity(missing.message, missing.help) from None
    if others:
        identities = [*identities, *age.parse_identities(others, "the file of --without-me")]
    try:
        return age.decrypt(data, identities, "the key of the state")
    except age.NotForUs:
        raise problems.wrong_identity() from None
    except SecretUnavailable:
        raise problems.damaged("its key") from None
