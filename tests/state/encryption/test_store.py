"""What an encrypted state does beside the contract of all states: keys, what is spooled, older programs."""

import dataclasses
import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.core.errors import StateSealed, StoreError
from reconciler.core.model import LONG_AGO, Address, Lifecycle, StateRecord
from reconciler.project.copies import backup, restore
from reconciler.project.settings import find_settings
from reconciler.project.store import Opening, encryption_of
from reconciler.secrets.age import NotForUs
from reconciler.state import spool_file
from reconciler.state.codec import decode_entry, decode_record, encode_entry, encode_record
from reconciler.state.contents import Body, StateDump, chained
from reconciler.state.encryption import older
from reconciler.state.encryption.bucket import Encryption
from reconciler.state.encryption.cipher import KEY_BYTES, Cipher, Keys, NotOurs
from reconciler.state.log.bucket import Layout
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import Event
from tests.state.encryption.doubles import ANA, BEN, in_memory, spooling
from tests.state.moving import filled
from tests.state.worlds import SimulatedClock, entry, record

CIPHER, OTHER = Cipher(b"k" * KEY_BYTES, "lineage-1"), Cipher(b"k" * KEY_BYTES, "lineage-2")


async def encrypted(clock: SimulatedClock) -> MemoryState:
    known = MemoryState(clock)
    await in_memory(known).create()
    return known


async def left_by_a_runner(known: MemoryState, folder: Path, clock: SimulatedClock) -> list[bytes]:
    store = spooling(in_memory(known), folder, clock)
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)])
    await store.spool(lease, [entry(Event.DONE)], [record()])
    await store.release(lease)
    return await store.spooled()


async def rekey(known: MemoryState) -> None:
    store = in_memory(known, ANA.changing)
    contents = await store.export()
    await store.retire("rekey:", contents)
    await store.import_(contents)


# --- whose state it is ---


async def test_a_plain_state_that_another_makes_meanwhile_is_refused(clock: SimulatedClock) -> None:
    known = MemoryState(clock)
    store = in_memory(known)
    assert (await store.load()).lineage == ""
    await MemoryStore(known).create()
    with pytest.raises(StateSealed):
        await store.load()


async def test_without_recipients_all_passes_as_it_is(tmp_path: Path, clock: SimulatedClock) -> None:
    plain, other = MemoryState(clock), MemoryState(clock)
    await filled(MemoryStore(plain))
    store = in_memory(other, Encryption())
    await store.import_(await MemoryStore(plain).export())
    assert await MemoryStore(other).load() == await store.load() == await MemoryStore(plain).load()
    line = b"".join(await left_by_a_runner(await encrypted(clock), tmp_path, clock))
    assert all(kept.sealed for kept in spool_file.decode(line))


def test_nobody_encrypts_a_state_that_he_could_not_read() -> None:
    def refused(data: bytes) -> bytes:
        raise StateSealed("not for us")

    ANA.alone.require_readable()
    Encryption().require_readable()
    with pytest.raises(StateSealed) as refusal:
        Encryption((BEN.recipient,), lambda data: data, refused).require_readable()
    (problem,) = refusal.value.diagnostics
    assert "--without-me FILE" in (problem.help or "")


async def test_recipients_that_differ_are_told_once(clock: SimulatedClock) -> None:
    known, told = await encrypted(clock), list[str]()
    store = in_memory(known, ANA.reads(ANA.recipient, BEN.recipient))
    store.bucket._tell = told.append  # type: ignore[attr-defined]
    await store.load()
    await store.load()
    (message,) = told
    assert "`reconcile state rekey`" in message


# --- what is spooled ---


