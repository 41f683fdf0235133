"""A bucket that seals what is written to a place, and opens what is read from it.

The root is the first object that is read, and holds the keys (`Keys`). Everything else is sealed with the
content key and bound to its key in the bucket, so that no object passes for another one:

    state.json     lineage, environment and where the state has moved to, in clear; all of it, sealed
    heads/SCOPE    line by line, so that a place may add the newest changes to those before
    journal/SCOPE/…, base/SCOPE/…, leases/ID    as a whole
    probe/…, …/unfinished     in clear: they hold random text

A scope's part of a key is a token. What is not encrypted passes unchanged.
"""

import base64
import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.errors import StateMoved, StateSealed
from reconciler.core.extras import require_extra
from reconciler.state.encryption import problems
from reconciler.state.encryption.cipher import KEY_BYTES, Bytes, Cipher, Keys, NotOurs
from reconciler.state.encryption.older import MAGIC
from reconciler.state.log.bucket import Bucket, Found

T = TypeVar("T")
R = TypeVar("R")

FORMAT = 2  # of the root; 1 is one that is not encrypted
_ROOT = "state.json"
_OLDER = base64.b64encode(MAGIC[:24]).decode()  # begins the key of a state of an older program
_NAMED = ("heads", "journal", "base")  # folders with a part for each scope


@dataclasses.dataclass(frozen=True, slots=True)
class Encryption:
    """What the settings say. `recipients`: none for a state that is not encrypted.

    `wrap` encrypts to them, `unwrap` decrypts with our identity; it raises ReconcilerError where it cannot.
    `changing`: the state may be encrypted otherwise than they say, because it is about to be changed so.
    A dataclass, which can hide functions that know an identity from its repr.
    """

    recipients: tuple[str, ...] = ()
    wrap: Bytes = dataclasses.field(default=lambda data: data, repr=False)
    unwrap: Bytes = dataclasses.field(default=lambda data: data, repr=False)
    changing: bool = False

    def require_readable(self) -> None:
        """Raises StateSealed unless our identity opens what is encrypted to the recipients."""
        if not self.recipients:
            return
        require_extra("encryption", "an encrypted state")
        try:
            self.unwrap(self.wrap(b"can we read this?"))
        except StateSealed:
            raise problems.not_for_us() from None


