"""A `Store` around any backend: what the backend gets is sealed, what it gives is opened."""

import dataclasses
import os
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from itertools import count
from typing import TypeVar, cast

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.errors import Locked, ReconcilerError, StateSealed, StoreError
from reconciler.core.extras import require_extra
from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import encode_entry, encode_record
from reconciler.state.contents import Contents, Movable, same
from reconciler.state.encryption import contents as wholes
from reconciler.state.encryption import envelope, problems
from reconciler.state.encryption.cipher import KEY_BYTES, Cipher, NotOurs, is_token
from reconciler.state.encryption.envelope import Bytes, Keys
from reconciler.state.encryption.sealing import Order, open_entry, open_record, seal_entry, seal_record
from reconciler.state.passing import Passing
from reconciler.state.store import JournalEntry, Lease, Maintenance, State, Store

_FINGERPRINT_BYTES = 32

Failure = TypeVar("Failure", bound=ReconcilerError)


@dataclasses.dataclass(frozen=True, slots=True)
class Encryption:
    """What the settings say. `recipients`: none for a state that is not encrypted.

    `wrap` encrypts to them, `unwrap` decrypts with our identity; it raises ReconcilerError where it cannot.
    `changing`: the state may be encrypted otherwise than they say, because it is about to be changed so.
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


class Encrypting(Passing):
    """`inner`, a backend. With no recipients, and for a state that is not encrypted, all passes unchanged.

    `environment`: whose state it is. `randomness(n)` gives n bytes, for keys and the lineage. `tell` gets a
    line about recipients that are not those of the settings.
    """

    def __init__(
        self,
        inner: Store,
        encryption: Encryption,
        *,
        environment: str = "",
        randomness: Callable[[int], bytes] = os.urandom,
        tell: Callable[[str], None] = lambda message: None,
    ) -> None:
        super().__init__(inner)
        self.encryption = encryption
        self._environment = environment
        self._randomness = randomness
        self._tell = tell
        self._keys: Keys | None = None
        self._ciphers: Sequence[Cipher] = ()  # the state's own first, then those from before
        self._plain_key = b""  # the key of a state that is not encrypted
        self._new_key = b""
        self._commits = count(1)
        self._loaded: tuple[State, State] | None = None  # what the backend gave, and what it says
        self._records: dict[Address, tuple[StateRecord, StateRecord]] = {}  # the same, by sealed address

    async def load(self, scopes: Collection[str] | None = None) -> State:
        cipher = await self._cipher()
        with _revealing(cipher):
            state = await self.inner.load(
                scopes if cipher is None or scopes is None else _tokens(cipher, scopes)
            )
        if cipher is not None:
            return (await self._opened(cipher, state)).of(scopes)
        if state.lineage:
            if any(map(is_token, (*state.serials, *state.heads))):
                raise problems.rekeyed()
            if self.encryption.recipients and not self.encryption.changing:
                return await self.load(scopes)  # somebody has just made it
            self._plain_key = self._plain_key or await self.inner.fingerprint_key()
        return state

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        cipher = await self._cipher()
        with _revealing(cipher):
            entries = await self.inner.journal(since=since)
        if cipher is None:
            return entries
        order, found = Order(), []
        async with self._unsealing():
            for token, sealed in entries:
                scope, opened = cipher.name(token), open_entry(cipher, sealed)
                order.follow(scope, opened)
                found.append((scope, opened.entry))
        return found

    async def create(self) -> bool:
        """As in `Store`. An encrypted one is made as a whole that holds nothing: its key is never plain."""
        if not self.encryption.recipients:
            return await self.inner.create()
        if (await self.load()).lineage:
            return False
        lineage = str(uuid.UUID(bytes=self._randomness(16), version=4))
        key = await self.fingerprint_key()
        try:
            await self.import_(Contents(lineage, key, self._environment))
        except StoreError:
            if not (await self.load()).lineage:
                raise
            return False  # another was faster
        return True

    async def fingerprint_key(self) -> bytes:
        if await self._cipher() is not None and self._keys is not None:
            return self._keys.fingerprint
        if self._plain_key or not self.encryption.recipients:
            return self._plain_key or await self.inner.fingerprint_key()
        self._new_key = self._new_key or self._randomness(_FINGERPRINT_BYTES)
        return self._new_key

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        cipher = await self._cipher()
        if cipher is None:
            return await self.inner.lease(scopes, holder, timeout_s=timeout_s)
        with _revealing(cipher):
            lease = await self.inner.lease(_tokens(cipher, scopes), cipher.token(holder), timeout_s=timeout_s)
        return _plain(cipher, lease)

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        cipher = await self._cipher()
        if cipher is None:
            return await self.inner.holders(scopes)
        with _revealing(cipher):
            found = await self.inner.holders(_tokens(cipher, scopes))
        return {cipher.name(scope): _reveal(cipher, held) for scope, held in found.items()}

    async def renew(self, lease: Lease) -> Lease:
        cipher = await self._cipher()
        with _revealing(cipher):
            renewed = await self.inner.renew(self.below(lease))
        return renewed if cipher is None else _plain(cipher, renewed)

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        with _revealing(await self._cipher()):
            await self.inner.check(self.below(lease), for_s)

    async def release(self, lease: Lease) -> None:
        with _revealing(await self._cipher()):
            await self.inner.release(self.below(lease))

    def below(self, lease: Lease) -> Lease:
        if not self._ciphers:
            return lease
        cipher = self._ciphers[0]
        epochs = {cipher.token(scope): epoch for scope, epoch in lease.epochs.items()}
        return replace(lease, holder=cipher.token(lease.holder), epochs=epochs)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        cipher = await self._cipher()
        if cipher is None:
            return await self.inner.commit(lease, entries, put, remove)
        scope = lease.scope
        epoch, number, about = (
            lease.epochs[scope],
            next(self._commits),
            [*remove, *(each.address for each in put)],
        )
        sealed = [
            seal_entry(cipher, entry, encode_entry(entry)[-1], scope, (epoch, number, index), about)
            for index, entry in enumerate(entries)
        ]
        records = [seal_record(cipher, each, encode_record(each), (epoch, number, 0)) for each in put]
        with _revealing(cipher):
            stored = await self.inner.commit(
                self.below(lease), sealed, records, [cipher.address(each) for each in remove]
            )
        async with self._unsealing():
            return tuple(open_record(cipher, record)[0] for record in stored)

    # --- maintenance ---

    async def verify(self) -> None:
        """As in `Maintenance`: what the backend can tell without a key, and then what only the key tells."""
        await cast(Maintenance, self.inner).verify()
        if await self._cipher() is not None:
            await self.export()

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        cipher, inner = await self._cipher(), cast(Maintenance, self.inner)
        if cipher is None:
            return await inner.unlock(scope, force=force, by=by)
        with _revealing(cipher):
            done = await inner.unlock(cipher.token(scope), force=force, by=cipher.token(by))
        return cipher.revealed(done)

    async def take_over(self, environment: str, *, by: str) -> bool:
        cipher, inner = await self._cipher(), cast(Maintenance, self.inner)
        return await inner.take_over(environment, by=by if cipher is None else cipher.token(by))

    # --- whole states, as they are without encryption ---

    async def export(self) -> Contents:
        return await self.plain(await self.raw.export())

    async def import_(self, contents: Contents) -> None:
        self.encryption.require_readable()
        if self.encryption.recipients:
            contents = self.sealed(contents, None)
        await self.replace(contents)

    async def replace(self, contents: Contents) -> None:
        """`import_` of what is sealed already, or stays plain."""
        await self.raw.import_(contents)
        self._keys, self._ciphers, self._plain_key = None, (), b""
        self._loaded, self._records = None, {}

    async def retire(self, to: str, contents: Contents) -> None:
        now = await self.raw.export()
        await self.raw.retire(to, now if same(await self.plain(now), contents) else contents)

    async def revive(self) -> None:
        await self.raw.revive()

    @property
    def raw(self) -> Movable:
        """The state as the backend has it."""
        return cast(Movable, self.inner)

    async def opened_keys(self, contents: Contents) -> Keys | None:
        """Of a whole state as a backend has it; None for one that is not encrypted."""
        if not envelope.is_envelope(contents.key):
            return None
        require_extra("encryption", "an encrypted state")
        keys = envelope.opened(contents.key, self.encryption.unwrap)
        if keys.lineage != contents.lineage:
            raise problems.damaged("its key")
        return keys

    def sealed(self, contents: Contents, before: Keys | None) -> Contents:
        """As the settings say, with a new content key. `before`: the keys that it had."""
        recipients = self.encryption.recipients
        if not recipients:
            return contents
        require_extra("encryption", "an encrypted state")
        content = self._randomness(KEY_BYTES)
        keys = Keys(content, contents.key, contents.lineage, recipients)
        if before is not None:
            keys = dataclasses.replace(before.renewed(content), recipients=recipients)
        return wholes.sealed(contents, keys.ciphers()[0], envelope.closed(keys, self.encryption.wrap))

    # --- what is spooled beside the state ---

    def seal_text(self, text: str) -> str | None:
        """None where the state is not encrypted."""
        return self._ciphers[0].seal(text, "spool") if self._ciphers else None

    def open_text(self, sealed: str) -> str | None:
        """None where no key of the state opens it, of those from before either."""
        for cipher in self._ciphers:
            with suppress(NotOurs):
                return cipher.open(sealed, "spool")
        return None

    async def plain(self, contents: Contents) -> Contents:
        """A whole state as a backend has it, opened. Raises StoreError."""
        keys = await self.opened_keys(contents)
        if keys is None:
            return contents
        try:
            return wholes.opened(contents, keys.ciphers()[0], keys.fingerprint)
        except NotOurs as found:
            raise problems.damaged(str(found)) from None

    async def _cipher(self) -> Cipher | None:
        """None where there is no state, or one that is not encrypted. Raises StoreError."""
        if self._ciphers or self._plain_key:
            return self._ciphers[0] if self._ciphers else None
        key = await self.inner.fingerprint_key()
        recipients, changing = self.encryption.recipients, self.encryption.changing
        if not envelope.is_envelope(key):
            if recipients and not changing and (await self.inner.load(())).lineage:
                raise problems.not_encrypted()
            return None
        if not recipients and not changing:
            raise problems.not_configured()
        require_extra("encryption", "an encrypted state")
        self._keys = envelope.opened(key, self.encryption.unwrap)
        self._ciphers = self._keys.ciphers()
        if set(recipients) != set(self._keys.recipients) and not changing:
            self._tell(
                "the state is encrypted to other recipients than `state.encrypt_to` names: "
                f"`{command('state', 'rekey')}` encrypts it to those"
            )
        return self._ciphers[0]

    async def _opened(self, cipher: Cipher, state: State) -> State:
        if self._loaded is not None and self._loaded[0] is state:
            return self._loaded[1]
        async with self._unsealing():
            records = {}
            for address, sealed in state.records.items():
                known = self._records.get(address)
                records[address] = (
                    known if known and known[0] == sealed else (sealed, open_record(cipher, sealed)[0])
                )
            opened = dataclasses.replace(
                state,
                records={record.address: record for _, record in records.values()},
                open_intents=_entries(cipher, state.open_intents),
                plans_run=frozenset(map(cipher.name, state.plans_run)),
                unclaimed=_entries(cipher, state.unclaimed),
                half_moved=_entries(cipher, state.half_moved),
                elsewhere={
                    cipher.plain_address(address): cipher.name(id) for address, id in state.elsewhere.items()
                },
                serials={cipher.name(scope): serial for scope, serial in state.serials.items()},
                heads={cipher.name(scope): hash for scope, hash in state.heads.items()},
                lengths={cipher.name(scope): length for scope, length in state.lengths.items()},
                platform=cipher.name(state.platform),
            )
        self._records = records
        self._loaded = state, opened
        return opened

    @asynccontextmanager
    async def _unsealing(self) -> AsyncIterator[None]:
        """Raises StoreError for what does not open: another has changed the key, or it is damaged."""
        try:
            yield
        except NotOurs as found:
            key = await self.inner.fingerprint_key()
            if not envelope.is_envelope(key) or envelope.opened(key, self.encryption.unwrap) != self._keys:
                raise problems.rekeyed() from None
            raise problems.damaged(str(found)) from None


def _tokens(cipher: Cipher, scopes: Collection[str]) -> list[str]:
    return [cipher.token(scope) for scope in scopes]


def _plain(cipher: Cipher, lease: Lease) -> Lease:
    epochs = {cipher.name(scope): epoch for scope, epoch in lease.epochs.items()}
    return replace(lease, holder=cipher.name(lease.holder), epochs=epochs)


def _entries(cipher: Cipher, sealed: Sequence[JournalEntry]) -> tuple[JournalEntry, ...]:
    return tuple(open_entry(cipher, each).entry for each in sealed)


@contextmanager
def _revealing(cipher: Cipher | None) -> Iterator[None]:
    """What is raised names things by their names."""
    try:
        yield
    except ReconcilerError as failure:
        if cipher is not None:
            _reveal(cipher, failure)
        raise


def _reveal(cipher: Cipher, failure: Failure) -> Failure:
    failure.message, failure.help = cipher.revealed(failure.message), cipher.revealed(failure.help)
    failure.args = (failure.message,)
    if isinstance(failure, Locked):
        failure.scope, failure.holder = cipher.revealed(failure.scope), cipher.revealed(failure.holder)
    return failure
