"""The folder that the tool keeps for itself: nobody else may put anything there, or lead it elsewhere."""

import os
import stat
from collections.abc import Collection
from pathlib import Path

from reconciler.core.errors import ReconcilerError
from reconciler.core.state_url import is_shared
from reconciler.pipeline.settings import PRIVATE, ProjectSettings

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