class SealedBucket(Bucket):
    """`inner`, in which nothing can be read that is sealed; it also seals what is spooled.

    `randomness(n)` gives n bytes, for keys. `tell` gets a line about recipients that are not those of the
    settings. All methods raise StoreError for what does not open, and StateSealed where the state is
    encrypted otherwise than the settings say.
    """

    def __init__(
        self,
        inner: Bucket,
        encryption: Encryption,
        *,
        randomness: Callable[[int], bytes] = os.urandom,
        tell: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.inner = inner
        self.encryption = encryption
        self.is_quick, self.is_sure = inner.is_quick, inner.is_sure
        self.is_of_one_moment, self.at_once = inner.is_of_one_moment, inner.at_once
        self._randomness = randomness
        self._tell = tell
        self._keys: Keys | None = None
        self._envelope = b""
        self._is_new = False  # a whole state is written through it: its keys are there before its root
        self._ciphers: Sequence[Cipher] = ()  # of the content key, and then of those from before

    @property
    def place(self) -> str:
        return self.inner.place

    @property
    def raw(self) -> Bucket:
        return self.inner

    @property
    def generation(self) -> int:
        """How many content keys the state has had; 0: it is not encrypted, or was not read yet."""
        return self._keys.generation if self._keys is not None else 0

    def way_out(self) -> tuple[str, Command]:
        return self.inner.way_out()

    def get(self, key: str) -> Found | None:
        return self._opened(key, self.inner.get(self._below(key)))

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        found = self.inner.get_all([self._below(key) for key in keys])
        return [self._opened(key, body) for key, body in zip(keys, found, strict=True)]

    def get_under(self, prefix: str) -> Mapping[str, Found]:
        found = {self._above(key): body for key, body in self.inner.get_under(prefix).items()}
        opened = {key: self._opened(key, body) for key, body in found.items()}
        return {key: body for key, body in opened.items() if body is not None}

    def in_parallel(self, work: Callable[[T], R], values: Sequence[T]) -> list[R]:
        return self.inner.in_parallel(work, values)

    def create(self, key: str, body: bytes) -> str:
        return self.inner.create(self._below(key), self.as_stored(key, body))

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self.inner.replace(self._below(key), self.as_stored(key, body), tag)

    def delete(self, key: str) -> None:
        self.inner.delete(self._below(key))

    def list(self, prefix: str) -> Mapping[str, str]:
        return {self._above(key): tag for key, tag in self.inner.list(prefix).items()}

    def list_beside(self) -> tuple[str, ...]:
        return self.inner.list_beside()

    def as_stored(self, key: str, body: bytes) -> bytes:
        """`body` as the place holds it."""
        if not self._ciphers:
            return body
        cipher, binding = self._ciphers[0], key.split("/")[1:]
        if binding == [_ROOT]:
            fields = json.loads(body)
            shown = {name: fields[name] for name in ("lineage", "environment", "moved_to")}
            sealed = {
                "format": FORMAT,
                **shown,
                "envelope": base64.b64encode(self._envelope).decode(),
                "sealed": cipher.seal_text(body.decode(), _ROOT),
            }
            return json.dumps(sealed, indent=1).encode()
        if binding[1:2] == ["heads"]:
            lines = body.decode().split("\n")
            return "\n".join(line and cipher.seal_text(line, *binding) for line in lines).encode()
        return cipher.seal(body, *binding) if _is_sealed(binding) else body

    def renewed(self, lineage: str) -> Bucket:
        """As in `Bucket`. It seals as the settings say, with a new content key.

        Raises StateSealed where nobody here could read it again.
        """
        if self._is_new:
            return self
        recipients = self.encryption.recipients
        if not recipients:
            return self.inner
        self.encryption.require_readable()
        content = self._randomness(KEY_BYTES)
        keys = Keys(content, lineage, recipients)
        if self._keys is not None and self._keys.lineage == lineage:
            keys = self._keys.renewed(content, recipients)
        return self.over(self.inner, keys, keys.closed(self.encryption.wrap))

    @property
    def key_file(self) -> bytes:
        """What stands next to a copy in a file, in the place of the key of a state that is not encrypted."""
        return MAGIC + self._envelope

    def opening(self, inner: Bucket) -> "SealedBucket":
        """A bucket over a copy of a state, however that is encrypted."""
        return SealedBucket(inner, dataclasses.replace(self.encryption, changing=True))

    def over(self, inner: Bucket, keys: Keys | None = None, closed: bytes = b"") -> "SealedBucket":
        """A bucket over `inner` that seals with `keys`, which `closed` holds; else with those of this one."""
        bucket = SealedBucket(inner, self.encryption, randomness=self._randomness)
        bucket._is_new = True
        bucket._know(keys or self._keys, closed or self._envelope)
        return bucket

    # --- what is spooled next to the state ---

    def seal_text(self, text: str) -> str | None:
        """Seals with the keys of the root that was read last; None where the state is not encrypted."""
        return self._ciphers[0].seal_text(text, "spool") if self._ciphers else None

    def open_text(self, sealed: str) -> str | None:
        """The inverse, also with the keys from before; None for what was not sealed for this state."""
        for cipher in self._ciphers:
            with suppress(NotOurs):
                return cipher.open_text(sealed, "spool")
        return None

    def _know(self, keys: Keys | None, closed: bytes) -> None:
        self._keys, self._envelope = keys, closed
        self._ciphers = keys.ciphers() if keys is not None else ()

    def _opened(self, key: str, found: Found | None) -> Found | None:
        if found is None:
            return None
        binding = key.split("/")[1:]
        if binding == [_ROOT]:
            return self._opened_root(found)
        if not self._ciphers or not _is_sealed(binding):
            return found
        cipher = self._ciphers[0]
        try:
            if binding[1] != "heads":
                return Found(cipher.open(found.body, *binding), found.tag)
            lines = found.body.decode().split("\n")
            opened = [line and cipher.open_text(line, *binding) for line in lines]
        except (NotOurs, UnicodeDecodeError):
            raise problems.damaged(f"`{'/'.join(binding[1:])}`") from None
        return Found("\n".join(opened).encode(), found.tag)

    def _opened_root(self, found: Found) -> Found:
        fields = _fields(found.body)
        moved_to = fields.get("moved_to", "")
        if "envelope" not in fields:
            if str(fields.get("key")).startswith(_OLDER) and not self.encryption.changing:
                raise problems.by_an_older_program()
            if self.encryption.recipients and not self.encryption.changing and not moved_to:
                raise problems.not_encrypted()
            self._know(None, b"")
            return found
        try:
            self._unlock(base64.b64decode(fields["envelope"]), fields["lineage"])
            return Found(self._ciphers[0].open_text(fields["sealed"], _ROOT).encode(), found.tag)
        except StateSealed:
            if moved_to and not self.encryption.changing:
                raise StateMoved(self.place, moved_to) from None
            raise
        except (NotOurs, KeyError, TypeError, ValueError, AttributeError):
            raise problems.damaged(f"`{_ROOT}`") from None

    def _unlock(self, closed: bytes, lineage: str) -> None:
        """Know the keys in an envelope."""
        recipients, changing = self.encryption.recipients, self.encryption.changing
        if not recipients and not changing:
            raise problems.not_configured()
        if closed == self._envelope:
            return
        require_extra("encryption", "an encrypted state")
        keys = Keys.opened(closed, self.encryption.unwrap)
        if keys.lineage != lineage:
            raise problems.damaged("its key")
        self._know(keys, closed)
        if set(recipients) != set(keys.recipients) and not changing:
            self._tell(
                "the state is encrypted to other recipients than `state.encrypt_to` names: "
                f"`{command('state', 'rekey')}` encrypts it to those"
            )

    def _below(self, key: str) -> str:
        """The key of an object in the place."""
        parts = key.split("/")
        if not self._ciphers or len(parts) < 4 or parts[2] not in _NAMED or not parts[3]:
            return key
        return "/".join((*parts[:3], self._ciphers[0].token(parts[3]), *parts[4:]))

    def _above(self, key: str) -> str:
        """The inverse of `_below`."""
        parts = key.split("/")
        if not self._ciphers or len(parts) < 4 or parts[2] not in _NAMED:
            return key
        try:
            return "/".join((*parts[:3], self._ciphers[0].name(parts[3]), *parts[4:]))
        except NotOurs:
            raise problems.damaged(f"the name of an object in `{parts[2]}`") from None


class Header(Struct, frozen=True):
    """What the root of an encrypted state says in clear."""

    lineage: str
    environment: str
    key: bytes = b""  # which only the keys of the state open


def header(body: bytes) -> Header | None:
    """None for the root of a state that is not encrypted. Raises KeyError for half of one."""
    fields = _fields(body)
    return Header(fields["lineage"], fields["environment"]) if "envelope" in fields else None


def _fields(body: bytes) -> Mapping[str, Any]:
    """The fields of a root; none where it is not one."""
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _is_sealed(binding: Sequence[str]) -> bool:
    return binding[1:2] == ["leases"] or (len(binding) > 2 and binding[1] in _NAMED)
