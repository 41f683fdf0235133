"""The leases that this process holds: their epochs, and the bytes of the lock file that it has locked."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from reconciler.core.errors import StoreError, named
from reconciler.state.codec import encode_entry
from reconciler.state.sqlite import checks, commits, files, leases, locks
from reconciler.state.sqlite.database import Moved
from reconciler.state.sqlite.state_file import StateFile
from reconciler.state.store import Event, JournalEntry, Lease


class Holding:
    """All of it blocks."""

    def __init__(self, file: StateFile) -> None:
        self._file = file
        self.held: dict[str, tuple[int, int]] = {}  # scope → epoch, byte in the lock file

    def take(self, scopes: Sequence[str], holder: str) -> Lease:
        connection = self._file.keyed()
        lease, numbers = leases.take(connection, self._file.path, scopes, holder, self._file.clock.now())
        self.held |= {scope: (lease.epochs[scope], number) for scope, number in numbers.items()}
        return lease

    def release(self, lease: Lease) -> None:
        try:
            with suppress(Moved):  # with which all leases were given back
                leases.mark_released(self._file.writable(), self._file.path, lease)
        finally:
            self._unlock(
                scope for scope, epoch in lease.epochs.items() if self.held.get(scope, (0, 0))[0] == epoch
            )

    def free(self, scope: str, force: bool, by: str) -> str:
        """Let nobody hold `scope`; says what was done. Raises Locked while a process does, unless `force`."""
        file = self._file
        connection = file.writable() if file.readable() is not None else None
        found = leases.holder_of(connection, scope) if connection is not None else None
        if connection is None or found is None:
            raise StoreError(f"no run has ever locked {named(scope)}", help="check its name and --state")
        number, holder, since = found
        lock_file = files.lock_path(file.path)
        alive = not locks.try_lock(lock_file, number)
        try:
            if alive and not force:
                raise leases.locked_by(connection, scope, file.clock.now())
            with checks.writing(connection, file.path, checks.LEASES) as current:
                leases.replace(connection, scope)
                data = {"unlock": scope, "holder": holder, "since": since, "alive": alive, "by": by}
                entry = JournalEntry("", Event.DECIDED, file.clock.now(), data=data)
                commits.write(connection, current, scope, [encode_entry(entry)])
        finally:
            if not alive:
                locks.unlock(lock_file, number)
        if alive:
            return f"lock taken from {holder}, which can no longer write; stop that process before you apply"
        return "free: no process holds it"

    def close(self) -> None:
        self._unlock(self.held)

    def _unlock(self, scopes: Iterable[str]) -> None:
        for scope in list(scopes):
            _, number = self.held.pop(scope)
            locks.unlock(files.lock_path(self._file.path), number)
