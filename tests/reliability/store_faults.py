"""Torn writes, full disks and flipped bits: `python -m tests.reliability.store_faults`.

Torn: the files as they were after an acknowledged commit, with any part of what the next write changed,
cut at any byte, sector by sector, or garbled. Full: a child whose files may not grow beyond a byte
budget. Flips: one bit of a live row, or of the fingerprint key. A violation is an acknowledged intent or
outcome that is neither shown nor named as damaged; a flip that goes unseen; a restore that loses something.
`--state objects`: see `object_faults`.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import anyio

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.log import segments
from reconciler.state.places.sqlite.files import spool_path
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, State
from tests.reliability import object_faults
from tests.reliability.proof import SHELF, Tally
from tests.state.worlds import NOON, SimulatedClock, entry, record

SCOPE = "shop"
SECTOR, PIECE = 512, 64
STEPS = 24


@dataclass(frozen=True)
class Acknowledged:
    """What the store has promised to remember."""

    intents: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()

    def lost(self, state: State) -> list[str]:
        """Intents that are neither open nor closed, and outcomes without their record."""
        opened = {intent.step for intent in state.open_intents}
        recorded = {address.name for address in state.records}
        forgotten = [step for step in self.intents - self.outcomes if step not in opened | recorded]
        reopened = [step for step in self.outcomes if step in opened or step not in recorded]
        return sorted(forgotten + reopened)


Image = dict[str, bytes]
DURABLE = ("state.db", "state.db-wal", "state.db.key", "state.db.spool")


def image(folder: Path) -> Image:
    names = (*DURABLE, "state.db.seen")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def lay_out(files: Image, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "state.db"


def volume(step: str) -> Address:
    return Address("Volume", step, SCOPE)


def opened(path: Path, *, backups: bool = False) -> tuple[SqliteStore, Spooling]:
    """The state, and the store that spools what it cannot take."""
    clock = SimulatedClock()
    inner = SqliteStore(path, clock, backups=backups)
    return inner, Spooling(inner, spool_path(path), clock)


async def load(path: Path) -> State:
    inner, store = opened(path)
    try:
        state = await store.load()
        await inner.verify()
        return state
    finally:
        await store.close()


# --- torn writes and unsynced tails ---


async def history(folder: Path) -> list[tuple[Image, Image, Acknowledged]]:
    """Pairs of images: before and after one write; with what was acknowledged before it."""
    inner, store = opened(folder / "state.db")
    await store.create()
    lease = await store.lease([SCOPE], "holder")
    pairs, known, before = [], Acknowledged(), image(folder)

    def wrote(now: Acknowledged) -> None:
        nonlocal before, known
        after = image(folder)
        pairs.append((before, after, known))
        before, known = after, now

    for number in range(STEPS):
        step = f"s{number}"
        await store.commit(lease, [entry(Event.INTENT, step, text="x" * (number * 97 % 1500))])
        wrote(Acknowledged(known.intents | {step}, known.outcomes))
        done = [entry(Event.DONE, step)], [record(volume(step))]
        if number % 5 == 4:
            await store.spool(lease, *done)
        else:
            await store.commit(lease, *done)
        wrote(Acknowledged(known.intents, known.outcomes | {step}))
        if number % 8 == 7:
            assert inner._file._writing is not None
            # The WAL's frames go to the database, and stay; the next commit begins to overwrite them.
            inner._file._writing.execute("PRAGMA wal_checkpoint(FULL)")
            wrote(known)
    await store.close()
    return pairs


def torn(before: Image, after: Image, random: random.Random) -> tuple[str, Image]:
    """What a disk may hold when the power fails during the write, and how that came about."""
    how = random.choice(["cut", "sectors", "garbled"])
    files = dict(before)
    for name in DURABLE:
        if name not in after or after[name] == before.get(name):
            continue
        old, new = before.get(name, b""), after[name]
        first = next(
            (at for at in range(min(len(old), len(new))) if old[at] != new[at]), min(len(old), len(new))
        )
        size = max(len(old), len(new))
        if how == "cut":
            end = random.randint(first, len(new))
            files[name] = new[:end] + old[end:]
            continue
        content = bytearray(old.ljust(size, b"\0"))
        for sector in range(first // SECTOR, size // SECTOR + 1):
            begin, end = max(first, sector * SECTOR), min(len(new), (sector + 1) * SECTOR)
            if random.random() < 0.5 and new[begin:end] != old[begin:end]:
                content[begin:end] = new[begin:end]
        if how == "garbled":
            at = random.randrange(first, size)
            if new[at : at + 1] != old[at : at + 1]:
                content[at] = random.randrange(256)
        files[name] = bytes(content[: random.choice([len(old), size])])
    files.pop("state.db.seen", None)
    seen = random.choice([before.get("state.db.seen"), after.get("state.db.seen", b"")[:200], None])
    return how, (files if seen is None else files | {"state.db.seen": seen})


async def torn_writes(count: int, seed: int, folder: Path, tally: Tally) -> None:
    pairs = await history(folder / "history")
    chance = random.Random(seed)
    for number in range(count):
        before, after, known = pairs[number % len(pairs)]
        how, files = torn(before, after, chance)
        path = lay_out(files, folder / "torn")
        try:
            lost = known.lost(await load(path))
        except StoreError as failure:
            tally.counts[f"torn, {how}: damage named"] += 1
            if "damaged" not in failure.message:
                tally.violations.append(f"torn {number}: {failure.message}")
        else:
            tally.counts[f"torn, {how}: loads"] += 1
            if lost:
                tally.violations.append(f"torn {number} ({how}): lost {lost}")


# --- full disks ---


async def take_over(path: Path) -> State:
    """The state after the next lease took in what was spooled; made now if the disk was full for that."""
    inner, store = opened(path)
    try:
        await store.create()
        await store.lease([SCOPE], "next")
        await inner.verify()
        return await store.load()
    finally:
        await store.close()


async def until_full(path: Path, pipe: int) -> None:
    """Intents and outcomes, each told to `pipe` once it is acknowledged, until one cannot be stored."""

    def tell(line: str) -> None:
        os.write(pipe, f"{line}\n".encode())

    _, store = opened(path)
    await store.create()
    lease = await store.lease([SCOPE], "holder")
    for number in range(STEPS):
        steps = [f"s{number}-{branch}" for branch in range(1 + number % 3)]
        intents = [entry(Event.INTENT, step, text="x" * 700) for step in steps]
        await store.commit(lease, intents)
        for step in steps:
            tell(f"intent {step}")
        full = False
        for step in steps:
            done = [entry(Event.DONE, step, text="y" * (number * 131 % 900))], [record(volume(step))]
            try:
                await store.commit(lease, *done)
                tell(f"outcome {step}")
            except StoreError:
                full = True
                try:
                    await store.spool(lease, *done)
                    tell(f"spooled {step}")
                except StoreError:
                    tell(f"unrecorded {step}")
        if full:
            return


def run_with_budget(path: Path, budget: int) -> list[str]:
    """What a child acknowledged whose files may hold `budget` bytes each."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (budget, budget))
            tempfile.tempdir = str(path.parent)
            anyio.run(until_full, path, writing)
            code = 0
        except StoreError:
            code = 0
        finally:
            os._exit(code)  # without a release: as if it were killed
    os.close(writing)
    with os.fdopen(reading) as lines:
        told = lines.read().splitlines()
    _, status = os.waitpid(child, 0)
    return [*told, f"exit {os.waitstatus_to_exitcode(status)}"]


