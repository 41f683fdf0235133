"""Keyed fingerprints: they show whether a secret value changed, and nobody can guess the value from them."""

import hashlib
import hmac

from reconciler.core.model import Address
from reconciler.secrets.sensitive import Sensitive

_DOMAIN = b"reconciler secret value 1"
_KEY_BYTES = 32


def fingerprint(key: bytes, address: Address, value: Sensitive) -> str:
    """Return an HMAC-SHA256 in hex, which is equal only for the same key, address and value.

    The address is part of it, so that two resources with the same password have different fingerprints.
    `key` is `Store.fingerprint_key()`. Raises ValueError unless it has 32 bytes.
    """
    # Neither the domain nor an address holds a zero byte, so the parts cannot run into each other.
    message = b"\0".join((_DOMAIN, str(address).encode(), value.reveal().encode()))
    if len(key) != _KEY_BYTES:
        raise ValueError(f"a fingerprint key has {_KEY_BYTES} bytes, not {len(key)}")
    return hmac.new(key, message, hashlib.sha256).hexdigest()
