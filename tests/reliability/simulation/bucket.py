"""The object store of one history, as each process reaches it: over a line that loses things."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Bucket, Found, NoAnswer, PreconditionFailed
from tests.reliability.simulation import invariants
from tests.reliability.simulation.ghost import CANARY, Endless, Ghost
from tests.reliability.simulation.runner import Landed, tell
from tests.reliability.simulation.threads import Died, pause

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

LATENCY_S = 0.02  # one way, at most
TIMEOUT_S = 20.0  # how long an answer is waited for
MOST_REQUESTS = 10_000  # a history that ends has some hundreds
LATE_S = 50.0  # how late a write may arrive that its sender gave up


@dataclass
class Shared:
    """One store for all. As on S3, a tag is made from the body: the same bytes have the same one.

    What lands is told to the ghost at that moment, whether or not its sender lives to hear of it. `asked`: by
    the id of a change, who hears that it landed. In memory of our own: obstore's needs threads, which no
    forked process has.
    """

    ghost: Ghost
    rng: Random
    asked: dict[str, Landed] = field(default_factory=dict)
    objects: dict[str, Found] = field(default_factory=dict)
    requests: int = 0

    def write(self, process: "Process", key: str, body: bytes, tag: str) -> str:
        """Write over the object with this tag, or a new one for "". Raises PreconditionFailed."""
        found = self.objects.get(key)
        if (found.tag if found is not None else "") != tag:
            raise PreconditionFailed
        self.objects[key] = Found(body, hashlib.sha256(body).hexdigest())
        self._tell(process, key, body)
        return self.objects[key].tag

    def _tell(self, process: "Process", key: str, body: bytes) -> None:
        text = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
        if CANARY.encode() in text:
            self.ghost.violate("no-secret-leaves-memory", f"{key} holds a secret value")
        if "/heads/" not in key:
            return
        first, *tail = body.decode().splitlines()
        head = json.loads(first)
        invariants.check_head(self.ghost, process, head["scope"], head["epoch"], taken=bool(head["lease"]))
        tell(self.asked, tail)


@dataclass
class Reached(Bucket):
    """The store as `process` reaches it: a `bucket.Bucket`."""

    shared: Shared
    process: "Process"

    @property
    def place(self) -> str:
        return "memory://"

    def get(self, key: str) -> Found | None:
        self._go("read")
        return self.shared.objects.get(key)

    def create(self, key: str, body: bytes) -> str:
        return self._write(key, body, "")

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self._write(key, body, tag)

    def delete(self, key: str) -> None:
        self._go("read")
        self.shared.objects.pop(key, None)

    def list(self, prefix: str) -> Mapping[str, str]:
        self._go("read")
        found = sorted(self.shared.objects.items())
        return {key: each.tag for key, each in found if key.startswith(prefix)}

    def list_beside(self) -> tuple[str, ...]:
        return ()

    def _write(self, key: str, body: bytes, tag: str) -> str:
        process, rng = self.process, self.shared.rng
        fault = self._go("write")
        if fault == "refused":  # for nothing: some stores do, where two write at once
            raise PreconditionFailed
        if fault in ("request lost", "late"):
            if fault == "late":
                process.ghost.timeline.call_later(rng.uniform(0.1, LATE_S), self._arrive, key, body, tag)
            self._fail()
        tag = self.shared.write(process, key, body, tag)
        if fault == "answer lost":
            self._fail()
        if fault == "slow":
            pause(rng.uniform(1.0, TIMEOUT_S))
        self._come_back()
        return tag

    def _arrive(self, key: str, body: bytes, tag: str) -> None:
        with suppress(PreconditionFailed):
            self.shared.write(self.process, key, body, tag)
            self.process.ghost.tally.note("store", "late write lands")

    def _fail(self) -> None:
        pause(self.shared.rng.choice((0.05, 0.05, TIMEOUT_S)))
        raise NoAnswer("the connection to the store broke")

    def _go(self, what: str) -> str:
        """On the way to the store, where things get lost; the fault that the answer suffers."""
        if not self.process.alive:
            raise Died
        self.shared.requests += 1
        if self.shared.requests > MOST_REQUESTS:
            self.process.ghost.violate("nothing-goes-on-for-ever", f"{self.process.name} asks the store")
            raise Endless(f"more than {MOST_REQUESTS} requests to the store")
        self.process.pass_by_outside(f"store:{what}")
        pause(self.shared.rng.uniform(0.001, LATENCY_S))
        if not self.process.alive:
            raise Died
        fault = self.process.store_fault(what)
        if fault == "unreachable":
            pause(self.shared.rng.choice((0.05, TIMEOUT_S)))
            if what == "write":
                raise NoAnswer("no connection to the store")
            raise StoreError("the state memory:// cannot be reached: no connection to the store")
        return fault

    def _come_back(self) -> None:
        pause(self.shared.rng.uniform(0.001, LATENCY_S))
        if not self.process.alive:
            raise Died
