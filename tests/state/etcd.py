"""A fourth place, as somebody else would write it: a double of etcd, and the store over it.

The server numbers its changes. A transaction puts a key if that has the revision which was read, or is not
there. A key that is put under a lease of the server's is deleted when its lease ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from msgspec import Struct

from reconciler.core.clock import Clock
from reconciler.state.log.bucket import Bucket, Found, NoAnswer, PreconditionFailed
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.log.store import LogStore


class Item(Struct, frozen=True):
    """The value of a key. `revision`: of the change that put it; `ends_s`: of its lease, None without one."""

    value: bytes
    revision: int
    ends_s: float | None


@dataclass(eq=False)
class Etcd:
    """The server. `ttl_s`: of leases. `loses_every`: of how many transactions one is not answered."""

    clock: Clock
    ttl_s: float = 60
    loses_every: int = 0
    revision: int = 1
    transactions: int = 0
    items: dict[str, Item] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def range(self, prefix: str) -> dict[str, Item]:
        """All keys that begin with `prefix`, as of one revision."""
        with self.lock:
            now_s = self.clock.monotonic()
            ended = [key for key, item in self.items.items() if (item.ends_s or now_s + 1) <= now_s]
            for key in ended:
                del self.items[key]
            return {key: item for key, item in self.items.items() if key.startswith(prefix)}

    def put_if(self, key: str, revision: int, value: bytes, *, leased: bool) -> int | None:
        """The revision of the new value; None where the key has another one than `revision` (0: none)."""
        there = self.range(key).get(key)
        with self.lock:
            if (there.revision if there is not None else 0) != revision:
                return None
            self.revision += 1
            ends_s = self.clock.monotonic() + self.ttl_s if leased else None
            self.items[key] = Item(value, self.revision, ends_s)
            self.transactions += 1
            if self.loses_every and self.transactions % self.loses_every == 0:
                raise ConnectionResetError
            return self.revision

    def delete(self, key: str) -> None:
        with self.lock:
            self.items.pop(key, None)


class EtcdBucket(Bucket):
    is_quick = is_of_one_moment = True
    at_once = 1

    def __init__(self, server: Etcd) -> None:
        self._server = server

    @property
    def place(self) -> str:
        return "etcd://double/shop"

    def get(self, key: str) -> Found | None:
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        items = self._server.range("")
        found = [items.get(key) for key in keys]
        return [None if item is None else Found(item.value, str(item.revision)) for item in found]

    def create(self, key: str, body: bytes) -> str:
        return self.replace(key, body, "0")

    def replace(self, key: str, body: bytes, tag: str) -> str:
        try:
            revision = self._server.put_if(key, int(tag), body, leased="/leases/" in key)
        except ConnectionResetError as error:
            raise NoAnswer("the connection ended") from error
        if revision is None:
            raise PreconditionFailed
        return str(revision)

    def delete(self, key: str) -> None:
        self._server.delete(key)

    def list(self, prefix: str) -> Mapping[str, str]:
        return {key: str(item.revision) for key, item in self._server.range(prefix).items()}

    def list_beside(self) -> tuple[str, ...]:
        return tuple(key for key in self._server.range("") if "/" not in key)


class ServerLeases(Exclusion):
    """Holders whose leases the server ends: one that is there has a holder that is alive."""

    poll_s = 1.0

    def __init__(self, server: Etcd) -> None:
        self.lease_s = server.ttl_s

    def begin(self, id: str) -> None:
        """Its key is under a lease as soon as it is there."""

    def end(self, id: str) -> None:
        """Its key is deleted."""

    def rest_s(self, beat: Beat, tag: str) -> None:
        return None

    def close(self) -> None:
        """What is open ends with its lease."""


def open_etcd(server: Etcd) -> LogStore:
    return LogStore(EtcdBucket(server), server.clock, exclusion=ServerLeases(server))