def full_disks(count: int, seed: int, folder: Path, tally: Tally) -> None:
    chance = random.Random(seed)
    (folder / "temporary").mkdir(exist_ok=True)
    for number in range(count):
        # The WAL of a whole history needs about 400 kB; the reserve takes the first 64.
        budget = 4096 * 16 + chance.randrange(400_000) if number % 8 else chance.randrange(70_000)
        path = folder / "full" / "state.db"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        told = run_with_budget(path, budget)
        said = Counter(line.split()[0] for line in told)
        known = Acknowledged(
            frozenset(line.split()[1] for line in told if line.startswith("intent")),
            frozenset(line.split()[1] for line in told if line.startswith(("outcome", "spooled"))),
        )
        if told[-1] != "exit 0":
            tally.violations.append(f"full {number}: with {budget} bytes the child failed")
        ended = next((word for word in ("unrecorded", "spooled") if said[word]), "before a call")
        tally.counts[f"full: {'no limit met' if said['intent'] == 48 else ended}"] += 1
        tempfile.tempdir = str(path.parent)
        try:
            lost = known.lost(anyio.run(load, path)) + known.lost(anyio.run(take_over, path))
        except StoreError as failure:
            tally.violations.append(f"full {number} ({budget}): {failure.message}")
            continue
        finally:
            tempfile.tempdir = None
        if lost:
            tally.violations.append(f"full {number} ({budget}): lost {lost}")


