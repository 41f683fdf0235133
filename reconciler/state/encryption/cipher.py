"""One content key. AES-SIV (RFC 5297): no nonce that must never come twice, and no text without its binding.

A name always becomes the same token, since the place looks objects up by it; so does a line of a head, so
that what was written of it stays what it is. What is sealed is bound to where it belongs: anywhere else it
does not open.
"""

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reconciler.core.errors import StoreError

KEY_BYTES = 64
_BLOCK = 32  # lengths are rounded up to it: the length of a name tells much of a short one


class NotOurs(Exception):
    """This was not sealed with this key, or not for this place."""


class Cipher:
    """Seals and opens with one content key. `lineage`: of the state, to which all is bound."""

    def __init__(self, key: bytes, lineage: str) -> None:
        # Here, so that states that are not encrypted do without the extra.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        self._siv = AESSIV(key)
        self._refusals = (InvalidTag, NotBase64, ValueError)
        self._lineage = lineage
        self._tokens: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def token(self, name: str) -> str:
        """The token that stands for `name`, always the same one."""
        known = self._tokens.get(name)
        if known is None:
            known = f"enc-{urlsafe_b64encode(self.seal(name.encode(), 'name')).decode()}"
            self._tokens[name], self._names[known] = known, name
        return known

    def name(self, token: str) -> str:
        """The inverse of `token`. Raises NotOurs."""
        known = self._names.get(token)
        if known is None:
            try:
                known = self.open(urlsafe_b64decode(token.removeprefix("enc-")), "name").decode()
            except self._refusals:
                raise NotOurs(token) from None
            self._tokens[known], self._names[token] = token, known
        return known

    def seal(self, data: bytes, *binding: object) -> bytes:
        """`data`, padded and sealed. It opens with the same `binding` only."""
        padded = data + b"\x80"
        return self._siv.encrypt(padded + bytes(-len(padded) % _BLOCK), self._bound(binding))

    def open(self, sealed: bytes, *binding: object) -> bytes:
        """The inverse of `seal`. Raises NotOurs."""
        try:
            return self._siv.decrypt(sealed, self._bound(binding)).rstrip(b"\0")[:-1]
        except self._refusals:
            raise NotOurs(str(binding[0])) from None

    def seal_text(self, text: str, *binding: object) -> str:
        """As `seal`, as one line of text."""
        return b64encode(self.seal(text.encode("utf-8", "surrogatepass"), *binding)).decode()

    def open_text(self, sealed: str, *binding: object) -> str:
        """The inverse of `seal_text`. Raises NotOurs."""
        try:
            return self.open(b64decode(sealed, validate=True), *binding).decode("utf-8", "surrogatepass")
        except self._refusals:
            raise NotOurs(str(binding[0])) from None

    def _bound(self, binding: tuple[object, ...]) -> list[bytes]:
        return [json.dumps([self._lineage, *binding]).encode()]


# --- the envelope: the content keys, encrypted to recipients, which the root holds ---

# It does not say who wrote it: recipients are public, so that anybody who may write to the store can put a
# state of his own there. He cannot change parts of ours.

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

    def closed(self, wrap: Bytes) -> bytes:
        """The envelope. `wrap`: encrypts to the recipients."""
        fields = {
            "content": self.content.hex(),
            "lineage": self.lineage,
            "recipients": self.recipients,
            "generation": self.generation,
            "older": [key.hex() for key in self.older],
        }
        return wrap(json.dumps(fields).encode())

    @classmethod
    def opened(cls, envelope: bytes, unwrap: Bytes) -> "Keys":
        """The keys in an envelope. Raises as `unwrap` does, and StoreError for what is not an envelope."""
        text = unwrap(envelope)
        try:
            fields = json.loads(text)
            content = bytes.fromhex(fields["content"])
            if len(content) != KEY_BYTES:
                raise ValueError
            return cls(
                content,
                fields["lineage"],
                tuple(fields["recipients"]),
                fields["generation"],
                tuple(bytes.fromhex(key) for key in fields["older"]),
            )
        except (KeyError, TypeError, ValueError):
            # The text may hold keys, so that no part of it may be shown.
            raise StoreError("the keys of the encrypted state are not what was written") from None
