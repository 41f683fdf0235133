"""What an encrypted state does beside the contract of all states: moves, notes, what is spooled."""

import dataclasses
from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.core.errors import StateSealed, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.project.settings import find_settings
from reconciler.project.store import Opening, encryption_of
from reconciler.state import spool_file
from reconciler.state.codec import encode_record
from reconciler.state.contents import Contents, same
from reconciler.state.encryption import envelope
from reconciler.state.encryption.cipher import KEY_BYTES, Cipher, NotOurs
from reconciler.state.encryption.sealing import open_entry, open_record, seal_entry, seal_record
from reconciler.state.encryption.store import Encrypting, Encryption
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, Lease, State
from tests.state.encryption.doubles import ANA, BEN
from tests.state.moving import filled
from tests.state.worlds import DATA, NOON, SimulatedClock, entry, record

pytestmark = pytest.mark.anyio

CIPHER, OTHER = Cipher(b"k" * KEY_BYTES, "lineage-1"), Cipher(b"k" * KEY_BYTES, "lineage-2")
PLACE = (1, 2, 3)


@dataclasses.dataclass
class Busy(MemoryStore):
    """Another process makes the state just before this one does."""

    def __init__(self, state: MemoryState, encryption: Encryption | None) -> None:
        super().__init__(state)
        self.memory, self.encryption = state, encryption

    async def import_(self, contents: Contents) -> None:
        if self.encryption is not None:
            await Encrypting(MemoryStore(self.memory), self.encryption).create()
        elif not (await MemoryStore(self.memory).load()).lineage:
            raise StoreError("the store is gone")
        await super().import_(contents)


def spooling(
    known: MemoryState, folder: Path, clock: SimulatedClock, encryption: Encryption = ANA.alone
) -> Spooling:
    sealed = Encrypting(MemoryStore(known), encryption)
    return Spooling(sealed, folder / "state.spool", clock, sealed)


async def left_by_a_runner(known: MemoryState, folder: Path, clock: SimulatedClock) -> list[bytes]:
    store = spooling(known, folder, clock)
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)])
    await store.spool(lease, [entry(Event.DONE)], [record()])
    await store.release(lease)
    return await store.spooled()


# --- moves ---


async def test_it_moves_as_it_is_without_encryption(clock: SimulatedClock) -> None:
    plain, sealed = MemoryState(clock), MemoryState(clock)
    here = await filled(MemoryStore(plain))
    contents = await MemoryStore(plain).export()
    there = Encrypting(MemoryStore(sealed), ANA.alone)
    await there.import_(dataclasses.replace(contents, moved_to="copy:here"))
    assert same(await there.export(), contents)
    await there.revive()
    assert dataclasses.replace(await there.load(), heads={}) == dataclasses.replace(here.state, heads={})
    back = MemoryStore(MemoryState(clock))
    await back.import_(await there.export())
    assert (await back.load()).heads == here.state.heads
    with pytest.raises(StoreError, match="has changed since it was copied"):
        await there.retire("elsewhere", dataclasses.replace(contents, key=b"another"))
    await there.retire("elsewhere", contents)
    assert (await there.export()).moved_to == "elsewhere"


# --- what is made while another makes it ---


async def test_of_two_who_make_a_state_one_does(clock: SimulatedClock) -> None:
    known = MemoryState(clock)
    assert await Encrypting(Busy(known, ANA.alone), ANA.alone).create() is False
    assert (await Encrypting(MemoryStore(known), ANA.alone).load()).lineage
    with pytest.raises(StoreError, match="the store is gone"):
        await Encrypting(Busy(MemoryState(clock), None), ANA.alone).create()


async def test_a_plain_state_that_another_makes_meanwhile_is_refused(clock: SimulatedClock) -> None:
    known = MemoryState(clock)
    store = Encrypting(MemoryStore(known), ANA.alone)
    assert (await store.load()).lineage == ""
    await MemoryStore(known).create()
    with pytest.raises(StateSealed):
        await store.load()


async def test_a_state_that_another_makes_between_two_looks_is_read(clock: SimulatedClock) -> None:
    known = MemoryState(clock)

    class Made(MemoryStore):
        async def load(self, scopes: Collection[str] | None = None) -> State:
            before = await super().load(scopes)
            if not before.lineage:
                await Encrypting(MemoryStore(known), ANA.alone).create()
                return before if scopes == () else await super().load(scopes)
            return before

    assert (await Encrypting(Made(known), ANA.alone).load()).lineage
    known.objects.clear()

    class MadeLater(MemoryStore):
        async def load(self, scopes: Collection[str] | None = None) -> State:
            if scopes is None and not known.objects:
                await Encrypting(MemoryStore(known), ANA.alone).create()
            return await super().load(scopes)

    assert (await Encrypting(MadeLater(known), ANA.alone).load()).lineage


