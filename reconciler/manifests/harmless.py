"""Which files may be kept in the user's cache: those in which nothing looks like a secret."""

import re
from collections.abc import Iterable

from reconciler.manifests.reading.naming import VALUE_NAMES

# In lower case, anywhere in the file, comments too. Most of what has one is harmless, and composed each time.
_SIGNS = (
    b"-----begin",
    b"_from",
    b"age-encryption",
    b"api_key",
    b"apikey",
    b"authorization",
    b"bearer",
    b"credential",
    b"passphrase",
    b"passw",
    b"private",
    b"secret",
    b"sops",
    b"token",
)
_WITH_USER = re.compile(rb"://\S{0,1000}@")  # also where a `/` of the password is not escaped
# A key of free text, such as a label, that says it holds a value: "string_data":
_VALUE_KEY = re.compile('"_*(?:{})_*":'.format("|".join(map("_*".join, sorted(VALUE_NAMES)))).encode())


def may_hold_secret(data: bytes, values: bytes, kinds: Iterable[bytes]) -> bool:
    """By the bytes of a file, its `values` as JSON, and the names of the `kinds` that hold secrets."""
    values = values.lower()
    text = data.lower()
    if b"\\" in data:  # a word may be spelt in escapes
        text += values
    if any(sign in text for sign in _SIGNS) or any(kind.lower() in text for kind in kinds):
        return True
    if b"://" in text and (_WITH_USER.search(text) or _WITH_USER.search(values)):
        return True
    return _VALUE_KEY.search(values) is not None
