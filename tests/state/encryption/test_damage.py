"""What somebody did to the store who can write there, and has no key."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.contents import Contents, Row
from reconciler.state.encryption.contents import rewritten
from reconciler.state.encryption.store import Encrypting
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import Event
from tests.state.doubles import rewrite_root
from tests.state.encryption.doubles import ANA, BEN
from tests.state.moving import filled
from tests.state.worlds import DATA, SimulatedClock, entry, record

pytestmark = pytest.mark.anyio

LOGS = Address("Volume", "logs", "shop")


async def written(clock: SimulatedClock) -> tuple[MemoryState, Encrypting]:
    known = MemoryState(clock)
    store = Encrypting(MemoryStore(known), ANA.alone)
    await store.create()
    for run in ("r1", "r2"):
        lease = await store.lease(["blog", "shop"], "me")
        there = (await store.load()).records
        size = 10 if run == "r1" else 20
        put = [
            replace(record(at, size_gb=size), serial=there[at].serial if at in there else 0)
            for at in (DATA, LOGS)
        ]
        await store.commit(lease.of("shop"), [entry(Event.INTENT, run=run)])
        await store.commit(lease.of("shop"), [entry(Event.DONE, run=run)], put)
        await store.commit(lease.of("blog"), [entry(Event.INTENT, "s2", run=run)])
        await store.release(lease)
    return known, store


async def forged(known: MemoryState, change: Callable[[Contents], Contents]) -> Encrypting:
    """A store with changed contents, whose chains and digests fit all the same: they need no key."""
    contents = change(await MemoryStore(known).export())
    whole = rewritten(
        contents,
        contents.key,
        str,
        lambda row: row.columns,
        lambda address, body: (replace(record(address), serial=body.serial), body.text),
    )
    other = MemoryState(known.clock)
    await MemoryStore(other).import_(whole)
    return Encrypting(MemoryStore(other), ANA.alone)


def swapped(contents: Contents) -> Contents:
    """Two records have each other's body."""
    one, other = contents.records
    return dataclasses.replace(contents, records={one: contents.records[other], other: contents.records[one]})


def moved(number: int, to: int) -> Callable[[Contents], Contents]:
    """The data of one row stand in another one."""

    def change(contents: Contents) -> Contents:
        rows = list(contents.rows)
        rows[to] = replace(rows[to], columns=(*rows[to].columns[:-1], rows[number].columns[-1]))
        return dataclasses.replace(contents, rows=tuple(rows))

    return change


def replayed(contents: Contents) -> Contents:
    """The oldest row of a scope comes once more, at its end."""
    first = next(row for row in contents.rows if row.scope == contents.rows[0].scope)
    again = Row(first.scope, contents.heads[first.scope].seq + 1, first.columns, "")
    head = replace(contents.heads[first.scope], seq=again.seq)
    return dataclasses.replace(
        contents, rows=(*contents.rows, again), heads={**contents.heads, first.scope: head}
    )


def turned(contents: Contents) -> Contents:
    """The rows of one scope come in another order."""
    rows = list(contents.rows)
    mine = [number for number, row in enumerate(rows) if row.scope == rows[0].scope]
    columns = [rows[number].columns for number in reversed(mine)]
    for number, each in zip(mine, columns, strict=True):
        rows[number] = replace(rows[number], columns=each)
    return dataclasses.replace(contents, rows=tuple(rows))


CHANGES: dict[str, Any] = {
    "swapped records": swapped,
    "data of another row": moved(0, 3),
    "data of another scope": moved(2, 5),
    "a row comes again": replayed,
    "rows in another order": turned,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_piece_in_the_place_of_another_is_refused_as_damage(
    clock: SimulatedClock, change: Callable[[Contents], Contents]
) -> None:
    known, _ = await written(clock)
    await (await forged(known, lambda contents: contents)).export()
    with pytest.raises(StoreError, match=r"the encrypted state is damaged|has already started"):
        await (await forged(known, change)).export()


async def test_a_row_with_an_event_that_nobody_knows_is_refused_as_damage(clock: SimulatedClock) -> None:
    known, store = await written(clock)
    contents = await MemoryStore(known).export()
    run, _, *rest = contents.rows[0].columns
    row = replace(contents.rows[0], columns=(run, "done", *rest))
    with pytest.raises(StoreError, match="the encrypted state is damaged: a journal entry"):
        await store.plain(dataclasses.replace(contents, rows=(row, *contents.rows[1:])))


async def test_an_older_version_of_a_record_is_found(clock: SimulatedClock) -> None:
    known, store = await written(clock)
    older = await MemoryStore(known).export()
    lease = await store.lease(["shop"], "me")
    now = (await store.load()).records[DATA]
    await store.commit(lease, [entry(Event.DECIDED, run="r3")], [replace(now, applied={"size_gb": 30})])
    new = await MemoryStore(known).export()
    (address,) = [each for each in new.records if new.records[each] != older.records[each]]
    again = await forged(
        known,
        lambda contents: dataclasses.replace(
            contents, records={**contents.records, address: older.records[address]}
        ),
    )
    with pytest.raises(StoreError, match="a record is not what was written"):
        await again.export()


async def test_the_key_of_another_state_opens_nothing(clock: SimulatedClock) -> None:
    known, _ = await written(clock)
    other, _ = await written(clock)
    key = (await MemoryStore(other).export()).key
    rewrite_root(known, lambda root: replace(root, key=key))
    with pytest.raises(StoreError, match="the encrypted state is damaged"):
        await Encrypting(MemoryStore(known), ANA.alone).load()
    rewrite_root(known, lambda root: replace(root, key=root.key[:-30]))
    with pytest.raises(Exception, match="damaged"):
        await Encrypting(MemoryStore(known), ANA.alone).load()


async def test_a_note_of_a_backend_may_not_decide_anything(clock: SimulatedClock) -> None:
    known, _ = await written(clock)
    backend = MemoryStore(known)
    lease = await backend.lease([next(iter((await backend.load()).heads))], "somebody")
    await backend.commit(
        lease, [replace(entry(Event.DECIDED, run="", claimed="vol_9"), address=None, step="")]
    )
    with pytest.raises(StoreError, match="damaged"):
        await Encrypting(backend, ANA.alone).journal()


async def test_recipients_that_differ_are_told_once(clock: SimulatedClock) -> None:
    known, told = MemoryState(clock), list[str]()
    await filled(Encrypting(MemoryStore(known), ANA.alone))
    store = Encrypting(MemoryStore(known), ANA.reads(ANA.recipient, BEN.recipient), tell=told.append)
    await store.load()
    await store.load()
    (message,) = told
    assert "`reconcile state rekey`" in message