async def test_without_recipients_all_passes_as_it_is(tmp_path: Path, clock: SimulatedClock) -> None:
    plain = MemoryState(clock)
    await filled(MemoryStore(plain))
    store = Encrypting(MemoryStore(MemoryState(clock)), Encryption())
    await store.import_(await MemoryStore(plain).export())
    assert await store.load() == await MemoryStore(plain).load()
    with pytest.raises(StoreError, match="no longer ours"):
        await store.check(Lease("me", {"shop": 7}))
    line = b"".join(await left_by_a_runner(await encrypted(clock), tmp_path, clock))
    assert all(kept.sealed for kept in spool_file.decode(line))


async def encrypted(clock: SimulatedClock) -> MemoryState:
    known = MemoryState(clock)
    await Encrypting(MemoryStore(known), ANA.alone).create()
    return known


# --- what a backend writes itself ---


async def test_who_took_a_lock_is_told_by_name(clock: SimulatedClock) -> None:
    @dataclasses.dataclass
    class WithUpkeep(MemoryStore):
        def __init__(self, state: MemoryState) -> None:
            super().__init__(state)

        async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
            note = JournalEntry("", Event.DECIDED, NOON, data={"unlock": scope, "by": by, "alive": force})
            lease = await self.lease([WHOLE_STATE], "me")
            await self.commit(lease, [note])
            await self.release(lease)
            return f"{scope} was taken from {by}"

        async def take_over(self, environment: str, *, by: str) -> bool:
            return (await self.unlock(environment, force=True, by=by)) != ""

    for encryption in (ANA.alone, Encryption()):
        store = Encrypting(WithUpkeep(MemoryState(clock)), encryption)
        await store.create()
        assert await store.unlock("shop", force=True, by="ana") == "shop was taken from ana"
        assert await store.take_over("prod", by="ben")
        said = [found.data["by"] for _, found in await store.journal()]
        assert said == ["ana", "ben"]
        assert await store.holders(["shop"]) == {}


# --- what is spooled ---