# --- flipped bits ---


async def sound_state(folder: Path) -> tuple[Path, State]:
    """A state with some of everything, compact, and with a backup."""
    path = folder / "state.db"
    _, store = opened(path, backups=True)
    await store.create()
    both = await store.lease([SCOPE, "blog"], "holder")
    lease = both.of(SCOPE)
    await store.commit(lease, [JournalEntry("r1", Event.RUN_STARTED, NOON, data={"plan": "plan-1"})])
    with patch.object(segments, "TAIL_BYTES", 3_000), patch.object(segments, "BASE_BYTES", 3_000):
        for number in range(8):
            await store.commit(lease, [entry(Event.INTENT, f"s{number}")])
            await store.commit(lease, [entry(Event.DONE, f"s{number}")], [record(volume(f"s{number}"))])
    stray = JournalEntry("r1", Event.DECIDED, NOON, volume("s9"), data={"unclaimed": "vol_stray"})
    await store.commit(lease, [stray, entry(Event.INTENT, "open", baseline=["vol_1"])])
    await store.release(both)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    return path, await load(path)


LIVE = ("state.json", "heads", "lines", "journal", "base")  # the root, folders of objects, lines of heads


def live_bytes(path: Path) -> list[tuple[str, int]]:
    """(what, offset in the file) of each byte of a live object that can be found without doubt."""
    content = path.read_bytes()
    found = []
    with closing(sqlite3.connect(path)) as connection:
        bodies = [
            (key.partition("/")[2].partition("/")[0] or key, body)
            for key, body in connection.execute("SELECT key, body FROM objects")
        ]
        for what, body in [*bodies, *connection.execute("SELECT 'lines', line FROM lines")]:
            for at in range(0, len(body) - PIECE, PIECE):  # an object may stand on several pages
                piece = body[at : at + PIECE]
                if what in LIVE and content.count(piece) == 1:
                    begin = content.index(piece)
                    found += [(what, place) for place in range(begin, begin + PIECE)]
    return found


async def flipped_bits(count: int, seed: int, folder: Path, tally: Tally) -> None:
    path, known = await sound_state(folder / "sound")
    chance = random.Random(seed)
    places = live_bytes(path)
    kinds = sorted({what for what, _ in places})
    for number in range(count):
        broken = folder / "flipped" / path.name
        shutil.rmtree(broken.parent, ignore_errors=True)
        shutil.copytree(path.parent, broken.parent)
        kind = [*kinds, "key"][number % (len(kinds) + 1)]
        file = broken if kind != "key" else broken.with_name("state.db.key")
        at = chance.choice([at for what, at in places if what == kind] or range(32))
        content = bytearray(file.read_bytes())
        content[at] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
        tally.counts[f"flips: {kind}"] += 1
        inner, store = opened(broken, backups=True)
        try:
            await store.load()
            await inner.verify()
            tally.violations.append(f"flip {number}: a bit of byte {at} ({kind}) goes unseen")
        except StoreError as failure:
            if "restore" not in failure.help:
                tally.violations.append(
                    f"flip {number} ({kind}): no way out: {failure.message} {failure.help}"
                )
            try:
                await inner.restore()
                if await store.load() != known:
                    tally.violations.append(f"flip {number} ({kind}, byte {at}): the restore lost something")
            except StoreError as refused:
                tally.violations.append(f"flip {number} ({kind}): no restore: {refused.message}")
        finally:
            await store.close()


def run(torn_count: int, full_count: int, flip_count: int, seed: int) -> Tally:
    tally = Tally()
    with tempfile.TemporaryDirectory(dir=SHELF) as name:
        folder = Path(name)
        anyio.run(torn_writes, torn_count, seed, folder, tally)
        full_disks(full_count, seed, folder, tally)
        anyio.run(flipped_bits, flip_count, seed, folder, tally)
    return tally


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.store_faults")
    parser.add_argument("--torn", type=int, default=1200)
    parser.add_argument("--full", type=int, default=400)
    parser.add_argument("--flips", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", choices=("sqlite", "objects"), default="sqlite", help="where it is kept")
    parser.add_argument("--objects", type=int, default=2000, help="that are torn, lost, foreign or flipped")
    parser.add_argument("--lags", type=int, default=200, help="histories whose lists lag")
    options = parser.parse_args(arguments)
    if options.state == "objects":
        tally = Tally()
        anyio.run(object_faults.run, options.objects, options.lags, options.seed, tally)
    else:
        tally = run(options.torn, options.full, options.flips, options.seed)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
