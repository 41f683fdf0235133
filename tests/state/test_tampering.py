"""What somebody changes, takes away or puts back who can write to the place: every verb refuses it.

Each tampering knows the layout of objects, and writes through the place's own bucket, so that tags, counts
and digests of the place fit. Plans and drift load the state, `doctor` verifies it, `history` reads the
journal, `apply` plans and takes a lease. What nobody can tell from the state alone: the whole of it put back,
seen by a machine that never saw the newer one, and a scope put back to a moment of its newest run.
"""

import dataclasses
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from obstore.store import MemoryStore as Objects

from reconciler.core.errors import ReconcilerError, StoreError
from reconciler.core.model import Address
from reconciler.project.copies import bring_back
from reconciler.state.chain import row_hash
from reconciler.state.encryption.bucket import SealedBucket
from reconciler.state.log import segments
from reconciler.state.log.bucket import unsealed
from reconciler.state.log.damage import sealed
from reconciler.state.log.store import LogStore
from reconciler.state.marks import StateOlder
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.objects.bucket import ObstoreBucket
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import LOST_ROWS, Event
from tests.state.encryption.doubles import sealing
from tests.state.postgres.conftest import postgres  # noqa: F401 - a fixture
from tests.state.worlds import SimulatedClock, entry, record

Copy = Mapping[str, bytes]  # all objects of a state, by key, as the place has them
SHOP, BLOG, ROOT = "shop", "blog", "state.json"
RUNS = 3


@dataclasses.dataclass
class Kept:
    """A state in one place. `copies`: as it was when it was made, and after each of its runs.

    `folder`: where it is in files; a file with a broken root is not even opened to be mended.
    """

    folder: Path
    clock: SimulatedClock
    open: Callable[[], LogStore]
    is_sealed: bool
    copies: list[Copy] = dataclasses.field(default_factory=list)
    opened: list[LogStore] = dataclasses.field(default_factory=list)

    def store(self) -> LogStore:
        self.opened.append(self.open())
        return self.opened[-1]

    @property
    def now(self) -> dict[str, bytes]:
        bucket = self.store().bucket.raw
        found = {key: bucket.get(key) for key in bucket.list("base/") if "/leases/" not in key}
        return {key: each.body for key, each in found.items() if each is not None}

    def become(self, copy: Copy) -> None:
        bucket, now = self.store().bucket.raw, self.now
        for key in bucket.list("base/").keys() - copy.keys():
            bucket.delete(key)
        for key, body in copy.items():
            if now.get(key) != body:
                bucket.delete(key)
                bucket.create(key, body)

    async def close(self) -> None:
        while self.opened:
            await self.opened.pop().close()

    def of(self, folder: str, scope: str) -> str:
        """The key, or its begin, of what the place keeps of a scope in one folder."""
        store = self.store()
        key = store._require_state()[0].layout.head(scope)
        bucket = store.bucket
        below = bucket._below(key) if isinstance(bucket, SealedBucket) else key
        return below.replace("/heads/", f"/{folder}/")


async def run(kept: Kept, number: int) -> None:
    """One in both scopes: much is done there, a record changes, and the outcome of a call is not known."""
    store = kept.store()
    lease = await store.lease([BLOG, SHOP], "me")
    there = (await store.load()).records
    for scope in (BLOG, SHOP):
        address = Address("Volume", "data", scope)
        serial = there[address].serial if address in there else 0
        put = record(address, scope=scope, serial=serial, size_gb=number)
        lost = entry(Event.INTENT, f"lost-{scope}-{number}", scope=scope)
        await store.commit(lease.of(scope), [lost], [put])
        for step in range(7):  # four that fill a file each, and three that stay in the head
            done = entry(Event.DONE, f"s{number}-{step}", text="x" * (1000 if step < 4 else 1))
            await store.commit(lease.of(scope), [done])
    await store.release(lease)