async def test_what_was_spooled_is_taken_in_on_another_machine(tmp_path: Path, clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    lines = b"".join(await left_by_a_runner(known, tmp_path, clock))
    assert b"vol_data" not in lines
    other = spooling(known, tmp_path / "other", clock)
    assert await other.ingest(lines, "me") == 1
    state = await other.load()
    assert [each.id for each in state.records.values()] == ["vol_data"]
    assert not state.open_intents


async def test_what_was_spooled_before_a_rekey_still_counts(tmp_path: Path, clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    lines = b"".join(await left_by_a_runner(known, tmp_path, clock))
    for _ in range(2):
        await rekey(known)
    assert await spooling(known, tmp_path / "other", clock).ingest(lines, "me") == 1


async def test_what_no_key_opens_is_told(tmp_path: Path, clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    lines = b"".join(await left_by_a_runner(known, tmp_path, clock))
    for _ in range(9):
        await rekey(known)
    store = spooling(known, tmp_path, clock)
    assert not (await store.load()).spooled
    with pytest.raises(StoreError, match="a key that this state no longer has"):
        await store.ingest(lines, "me")


async def test_what_is_no_outcome_is_refused(tmp_path: Path, clock: SimulatedClock) -> None:
    store = spooling(MemoryState(clock), tmp_path, clock)
    body = b'{"epochs":{}}'
    line = b'{"digest":"%s","commit":%s}\n' % (sha256(body).hexdigest().encode(), body)
    with pytest.raises(ValueError, match="there is no 'put' in it"):
        await store.ingest(line, "me")


async def rekey(known: MemoryState) -> None:
    store = Encrypting(MemoryStore(known), ANA.changing)
    left = await store.raw.export()
    keys, plain = await store.opened_keys(left), await store.plain(left)
    await store.raw.retire("rekey:", left)
    await store.replace(store.sealed(plain, keys))


# --- the key ---


@pytest.mark.parametrize("damaged", ['{"content": "00"}', "[]", "{}"])
async def test_a_key_that_is_none_is_refused_and_not_told(damaged: str) -> None:
    with pytest.raises(StoreError, match="not what was written") as refused:
        envelope.opened(damaged.encode(), lambda data: data)
    assert refused.value.__cause__ is None


def test_no_identity_and_another_one_are_told_apart(tmp_path: Path) -> None:
    text = f"state: {{url: 's3://b/p', encrypt_to: [{ANA.recipient}], identity_from: {{env: ID}}}}"
    (tmp_path / "reconcile.yaml").write_text(text)

    def code(identity: str, data: bytes) -> Sequence[str]:
        config = find_settings(tmp_path, {"ID": identity})
        with pytest.raises(StoreError) as refused:
            encryption_of(config, Opening("s3://b/p")).unwrap(data)
        if isinstance(refused.value, StateSealed):
            return [each.code for each in refused.value.diagnostics]
        return [refused.value.message]

    wrapped = ANA.alone.wrap(b"key")
    assert code("", wrapped) == ["state-encrypted"]
    assert code(BEN.identity, wrapped) == ["state-identity"]
    assert code(ANA.identity, b"key") == [
        "the encrypted state is damaged: its key is not what was written there"
    ]
    (tmp_path / "reconcile.yaml").write_text("state: 's3://b/p'")
    assert code(ANA.identity, wrapped) == ["state-encrypted"]


async def test_the_key_of_another_state_opens_nothing(clock: SimulatedClock) -> None:
    known, other = await encrypted(clock), await encrypted(clock)
    contents = dataclasses.replace(
        await MemoryStore(known).export(), key=(await MemoryStore(other).export()).key
    )
    with pytest.raises(StoreError, match="damaged: its key"):
        await Encrypting(MemoryStore(known), ANA.alone).plain(contents)


# --- pieces ---


def test_names_and_texts_open_only_where_they_belong() -> None:
    token = CIPHER.token("shop")
    assert Cipher(b"k" * KEY_BYTES, "lineage-1").name(token) == "shop"
    assert CIPHER.token("") == CIPHER.name("") == ""
    assert CIPHER.revealed(f"`{token}` and {CIPHER.address(DATA)}") == "`shop` and Volume/shop/data"
    assert OTHER.revealed(token) == token
    for cipher, name in ((OTHER, token), (CIPHER, "shop")):
        with pytest.raises(NotOurs):
            cipher.name(name)
    with pytest.raises(NotOurs):
        CIPHER.open("?", 1)
    text = CIPHER.seal("secret", "entry", "shop")
    assert CIPHER.open(text, "entry", "shop") == "secret"
    with pytest.raises(NotOurs):
        CIPHER.open(text, "entry", "blog")


@pytest.mark.parametrize(
    "address", [Address("Enc", CIPHER.token("shop")), Address("Enc", CIPHER.token(str(DATA)))]
)
def test_an_address_that_was_put_together_is_refused(address: Address) -> None:
    with pytest.raises(NotOurs):
        CIPHER.plain_address(address)


def test_entries_and_records_that_were_put_together_are_refused() -> None:
    run = JournalEntry("r1", Event.RUN_STARTED, NOON, data={"plan": "p1"})
    sealed = seal_entry(CIPHER, run, '{"plan":"p1"}', "shop", PLACE)
    assert open_entry(CIPHER, sealed).entry == run
    kept = seal_record(CIPHER, record(), record_text(), PLACE)
    assert open_record(CIPHER, kept)[0] == record()
    entries = [
        replace(sealed, data={**sealed.data, "plan": CIPHER.token("p2")}),
        replace(sealed, data={**sealed.data, "place": 1}),
        replace(sealed, event=Event.DECIDED),
    ]
    for forged in entries:
        with pytest.raises(NotOurs):
            open_entry(CIPHER, forged)
    records: list[StateRecord] = [replace(kept, id=CIPHER.token("vol_2")), replace(kept, applied={})]
    for other in records:
        with pytest.raises(NotOurs):
            open_record(CIPHER, other)


def record_text() -> str:
    return encode_record(record())


def test_nobody_encrypts_a_state_that_he_could_not_read() -> None:
    def sealed(data: bytes) -> bytes:
        raise StateSealed("not for us")

    ANA.alone.require_readable()
    Encryption().require_readable()
    with pytest.raises(StateSealed) as refused:
        Encryption((BEN.recipient,), lambda data: data, sealed).require_readable()
    (problem,) = refused.value.diagnostics
    assert "--without-me FILE" in (problem.help or "")
