"""The state's store, as the settings say: its private folder, its encryption, and how it is opened."""

import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path

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
    what = "is a symbolic link" if path.is_symlink() else "is not a folder, or cannot be used"
    return ReconcilerError(
        f"{path} {what}: nothing was read or written there",
        help="remove it; if you did not create it, find out what else was put there",
    )


def _of_another(path: Path, status: os.stat_result) -> ReconcilerError:
    return ReconcilerError(
        f"{path} belongs to another user (uid {status.st_uid}): nothing was read or written there",
        help="run this as that user, or remove it; it may contain another user's data",
    )


def encryption_of(
    config: ProjectSettings, url: str, *, changing: bool = False, others: str = ""
) -> Encryption:
    """Of the state at `url`. `changing`: see `Encryption`; then one in a file is simply not encrypted.

    `others`: identities that count as ours.

    Raises ReconcilerError for a state in a file that should be encrypted.
    """
    section = config.settings.state
    recipients = tuple(dict.fromkeys(section.encrypt_to))
    if recipients and not is_shared(url):
        if not changing:
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
        lambda data: _decrypted(config, data, others),
        changing,
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
