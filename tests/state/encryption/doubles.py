"""Encryption to one person, as tests of the state need it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reconciler.secrets import age
from reconciler.state.encryption.store import Encrypting, Encryption
from reconciler.state.store import Store
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


@dataclass
class Team:
    """Opens what `make` opens, encrypted to Ana."""

    make: Callable[[], Store]
    told: list[str] = field(default_factory=list)

    def __call__(self, encryption: Encryption = ANA.alone) -> Encrypting:
        return Encrypting(self.make(), encryption, tell=self.told.append)
