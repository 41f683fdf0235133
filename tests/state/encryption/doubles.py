"""Encryption to one person, as tests of the state need it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.core.clock import Clock
from reconciler.secrets import age
from reconciler.state.encryption.bucket import Encryption, SealedBucket
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.store import LogStore
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.spooling import Spooling
from tests.age_keys import generate


@dataclass(frozen=True)
class Person:
    """Somebody with an identity of age."""

    identity: str
    recipient: str

    def reads(self, *recipients: str) -> Encryption:
        """What the settings of this person say, where the state is encrypted to `recipients`."""
        return Encryption(
            recipients,
            lambda data: age.encrypt(data, recipients).encode(),
            lambda data: age.decrypt(data, age.parse_identities(self.identity, "test"), "the state's key"),
        )

    @property
    def alone(self) -> Encryption:
        return self.reads(self.recipient)

    @property
    def changing(self) -> Encryption:
        return replace(self.alone, changing=True)


def person() -> Person:
    return Person(*generate())


ANA, BEN = person(), person()


def sealing(
    encryption: Encryption = ANA.alone, tell: Callable[[str], None] = lambda message: None
) -> Callable[[Bucket], SealedBucket]:
    """What gives the bucket of a state that is encrypted as `encryption` says."""
    return lambda bucket: SealedBucket(bucket, encryption, tell=tell)


def spooling(store: LogStore, folder: Path, clock: Clock) -> Spooling:
    """What keeps outcomes beside an encrypted state, sealed by its key."""
    return Spooling(store, folder / "state.spool", clock, store.bucket)  # type: ignore[arg-type]


def in_memory(known: MemoryState, encryption: Encryption = ANA.alone) -> MemoryStore:
    """A handle on a state in memory that is encrypted."""
    return MemoryStore(known, sealing(encryption))
