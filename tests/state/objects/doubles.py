"""Buckets that misbehave on purpose, around one that works."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from obstore.store import MemoryStore

from reconciler.state.log.bucket import Bucket, Found, NoAnswer, PreconditionFailed
from reconciler.state.places.objects.bucket import ObstoreBucket

# What becomes of a write: its answer or itself is lost, it comes through later, it is refused for nothing.
Fault = Literal["", "answer lost", "request lost", "late", "refused"]
FAULTS: tuple[Fault, ...] = ("answer lost", "request lost", "late", "refused")


def memory_bucket(objects: Mapping[str, bytes] = {}) -> ObstoreBucket:
    memory = MemoryStore()
    bucket = ObstoreBucket("memory://", memory, memory)
    for key, body in objects.items():
        bucket.create(key, body)
    return bucket


def objects_of(bucket: Bucket, prefix: str = "") -> dict[str, bytes]:
    """All that is stored there, by key."""
    found = {key: bucket.get(key) for key in bucket.list(prefix)}
    return {key: each.body for key, each in found.items() if each is not None}


@dataclass
class Wrapped(Bucket):
    inner: Bucket

    @property
    def place(self) -> str:
        return self.inner.place

    def get(self, key: str) -> Found | None:
        return self.inner.get(key)

    def create(self, key: str, body: bytes) -> str:
        return self.inner.create(key, body)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self.inner.replace(key, body, tag)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def list(self, prefix: str) -> Mapping[str, str]:
        return self.inner.list(prefix)

    def list_beside(self) -> tuple[str, ...]:
        return self.inner.list_beside()


@dataclass
class Counting(Wrapped):
    """Counts calls by name and the folder of the key."""

    calls: Counter[str] = field(default_factory=Counter)
    written: int = 0

    def get(self, key: str) -> Found | None:
        self.calls[f"get {_folder(key)}"] += 1
        return super().get(key)

    def create(self, key: str, body: bytes) -> str:
        self.calls[f"create {_folder(key)}"] += 1
        self.written += len(body)
        return super().create(key, body)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        self.calls[f"replace {_folder(key)}"] += 1
        self.written += len(body)
        return super().replace(key, body, tag)

    def delete(self, key: str) -> None:
        self.calls[f"delete {_folder(key)}"] += 1
        super().delete(key)

    def list(self, prefix: str) -> Mapping[str, str]:
        self.calls[f"list {_folder(prefix)}"] += 1
        return super().list(prefix)


@dataclass
class Faulty(Wrapped):
    """`choose(key)` says what becomes of the next write."""

    choose: Callable[[str], Fault] = lambda key: ""
    late: list[Callable[[], str]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def get(self, key: str) -> Found | None:
        found = super().get(key)
        self.let_through()  # after what was asked for first
        return found

    def create(self, key: str, body: bytes) -> str:
        return self._write(key, lambda: self.inner.create(key, body))

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self._write(key, lambda: self.inner.replace(key, body, tag))

    def let_through(self) -> None:
        """Writes that were late arrive now."""
        with self.lock:
            late, self.late = self.late, []
        for write in late:
            with suppress(PreconditionFailed):
                write()

    def _write(self, key: str, write: Callable[[], str]) -> str:
        fault = self.choose(key)
        if fault == "late":
            self.late.append(write)
        elif fault == "answer lost":
            with suppress(PreconditionFailed):
                write()
        elif fault == "refused":
            raise PreconditionFailed
        if fault:
            raise NoAnswer("the connection to the store broke")
        return write()


@dataclass
class Liar(Wrapped):
    """Ignores the condition of a write now and then, and says that all is well."""

    every: int = 10
    writes: int = 0
    lock: Lock = field(default_factory=Lock)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        with self.lock:
            self.writes += 1
            lies = self.writes % self.every == 0
        while lies:
            found = self.inner.get(key)
            assert found is not None
            with suppress(PreconditionFailed):
                return self.inner.replace(key, body, found.tag)
        return self.inner.replace(key, body, tag)


@dataclass
class Mixing(Wrapped):
    """Gives an older body with the newest tag now and then, as a gateway does that keeps the two apart."""

    every: int = 10
    reads: int = 0
    older: dict[str, bytes] = field(default_factory=dict)

    def get(self, key: str) -> Found | None:
        self.reads += 1
        found = super().get(key)
        if found is not None and self.reads % self.every == 0:
            return Found(self.older.get(key, found.body), found.tag)
        return found

    def replace(self, key: str, body: bytes, tag: str) -> str:
        before = self.inner.get(key)
        tag = self.inner.replace(key, body, tag)
        assert before is not None
        self.older[key] = before.body
        return tag


def _folder(key: str) -> str:
    return key.split("/")[2] if key.count("/") > 1 else "root"
