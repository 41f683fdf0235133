"""The content key of a state, encrypted to recipients: what a backend keeps as the state's key.

It does not say who wrote it: recipients are public, so that anybody who may write to the store can put a
state of his own there. He cannot change parts of ours.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reconciler.core.errors import StoreError
from reconciler.state.encryption.cipher import KEY_BYTES, Cipher

_MAGIC = b"reconcile encrypted state\n"
_OLDER = 8  # how many content keys from before are kept, for outcomes that were spooled under them

Bytes = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Keys:
    """`content`: what names and contents are sealed with; `older`: those from before, the newest first.

    `fingerprint`: the state's key. `generation` counts the content keys. `recipients`: who can open this.
    """

    content: bytes = field(repr=False)
    fingerprint: bytes = field(repr=False)
    lineage: str
    recipients: tuple[str, ...]
    generation: int = 1
    older: tuple[bytes, ...] = field(default=(), repr=False)

    def renewed(self, content: bytes) -> "Keys":
        return replace(
            self,
            content=content,
            generation=self.generation + 1,
            older=(self.content, *self.older)[:_OLDER],
        )

    def ciphers(self) -> list[Cipher]:
        """Of the content key, and then of those from before."""
        return [Cipher(key, self.lineage) for key in (self.content, *self.older)]


def is_envelope(key: bytes) -> bool:
    """Whether what a backend keeps as its key is that of an encrypted state."""
    return key.startswith(_MAGIC)


def closed(keys: Keys, wrap: Bytes) -> bytes:
    """`wrap`: encrypts to the recipients."""
    fields = {
        "content": keys.content.hex(),
        "fingerprint": keys.fingerprint.hex(),
        "lineage": keys.lineage,
        "recipients": keys.recipients,
        "generation": keys.generation,
        "older": [key.hex() for key in keys.older],
    }
    return _MAGIC + wrap(json.dumps(fields).encode())


def opened(envelope: bytes, unwrap: Bytes) -> Keys:
    """Raises what `unwrap` raises, and StoreError for what is not an envelope."""
    text = unwrap(envelope.removeprefix(_MAGIC))
    try:
        fields = json.loads(text)
        content = bytes.fromhex(fields["content"])
        if len(content) != KEY_BYTES:
            raise ValueError
        return Keys(
            content,
            bytes.fromhex(fields["fingerprint"]),
            fields["lineage"],
            tuple(fields["recipients"]),
            fields["generation"],
            tuple(bytes.fromhex(key) for key in fields["older"]),
        )
    except (KeyError, TypeError, ValueError):
        # Nothing of the text may be told, which may hold keys.
        raise StoreError("the keys of the encrypted state are not what was written") from None