PLACES = ["memory", "sqlite", "objects", pytest.param("postgres", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
async def made(
    place: str, is_sealed: bool, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Kept]:
    seal, clock = sealing() if is_sealed else unsealed, SimulatedClock()
    folder = tmp_path_factory.mktemp("kept") / "state"
    folder.mkdir()
    memory, objects = MemoryState(clock), Objects()
    url = request.getfixturevalue("postgres").new().url if place == "postgres" else ""
    opens: Mapping[str, Callable[[], LogStore]] = {
        "memory": lambda: MemoryStore(memory, seal),
        "sqlite": lambda: SqliteStore(folder / "state.db", clock, backups=False),
        "objects": lambda: LogStore(seal(ObstoreBucket("memory://", objects, objects)), clock),
        "postgres": lambda: PostgresStore(url, clock, seal=seal),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "TAIL_BYTES", 900)
        patch.setattr(segments, "BASE_BYTES", 700)
        kept = Kept(folder, clock, opens[place], is_sealed)
        await kept.store().create()
        kept.copies.append(kept.now)
        for number in range(1, RUNS + 1):
            await run(kept, number)
            kept.copies.append(kept.now)
        await kept.close()
        shutil.copytree(folder, folder.with_name("sound"))
        yield kept


@pytest.fixture
async def kept(made: Kept) -> AsyncIterator[Kept]:
    shutil.rmtree(made.folder)
    shutil.copytree(made.folder.with_name("sound"), made.folder)
    made.become(made.copies[RUNS])
    yield made
    await made.close()


# --- tamperings: what the objects become, of a state with its older copies ---

Tampering = Callable[[Kept], Copy]


def head(kept: Kept, scope: str = SHOP) -> str:
    return kept.of("heads", scope)


def under(copy: Copy, prefix: str) -> Copy:
    return {key: body for key, body in copy.items() if key.startswith(prefix)}


def flipped(body: bytes) -> bytes:
    """One bit of its middle is another one."""
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


def with_lines(change: Callable[[list[bytes]], list[bytes]]) -> Tampering:
    """The lines of the head of `shop`: what it says of itself, and its newest changes."""

    def tamper(kept: Kept) -> Copy:
        now = kept.now
        lines = now[head(kept)].splitlines()
        assert len(lines) > 2
        return {**now, head(kept): b"\n".join([*change(lines), b""])}

    return tamper


def with_body(key: Callable[[Kept], str], change: Callable[[bytes], bytes]) -> Tampering:
    """The objects whose key begins so have another body."""

    def tamper(kept: Kept) -> Copy:
        now = kept.now
        chosen = under(now, key(kept))
        assert chosen
        return {**now, **{name: change(body) for name, body in chosen.items()}}

    return tamper


def without(*keys: Callable[[Kept], str]) -> Tampering:
    """Objects whose keys begin so are not there."""

    def tamper(kept: Kept) -> Copy:
        now, begins = kept.now, tuple(key(kept) for key in keys)
        left = {key: body for key, body in now.items() if not key.startswith(begins)}
        assert left.keys() != now.keys()
        return left

    return tamper


def put_back(number: int, *keys: Callable[[Kept], str]) -> Tampering:
    """Objects whose keys begin so are what they were after that run."""

    def tamper(kept: Kept) -> Copy:
        begins = tuple(key(kept) for key in keys)
        rest = {key: body for key, body in kept.now.items() if not key.startswith(begins)}
        older = {key: body for key, body in kept.copies[number].items() if key.startswith(begins)}
        return {**rest, **older}

    return tamper


def of_the_other_scope(folder: str) -> Tampering:
    """The objects of `blog` stand in the places of those of `shop`."""

    def tamper(kept: Kept) -> Copy:
        now, ours, theirs = kept.now, kept.of(folder, SHOP), kept.of(folder, BLOG)
        mine, other = sorted(under(now, ours)), sorted(under(now, theirs))
        assert mine
        return {**now, **{key: now[from_] for key, from_ in zip(mine, other, strict=False)}}

    return tamper


def unnamed(kept: Kept) -> Copy:
    """A head that no root names."""
    now = kept.now
    return {**now, f"{head(kept)}2": now[head(kept)]}


def root(kept: Kept) -> str:
    return f"base/{ROOT}"


def at(folder: str, scope: str = SHOP) -> Callable[[Kept], str]:
    return lambda kept: kept.of(folder, scope) + ("" if folder == "heads" else "/")


def older_first_line(kept: Kept) -> Copy:
    """What the head says of itself is older than its changes."""
    now = kept.now
    before = kept.copies[RUNS - 1][head(kept)].splitlines()[0]
    return {**now, head(kept): b"\n".join([before, *now[head(kept)].splitlines()[1:], b""])}


TAMPERINGS: Mapping[str, Tampering] = {
    "the head is gone": without(at("heads")),
    "the head is empty": with_body(at("heads"), lambda body: b""),
    "the head is cut off": with_body(at("heads"), lambda body: body[: len(body) // 2]),
    "one bit of the head": with_body(at("heads"), flipped),
    "the newest change is gone": with_lines(lambda lines: lines[:-1]),
    "an older change is gone": with_lines(lambda lines: [lines[0], *lines[2:]]),
    "all newest changes are gone": with_lines(lambda lines: lines[:1]),
    "a change comes twice": with_lines(lambda lines: [*lines, lines[-1]]),
    "changes in another order": with_lines(lambda lines: [lines[0], *reversed(lines[1:])]),
    "one bit of a change": with_lines(lambda lines: [*lines[:-1], flipped(lines[-1])]),
    "no first line": with_lines(lambda lines: lines[1:]),
    "an older first line": older_first_line,
    "the head of another scope": of_the_other_scope("heads"),
    "a head that nobody named": unnamed,
    "the records are gone": without(at("base")),
    "one bit of the records": with_body(at("base"), flipped),
    "the records of another scope": of_the_other_scope("base"),
    "nothing of a scope is left": without(at("heads"), at("base"), at("journal")),
    "nothing of all scopes is left": without(lambda kept: kept.of("heads", "").rpartition("/heads/")[0]),
    "a scope as it was a run ago": put_back(RUNS - 1, at("heads"), at("base"), at("journal")),
    "a scope as it was at first": put_back(1, at("heads"), at("base"), at("journal")),
    "a head as it was a run ago": put_back(RUNS - 1, at("heads")),
    "the root is gone": without(root),
    "the root is empty": with_body(root, lambda body: b""),
    "the root is cut off": with_body(root, lambda body: body[: len(body) // 2]),
    "one bit of the root": with_body(root, flipped),
    "a root from before the scopes": put_back(0, root),
    "a root as it was a run ago": put_back(RUNS - 1, root),
    "a root and a scope as they were a run ago": put_back(
        RUNS - 1, root, at("heads"), at("base"), at("journal")
    ),
}
IN_THE_JOURNAL: Mapping[str, Tampering] = {  # which only `history` and `doctor` read: no record is in it
    "an old file of changes is gone": without(at("journal")),
    "one bit of old changes": with_body(at("journal"), flipped),
    "old changes of another scope": of_the_other_scope("journal"),
}


def made_anew(**said: object) -> Tampering:
    """The head of a plain state says something else, with a digest that fits: no key is needed for it."""

    def tamper(kept: Kept) -> Copy:
        now = kept.now
        first, *rest = now[head(kept)].splitlines()
        fields = {name: value for name, value in json.loads(first).items() if name != "sha256"} | said
        return {**now, head(kept): b"\n".join([json.dumps(sealed(fields)).encode(), *rest, b""])}

    return tamper


def with_an_unknown_event(kept: Kept) -> Copy:
    """The newest row has another event, and all hashes that follow from it."""
    now = kept.now
    first, *changes = now[head(kept)].splitlines()
    line = json.loads(changes[-1])
    fields = {name: value for name, value in json.loads(first).items() if name != "sha256"}
    before = json.loads(changes[-2])["rows"][-1][-1]
    columns = [line["rows"][-1][0], "done", *line["rows"][-1][2:-1]]
    hash = row_hash(before, fields["seq"], columns[:-1], columns[-1].encode(), SHOP)
    line["rows"][-1] = [*columns, hash]
    fields["hash"] = hash
    lines = [json.dumps(sealed(fields)).encode(), *changes[:-1], json.dumps(line).encode(), b""]
    return {**now, head(kept): b"\n".join(lines)}


MADE_ANEW: Mapping[str, Tampering] = {
    "another number of records": made_anew(records=7),
    "another sum of records": made_anew(sum="1"),
    "another number of rows": made_anew(seq=3),
    "another end of the chain": made_anew(hash="0" * 64),
    "another serial": made_anew(record_serial=77),
    "other changes": made_anew(changes=2),
    "no files": made_anew(base=None, segments=[]),
    "a newer program": made_anew(format=99),
    "a scope of another state": made_anew(lineage="another"),
    "an event that nobody knows": with_an_unknown_event,
}


async def refusals(kept: Kept, folder: Path) -> dict[str, str]:
    """By verb, what it says; "" where it goes on as if nothing was."""

    def open_one() -> Spooling:
        return Spooling(kept.store(), folder / "spool", kept.clock)

    async def loaded() -> None:
        """As plans do: where a state was, its traces are an error."""
        if not (state := await open_one().load()).lineage and state.traces:
            raise StoreError(f"there was a state: {state.traces[0]}")

    async def applied() -> None:
        await loaded()  # what is applied was planned
        await open_one().lease([SHOP], "me")

    asked: Mapping[str, Callable[[], Awaitable[object]]] = {
        "plan": loaded,
        "history": lambda: open_one().journal(),
        "doctor": lambda: kept.store().verify(),
        "apply": applied,
    }
    said = dict.fromkeys(asked, "")
    for verb, ask in asked.items():
        try:
            await ask()
        except ReconcilerError as refused:
            said[verb] = refused.message
    return said


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"], scope="module")
@pytest.mark.parametrize("what", TAMPERINGS)
async def test_every_verb_refuses_it(kept: Kept, what: str, tmp_path: Path) -> None:
    kept.become(TAMPERINGS[what](kept))
    said = await refusals(kept, tmp_path)
    assert all(said.values()), said


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"], scope="module")
@pytest.mark.parametrize("what", IN_THE_JOURNAL)
async def test_old_changes_are_found_by_who_reads_them(kept: Kept, what: str, tmp_path: Path) -> None:
    kept.become(IN_THE_JOURNAL[what](kept))
    said = await refusals(kept, tmp_path)
    assert (bool(said["history"]), bool(said["doctor"])) == (True, True)


@pytest.mark.parametrize("is_sealed", [False], ids=["plain"], scope="module")
@pytest.mark.parametrize("what", MADE_ANEW)
async def test_a_head_that_was_made_anew_must_fit_its_journal_and_records(
    kept: Kept, what: str, tmp_path: Path
) -> None:
    kept.become(MADE_ANEW[what](kept))
    said = await refusals(kept, tmp_path)
    assert all(said.values()), said


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"], scope="module")
async def test_what_nobody_can_tell_is_the_whole_state_put_back(kept: Kept, tmp_path: Path) -> None:
    """A machine that saw the newer one can (test_marks.py)."""
    assert not any((await refusals(kept, tmp_path)).values())
    kept.become(kept.copies[1])
    assert not any((await refusals(kept, tmp_path)).values())


@pytest.mark.parametrize("is_sealed", [False], ids=["plain"], scope="module")
@pytest.mark.parametrize("what", ["scope", "root"])
async def test_a_person_goes_on_with_what_was_put_back(kept: Kept, what: str, tmp_path: Path) -> None:
    keys = [root] if what == "root" else [at("heads"), at("base"), at("journal")]
    kept.become(put_back(RUNS - 1, *keys)(kept))
    store = Spooling(kept.store(), tmp_path / "spool", kept.clock)
    with pytest.raises(StateOlder) as refused:
        await store.load()
    assert refused.value.diagnostics[0].code == "state-incomplete"
    assert "put back in part" in (await bring_back(store, None, "", kept.clock, "ana")).lost
    state = await Spooling(kept.store(), tmp_path / "spool", kept.clock).load()
    assert [entry.data["unclaimed"] for entry in state.unclaimed] == [LOST_ROWS]
