"""Used nonces in the provider kit's own store: a file that restarts and workers share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from reconciler.providers.kit.store import Store

Claim = Callable[[str], bool]


@contextmanager
def shared_claim(file: Path) -> Iterator[Claim]:
    """Remembers a text; False when it was there, in whichever process.

    Nothing is forgotten: the vectors play at many times, and each would throw away what others need.
    """
    store = Store(file)
    try:
        yield lambda text: store.claim("nonces", sha256(text.encode()).hexdigest(), 0.0)
    finally:
        store.close()
