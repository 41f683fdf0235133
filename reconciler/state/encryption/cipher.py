"""One content key. AES-SIV (RFC 5297): no nonce that must never come twice, and no text without its binding.

A name always becomes the same token, since the backend looks things up by it. A sealed text is bound to the
place that it was made for: anywhere else it does not open.
"""

import hashlib
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64

from reconciler.core.model import Address

KEY_BYTES = 64
_BLOCK = 32  # lengths are rounded up to it: the length of a name tells much of a short one
_TOKEN = re.compile(r"(?:Enc[a-p]{16}/)?(enc-[A-Za-z0-9_-]{64,})")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


class NotOurs(Exception):
    """This was not sealed with this key, or not for this place."""


class Cipher:
    """`lineage`: of the state, to which all is bound."""

    def __init__(self, key: bytes, lineage: str) -> None:
        # Here, so that states that are not encrypted do without the extra.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        self._siv = AESSIV(key)
        self._refusals = (InvalidTag, NotBase64, ValueError)
        self._lineage = lineage
        self._tokens: dict[str, str] = {}
        self._names: dict[str, str] = {"": ""}

    def token(self, name: str) -> str:
        """What stands for `name`; "" for ""."""
        if not name:
            return ""
        known = self._tokens.get(name)
        if known is None:
            sealed = self._siv.encrypt(_padded(name), self._bound(("name",)))
            known = self._tokens[name] = f"enc-{urlsafe_b64encode(sealed).decode()}"
            self._names[known] = name
        return known

    def name(self, token: str) -> str:
        """The inverse of `token`. Raises NotOurs."""
        known = self._names.get(token)
        if known is None:
            try:
                sealed = urlsafe_b64decode(token.removeprefix("enc-"))
                known = _unpadded(self._siv.decrypt(sealed, self._bound(("name",))))
            except self._refusals:
                raise NotOurs(token) from None
            self._tokens[known], self._names[token] = token, known
        return known

    def address(self, address: Address) -> Address:
        """The whole address as one name. All addresses of a kind have one kind."""
        return Address(self.kind(address.kind), self.token(str(address)))

    def plain_address(self, address: Address) -> Address:
        """Raises NotOurs."""
        try:
            plain = Address.parse(self.name(address.name))
        except ValueError:
            raise NotOurs(str(address)) from None
        if self.address(plain) != address:
            raise NotOurs(str(address))
        return plain

    def kind(self, kind: str) -> str:
        """Letters, as every kind has."""
        digest = hashlib.sha256(self.token(kind).encode()).hexdigest()[:16]
        return f"Enc{digest.translate(_LETTERS)}"

    def seal(self, text: str, *place: object) -> str:
        return b64encode(self._siv.encrypt(_padded(text), self._bound(place))).decode()

    def open(self, sealed: str, *place: object) -> str:
        """Raises NotOurs, also for what was sealed for another place."""
        try:
            return _unpadded(self._siv.decrypt(b64decode(sealed), self._bound(place)))
        except self._refusals:
            raise NotOurs(str(place[0])) from None

    def revealed(self, text: str) -> str:
        """`text` with names where it has tokens of this key."""

        def plain(found: re.Match[str]) -> str:
            try:
                return self.name(found[1])
            except NotOurs:
                return found[0]

        return _TOKEN.sub(plain, text)

    def _bound(self, place: tuple[object, ...]) -> list[bytes]:
        return [json.dumps([self._lineage, *place]).encode()]


def is_token(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None


def _padded(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass") + b"\x80"
    return data + bytes(-len(data) % _BLOCK)


def _unpadded(data: bytes) -> str:
    return data.rstrip(b"\0")[:-1].decode("utf-8", "surrogatepass")
