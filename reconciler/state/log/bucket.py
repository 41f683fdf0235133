"""What the state needs of an object store: whole objects, and writes that land only on what was read before.

All of it blocks, so that the thread that renews leases can use it, too. Every method raises StoreError when
the store refuses, or cannot be reached.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.context import BASE

T = TypeVar("T")
R = TypeVar("R")


class Found(Struct, frozen=True):
    """An object. `tag`: what a write that is to replace exactly this one must name."""

    body: bytes
    tag: str


class PreconditionFailed(Exception):
    """A conditional write was answered with no: there is an object already, or another one than was named.

    An answer to `create` only: some stores say so, too, where two wrote at once and neither landed.
    """


class NoAnswer(Exception):
    """A write got no answer that says what became of it. `cause`: for people, without any credential."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def restoring_a_file() -> tuple[str, Command]:
    """What to do about damage where a state keeps no backups of its own, and the command in that text."""
    restore = command("state", "restore", "FILE")
    return f"restore a backup with `{restore}`", restore


class Bucket(Protocol):
    """Objects by their key. What is written can be read at once, by everybody.

    `is_quick`: no call waits for anything, so that none needs a thread. `reads_quickly`: one object is read
    in less time than a thread needs for its turn. `is_sure`: that it keeps its word needs no proof.
    `is_of_one_moment`: `get_all` gives all objects as of one moment. `at_once`: how many requests at a time
    are answered sooner than one after another.
    """

    is_quick: bool = False
    reads_quickly: bool = False
    is_sure: bool = False
    is_of_one_moment: bool = False
    at_once: int = 128  # with 64 requests at a time, a thousand heads 30 ms away take 0.5 s

    @property
    def place(self) -> str:
        """The URL, without credentials."""
        ...

    def way_out(self) -> tuple[str, Command]:
        """What to do about damage, and the command in that text."""
        return restoring_a_file()

    def get(self, key: str) -> Found | None:
        """Returns the object; None where there is none. A place has this one or the next one."""
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        """As `get`, of each of them in their order."""
        return self.in_parallel(self.get, keys)

    def get_under(self, prefix: str) -> Mapping[str, Found]:
        """By key, all objects under `prefix`; where `is_of_one_moment`, as they were at one moment."""
        keys = list(self.list(prefix))
        found = zip(keys, self.get_all(keys), strict=True)
        return {key: item for key, item in found if item is not None}

    def in_parallel(self, work: Callable[[T], R], values: Sequence[T]) -> list[R]:
        """The results of `work`, which sends requests, in the order of `values`."""
        if len(values) < 2 or self.at_once < 2:
            return [work(value) for value in values]
        with ThreadPoolExecutor(min(self.at_once, len(values))) as threads:
            return list(threads.map(work, values))

    def create(self, key: str, body: bytes) -> str:
        """Write an object that must not exist, once; its tag. Raises PreconditionFailed or NoAnswer."""
        ...

    def replace(self, key: str, body: bytes, tag: str) -> str:
        """Write over the object with this tag, once; its new tag. Raises PreconditionFailed or NoAnswer."""
        ...

    def delete(self, key: str) -> None:
        """Does nothing where there is none."""
        ...

    def list(self, prefix: str) -> Mapping[str, str]:
        """The tags of all objects under `prefix`, which ends with a slash, by their full keys."""
        ...

    def list_beside(self) -> tuple[str, ...]:
        """The keys that stand directly in the bucket's own prefix, in no folder."""
        return ()

    @property
    def raw(self) -> "Bucket":
        """The objects as the place has them."""
        return self

    def as_stored(self, key: str, body: bytes) -> bytes:
        """`body` as the place holds it under `key`."""
        return body

    def renewed(self, lineage: str) -> "Bucket":
        """The bucket that a whole new state of this lineage is written through."""
        return self


def unsealed(bucket: Bucket) -> Bucket:
    """`bucket` as it is: nothing is encrypted."""
    return bucket


# --- the keys of all objects, below the prefix of the URL ---

_SPECIAL = re.compile(r"[^A-Za-z0-9_-]")


class Layout:
    """`environment`: whose state it is; "" for that of none. `generation`: see `root.Root`; "": not known."""

    def __init__(self, environment: str, generation: str = "") -> None:
        self.environment = environment
        self.prefix = f"{environment or BASE}/"
        self.root = f"{self.prefix}state.json"
        self.folder = f"{self.prefix}{generation}/"
        self.heads = f"{self.folder}heads/"
        self.leases = f"{self.folder}leases/"

    def head(self, scope: str) -> str:
        """The key of the head of a scope."""
        return f"{self.heads}{quoted(scope)}"

    def lease(self, id: str) -> str:
        """The key of a lease, which has an id of its own."""
        return f"{self.leases}{id}"

    def segment(self, scope: str, name: str) -> str:
        """The key of a file of older changes."""
        return f"{self.folder}journal/{quoted(scope)}/{name}"

    def base(self, scope: str, name: str) -> str:
        """The key of a file with what changes amount to."""
        return f"{self.folder}base/{quoted(scope)}/{name}"


def quoted(scope: str) -> str:
    """A scope as one part of a key. The scope of the whole state has no name: `=`."""
    return _SPECIAL.sub(lambda found: f"={found[0].encode().hex()}.", scope) or "="
