"""The content keys of a state, encrypted to recipients: the root holds them so.

An envelope does not say who wrote it: recipients are public, so that anybody who may write to the store can
put a state of his own there. He cannot change parts of ours.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reconciler.core.errors import StoreError
from reconciler.state.encryption.cipher import KEY_BYTES, Cipher

_OLDER = 8  # how many content keys from before are kept, for outcomes that were spooled under them

Bytes = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Keys:
    """The content keys of one state. A dataclass, which can hide them from its repr.

    `content`: what is sealed now; `older`: those from before, the newest first. `generation` counts them.
    `recipients`: who can open the envelope.
    """

    content: bytes = field(repr=False)
    lineage: str
    recipients: tuple[str, ...]
    generation: int = 1
    older: tuple[bytes, ...] = field(default=(), repr=False)

    def renewed(self, content: bytes, recipients: tuple[str, ...]) -> "Keys":
        """The keys after a rekey."""
        older = (self.content, *self.older)[:_OLDER]
        return replace(
            self, content=content, recipients=recipients, generation=self.generation + 1, older=older
        )

    def ciphers(self) -> list[Cipher]:
        """One for the content key, and then those for the keys from before."""
        return [Cipher(key, self.lineage) for key in (self.content, *self.older)]


def closed(keys: Keys, wrap: Bytes) -> bytes:
    """The envelope. `wrap`: encrypts to the recipients."""
    fields = {
        "content": keys.content.hex(),
        "lineage": keys.lineage,
        "recipients": keys.recipients,
        "generation": keys.generation,
        "older": [key.hex() for key in keys.older],
    }
    return wrap(json.dumps(fields).encode())


def opened(envelope: bytes, unwrap: Bytes) -> Keys:
    """The keys in an envelope. Raises what `unwrap` raises, and StoreError for what is not an envelope."""
    text = unwrap(envelope)
    try:
        fields = json.loads(text)
        content = bytes.fromhex(fields["content"])
        if len(content) != KEY_BYTES:
            raise ValueError
        return Keys(
            content,
            fields["lineage"],
            tuple(fields["recipients"]),
            fields["generation"],
            tuple(bytes.fromhex(key) for key in fields["older"]),
        )
    except (KeyError, TypeError, ValueError):
        # The text may hold keys, so that no part of it may be shown.
        raise StoreError("the keys of the encrypted state are not what was written") from None
