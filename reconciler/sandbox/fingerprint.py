"""What is kept of a secret: a keyed digest, from which nobody without the key can look up a common value.

The text `hmac-sha256:KEY:MAC` (hex) carries its key, because a world is the seed of the next one. The MAC is
of the value's SHA-256 in hex, so that what older sandboxes kept can be turned into it.
"""

import hashlib
import hmac

FORM = r"^(hmac-sha256:[0-9a-f]{64}:[0-9a-f]{64})?$"  # empty: not known
_NAME = "hmac-sha256"


def fingerprint(value: str, key: bytes) -> str:
    return keyed(_sha256(value), key)


def keyed(sha256: str, key: bytes) -> str:
    """The fingerprint of the value with this bare SHA-256 (hex)."""
    return f"{_NAME}:{key.hex()}:{hmac.digest(key, sha256.encode(), 'sha256').hex()}"


def holds(kept: str, value: str) -> bool:
    """Whether the fingerprint `kept` is of `value`; "" is of none."""
    _, _, key = kept.rpartition(":")[0].partition(":")
    return hmac.compare_digest(kept, keyed(_sha256(value), bytes.fromhex(key)))


def _sha256(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
