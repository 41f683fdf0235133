"""Requests as the platform would send them, and as somebody else would."""

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from reconciler.services.signing import Encoding, signature


@dataclass(frozen=True, slots=True)
class Request:
    """`signatures`: the values of the header, none, one or more. `url` holds the query."""

    method: str
    url: str
    signatures: tuple[str, ...]
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """A good request before it is signed: `message` and `request` make it, or something close to it.

    `fields`: of the body, for POST and PATCH. `wrong_secret`: one that the provider does not know.
    """

    method: str
    url: str
    fields: Mapping[str, Any]
    timestamp: int
    nonce: str
    encoding: Encoding
    secret: bytes = field(repr=False)
    wrong_secret: bytes = field(repr=False)
    webhook_secret: bytes | None = field(default=None, repr=False)

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")

    def signed_fields(self, **changes: Any) -> dict[str, Any]:
        """What is signed, `...` leaving a field out."""
        own = {"url": self.url, "nonce": self.nonce, "timestamp": self.timestamp}
        fields = {**self.fields, **own, **changes} if self.has_body else {**own, **changes}
        return {name: value for name, value in fields.items() if value is not ...}

    def message(self, **changes: Any) -> bytes:
        """The body, or the query."""
        fields = self.signed_fields(**changes)
        if self.has_body:
            return json.dumps(fields, separators=(",", ":")).encode()
        return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in fields.items()).encode()

    def sign(self, message: bytes, secret: bytes | None = None) -> str:
        return signature(self.secret if secret is None else secret, message, self.encoding)

    def digest(self, make: Callable[[bytes], bytes], message: bytes) -> str:
        """Another digest of `message`, written as the signature would be."""
        made = make(message)
        return made.hex() if self.encoding == "hex" else b64encode(made).decode("ascii")

    def other_hmac(self, name: str, message: bytes) -> str:
        return self.digest(lambda text: hmac.digest(self.secret, text, name), message)

    def bare_hash(self, message: bytes) -> str:
        return self.digest(lambda text: hashlib.sha256(self.secret + text).digest(), message)

    def request(
        self,
        message: bytes | None = None,
        *,
        signed: bytes | None = None,
        signatures: tuple[str, ...] | None = None,
        secret: bytes | None = None,
    ) -> Request:
        """`message` under the signature of `signed` (of itself, unless given), or under `signatures`."""
        sent = self.message() if message is None else message
        if signatures is None:
            signatures = (self.sign(sent if signed is None else signed, secret),)
        if self.has_body:
            headers = {"content-type": "application/json"}
            return Request(self.method, self.url, signatures, sent, headers)
        return Request(self.method, f"{self.url}?{sent.decode('latin-1')}", signatures)