async def test_what_was_spooled_is_taken_in_on_another_machine(tmp_path: Path, clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    lines = b"".join(await left_by_a_runner(known, tmp_path, clock))
    assert b"vol_data" not in lines
    other = spooling(in_memory(known), tmp_path / "other", clock)
    assert await other.ingest(lines, "me") == 1
    state = await other.load()
    assert [record.id for record in state.records.values()] == ["vol_data"]
    assert not state.open_intents


async def test_what_was_spooled_before_a_rekey_still_counts(tmp_path: Path, clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    lines = b"".join(await left_by_a_runner(known, tmp_path, clock))
    for _ in range(2):
        await rekey(known)
    assert await spooling(in_memory(known), tmp_path / "other", clock).ingest(lines, "me") == 1


async def test_what_no_key_opens_is_told(tmp_path: Path, clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    lines = b"".join(await left_by_a_runner(known, tmp_path, clock))
    for _ in range(9):
        await rekey(known)
    store = spooling(in_memory(known), tmp_path, clock)
    assert not (await store.load()).spooled
    with pytest.raises(StoreError, match="a key that this state no longer has"):
        await store.ingest(lines, "me")


async def test_what_is_no_outcome_is_refused(tmp_path: Path, clock: SimulatedClock) -> None:
    store = spooling(in_memory(MemoryState(clock)), tmp_path, clock)
    body = b'{"epochs":{}}'
    line = b'{"digest":"%s","commit":%s}\n' % (sha256(body).hexdigest().encode(), body)
    with pytest.raises(ValueError, match="there is no 'put' in it"):
        await store.ingest(line, "me")


# --- the key ---


@pytest.mark.parametrize("damaged", ['{"content": "00"}', "[]", "{}"])
async def test_a_key_that_is_none_is_refused_and_not_told(damaged: str) -> None:
    with pytest.raises(StoreError, match="not what was written") as refused:
        Keys.opened(damaged.encode(), lambda data: data)
    assert refused.value.__cause__ is None


def test_no_identity_and_another_one_are_told_apart(tmp_path: Path) -> None:
    text = f"state: {{url: 's3://b/p', encrypt_to: [{ANA.recipient}], identity_from: {{env: ID}}}}"
    (tmp_path / "reconcile.yaml").write_text(text)

    def code(identity: str, data: bytes) -> Sequence[str]:
        config = find_settings(tmp_path, {"ID": identity})
        with pytest.raises(StoreError) as refused:
            encryption_of(config, Opening("s3://b/p")).unwrap(data)
        if isinstance(refused.value, StateSealed):
            return [problem.code for problem in refused.value.diagnostics]
        return [refused.value.message]

    wrapped = ANA.alone.wrap(b"key")
    assert code("", wrapped) == ["state-encrypted"]
    assert code(BEN.identity, wrapped) == ["state-identity"]
    assert code(ANA.identity, b"key") == [
        "the encrypted state is damaged: its key is not what was written there"
    ]
    (tmp_path / "reconcile.yaml").write_text("state: 's3://b/p'")
    assert code(ANA.identity, wrapped) == ["state-encrypted"]


def test_names_and_texts_open_only_where_they_belong() -> None:
    token = CIPHER.token("shop")
    assert Cipher(b"k" * KEY_BYTES, "lineage-1").name(token) == "shop"
    for cipher, name in ((OTHER, token), (CIPHER, "shop")):
        with pytest.raises(NotOurs):
            cipher.name(name)
    with pytest.raises(NotOurs):
        CIPHER.open_text("?", "heads")
    text = CIPHER.seal_text("secret", "heads", "shop")
    assert CIPHER.open_text(text, "heads", "shop") == "secret"
    with pytest.raises(NotOurs):
        CIPHER.open_text(text, "heads", "blog")


# --- copies ---


async def test_a_backup_of_an_encrypted_state_is_encrypted_too(tmp_path: Path, clock: SimulatedClock) -> None:
    here, there = in_memory(MemoryState(clock)), in_memory(MemoryState(clock))
    await filled(here)
    file = await backup(here, tmp_path / "backup.db", clock)
    before = await here.load()
    content = file.read_bytes()
    assert [name for name in map(str, before.records) if name.encode() in content] == []
    with pytest.raises(NotForUs):
        await restore(in_memory(MemoryState(clock), BEN.alone), file, "", clock, "ben")
    await restore(there, file, "", clock, "ana")
    assert (await there.load()).records == before.records
    assert await there.fingerprint_key() == await here.fingerprint_key()


async def test_without_recipients_an_encrypted_state_is_refused(clock: SimulatedClock) -> None:
    known = await encrypted(clock)
    with pytest.raises(StateSealed):
        await in_memory(known, Encryption()).load()


@pytest.mark.parametrize(("field", "problem"), [("lineage", "its key"), ("sealed", "`state.json`")])
async def test_a_root_with_another_field_is_damage(clock: SimulatedClock, field: str, problem: str) -> None:
    known = await encrypted(clock)
    bucket, root = in_memory(known).bucket.raw, Layout("").root
    found = bucket.get(root)
    assert found is not None
    bucket.replace(root, found.body.replace(f'"{field}": "'.encode(), f'"{field}": "0'.encode()), found.tag)
    with pytest.raises(StoreError, match=f"damaged: {problem}"):
        await in_memory(known).load()


# --- states that an older program encrypted ---


def as_an_older_program(contents: StateDump) -> StateDump:
    """Encrypted to Ana as programs did that sealed each entry and each record."""
    cipher = Cipher(b"o" * KEY_BYTES, contents.lineage)
    keys = {"content": (b"o" * KEY_BYTES).hex(), "fingerprint": contents.key.hex()}
    text = json.dumps(keys | {"lineage": contents.lineage})

    def token(name: str) -> str:
        return cipher.token(name) if name else ""

    def address(plain: Address) -> Address:
        return Address("Encaaaaaaaaaaaaaaaa", cipher.token(str(plain)))

    rows = []
    for row in contents.rows:
        found = decode_entry(row.columns)
        place, about = [1, row.seq, 0], [str(found.address)] if found.address else []
        enc = cipher.seal_text(row.columns[-1], "entry", row.scope, place, list(row.columns[:-1]), about)
        data = {"enc": enc, "in": token(row.scope), "place": place, "about": list(map(token, about))}
        at = None if found.address is None else address(found.address)
        sealed = replace(found, run=token(found.run), step=token(found.step), address=at, data=data)
        rows.append((token(row.scope), encode_entry(sealed)))
    note = entry(Event.DECIDED, "", run="", unlock=token("shop"), by=token("ana"))
    rows.append((token("shop"), encode_entry(replace(note, address=None))))
    records = {}
    for plain, body in contents.records.items():
        kept = decode_record(plain, body.serial, body.text.encode())
        enc = cipher.seal_text(body.text, "record", str(plain), [1, body.serial, 0])
        applied = {"enc": enc, "place": [1, body.serial, 0]}
        scope, id = token(kept.scope), token(kept.id)
        sealed_record = StateRecord(address(plain), id, scope, applied, Lifecycle(), LONG_AGO, "")
        records[address(plain)] = Body(body.serial, encode_record(sealed_record))
    chain = tuple(chained(contents.lineage, rows))
    ends = {row.scope: row for row in chain}
    heads = {
        token(scope): replace(head, seq=ends[token(scope)].seq, hash=ends[token(scope)].hash)
        if token(scope) in ends
        else head
        for scope, head in contents.heads.items()
    }
    key = older.MAGIC + ANA.alone.wrap(text.encode())
    return dataclasses.replace(contents, key=key, rows=chain, records=records, heads=heads)


async def test_a_state_that_an_older_program_encrypted_is_read_once_as_a_whole(clock: SimulatedClock) -> None:
    plain, known = MemoryState(clock), MemoryState(clock)
    await filled(MemoryStore(plain))
    contents = await MemoryStore(plain).export()
    before = as_an_older_program(contents)
    await MemoryStore(known).import_(before)
    with pytest.raises(StateSealed) as refused:
        await in_memory(known).load()
    assert "reconcile state rekey" in (refused.value.diagnostics[0].help or "")
    found = older.opened(await in_memory(known, ANA.changing).export(), ANA.alone.unwrap)
    noted = [row for row in found.rows if row.columns[0] == "" and "unlock" in row.columns[-1]]
    assert [json.loads(row.columns[-1])["by"] for row in noted] == ["ana"]
    rest = [row for row in found.rows if row not in noted]
    assert (set(rest), found.records, found.key) == (set(contents.rows), contents.records, contents.key)
    assert older.opened(contents, ANA.alone.unwrap) is contents
    one, other = list(before.records)[:2]
    swapped = {one: before.records[other], other: before.records[one]}
    forged = dataclasses.replace(before, records={**before.records, **swapped})
    with pytest.raises(StoreError, match="the encrypted state is damaged"):
        older.opened(forged, ANA.alone.unwrap)
    with pytest.raises(StoreError, match="damaged: its key"):
        older.opened(dataclasses.replace(before, lineage="another"), ANA.alone.unwrap)
    emptied = dataclasses.replace(before, records={one: Body(1, "{}")})
    first = next(row for row in before.rows if "enc" in json.loads(row.columns[-1]))
    strange = replace(first, scope=next(row.scope for row in before.rows if row.scope != first.scope))
    for changed in (emptied, dataclasses.replace(before, rows=(strange,))):
        with pytest.raises(StoreError, match="damaged: a journal entry"):
            older.opened(changed, ANA.alone.unwrap)
    assert b64encode(older.MAGIC[:24]) in b64encode(before.key)
