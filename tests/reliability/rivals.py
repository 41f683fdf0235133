"""Processes that want one scope: `python -m tests.reliability.rivals [--races N] [--pauses N] [--state URL]`.

Races: 2 and 8 workers ask for one lease at the same moment, each round through a fresh store. One must
get it, the others must be told its name within 2 s; some holders are killed, and the next lease must come
within 2 s. Pauses: a holder loops over check, send (a line in a log) and commit, and is stopped at a random
moment while a rival takes its scope by force. No stale commit may be stored, no send may follow a check
that began after the take-over, and each send that was not committed must be reported by the holder.

The state is in a file, or in a PostgreSQL database (`--state`; `postgresql:` starts a server for it). There
the lease of a killed holder ends with its time, which is set forward and not waited for.
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio

from reconciler.core.clock import SystemClock
from reconciler.core.errors import Locked, StoreError
from reconciler.state import backend_of
from reconciler.state.places.sqlite import database
from reconciler.state.store import Event, JournalEntry
from tests.reliability import proof
from tests.reliability.shared import NEW_SERVER, File, Place, server

SCOPE = "shop"
LIMIT_S = 2.0
KILL_EVERY = 10  # rounds

_processes = multiprocessing.get_context("fork")


@dataclass
class Tally(proof.Tally):
    slowest_s: dict[str, float] = field(default_factory=dict)

    def took(self, what: str, seconds: float) -> None:
        self.slowest_s[what] = max(self.slowest_s.get(what, 0.0), seconds)
        if seconds > LIMIT_S:
            self.violations.append(f"{what} took {seconds:.2f} s")


def journal(place: Place) -> list[tuple[str, str, str]]:
    """Run, event and step of each row, in the order in which they were stored."""
    return anyio.run(_journal, place)


async def _journal(place: Place) -> list[tuple[str, str, str]]:
    store = place.open()
    try:
        return [(entry.run, entry.event, entry.step) for _, entry in await store.journal()]
    finally:
        await store.close()


def done(run: str, step: str) -> JournalEntry:
    return JournalEntry(run, Event.DONE, SystemClock().now(), step=step)


# --- races ---


async def _race_once(place: Place, pipe: Connection, number: int) -> None:
    name = f"worker {os.getpid()}"
    store = place.open()
    began = time.monotonic()
    try:
        lease = await store.lease([SCOPE], name)
    except Locked as locked:
        pipe.send(("locked", locked.holder, time.monotonic() - began))
    else:
        try:
            await store.commit(lease, [done(name, f"round {number}")])
            pipe.send(("won", name, time.monotonic() - began))
            pipe.recv()
        except StoreError:
            pipe.send(("overtaken", name, time.monotonic() - began))
        await store.release(lease)
    await store.close()
    pipe.send("ready")


def _racer(place: Place, pipe: Connection, start: Any) -> None:
    """Waits for a round's number, then for all others, then asks for the lease."""
    while (number := pipe.recv()) is not None:
        start.wait()
        anyio.run(_race_once, place, pipe, number)


class Racers:
    """Worker processes that stay for all rounds; who was killed is replaced."""

    def __init__(self, count: int, place: Place) -> None:
        self._place = place
        self._start = _processes.Barrier(count)
        self.workers: list[tuple[Any, Connection]] = []
        for _ in range(count):
            self._add()

    def _add(self) -> None:
        ours, theirs = _processes.Pipe()
        process = _processes.Process(target=_racer, args=(self._place, theirs, self._start), daemon=True)
        process.start()
        theirs.close()
        self.workers.append((process, ours))

    def round(self, number: int, tally: Tally, *, kill: bool) -> None:
        for _, pipe in self.workers:
            pipe.send(number)
        results = [pipe.recv() for _, pipe in self.workers]
        winners = [index for index, (how, _, _) in enumerate(results) if how == "won"]
        tally.counts[f"races of {len(self.workers)}"] += 1
        overtaken = sum(how == "overtaken" for how, _, _ in results)
        if len(winners) != 1 or overtaken:
            tally.violations.append(f"race {number}: {len(winners)} winners, {overtaken} overtaken")
        names = {results[index][1] for index in winners}
        for how, name, seconds in results:
            tally.took(f"{how}, of {len(self.workers)}", seconds)
            if name not in names:
                tally.violations.append(f"race {number}: a loser was told of {name}, not of {names}")
        for index in winners:
            process, pipe = self.workers[index]
            if kill:
                os.kill(process.pid, signal.SIGKILL)
                self._place.lease_over()
                began = time.monotonic()
                anyio.run(_take_and_release, self._place)
                tally.took("lease after a kill", time.monotonic() - began)
                tally.counts["holders killed"] += 1
                process.join()
            else:
                pipe.send("release")
        survivors = [worker for index, worker in enumerate(self.workers) if not (kill and index in winners)]
        for _, pipe in survivors:
            pipe.recv()
        killed = len(self.workers) - len(survivors)
        self.workers = survivors
        for _ in range(killed):
            self._add()

    def close(self) -> None:
        for process, pipe in self.workers:
            pipe.send(None)
            process.join()

    def end(self) -> None:
        """Whatever happened: one that stayed would keep the pipes of others open, who wait for their end."""
        for process, _ in self.workers:
            process.kill()
            process.join()


async def _take_and_release(place: Place) -> None:
    store = place.open()
    try:
        await store.create()
        await store.release(await store.lease([SCOPE], "the next", timeout_s=LIMIT_S))
    finally:
        await store.close()


def races(count: int, workers: int, place: Place, tally: Tally) -> None:
    anyio.run(_take_and_release, place)
    racers = Racers(workers, place)
    before = len(journal(place))
    try:
        for number in range(count):
            racers.round(number, tally, kill=number % KILL_EVERY == KILL_EVERY - 1)
        racers.close()
    finally:
        racers.end()
    steps = [step for _, _, step in journal(place)[before:]]
    if (len(set(steps)), len(steps)) != (count, count):
        tally.violations.append(f"{len(steps)} writes in {len(set(steps))} of {count} races")


# --- pauses ---


def _say(log: Path, line: str) -> None:
    """One line, in the order in which things happened in all processes."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


async def _hold(place: Place, log: Path, pipe: Connection) -> None:
    """Loop over check, send and commit until one fails; then say what was sent and not recorded."""
    store = place.open()
    lease = await store.lease([SCOPE], f"holder {os.getpid()}", timeout_s=60)
    run, number, sent = f"epoch {lease.epochs[SCOPE]}", 0, False
    pipe.send(("holding", run))
    try:
        while True:
            number, sent = number + 1, False
            _say(log, f"checking {run} {number}")
            await store.check(lease)
            _say(log, f"sent {run} {number}")
            sent = True
            await store.commit(lease, [done(run, str(number))])
    except StoreError:
        pipe.send(("stopped", f"{run} {number}" if sent else ""))
    finally:
        await store.close()


def _holder(place: Place, log: Path, pipe: Connection) -> None:
    while pipe.recv():
        anyio.run(_hold, place, log, pipe)


async def _take_by_force(place: Place, log: Path) -> bool:
    """Whether the scope could be taken: not while the holder is stopped within a transaction."""
    store = place.open()
    try:
        try:
            await backend_of(store).unlock(SCOPE, force=True, by="the rival")
        except StoreError as failure:
            if "busy" not in failure.message:
                raise
            return False
        _say(log, "taken")
        lease = await store.lease([SCOPE], "the rival")
        await store.commit(lease, [done("rival", "taken")])
        await store.release(lease)
    finally:
        await store.close()
    return True


def pauses(count: int, seed: int, place: Place, log: Path, tally: Tally) -> None:
    anyio.run(_take_and_release, place)
    chance = random.Random(seed)
    ours, theirs = _processes.Pipe()
    holder = _processes.Process(target=_holder, args=(place, log, theirs), daemon=True)
    holder.start()
    assert holder.pid is not None
    try:
        while tally.counts["pauses with a take-over"] < count:
            ours.send(True)
            _, run = ours.recv()
            with patch.object(database, "_BUSY_TIMEOUT_S", 0):
                _pause_until_taken(holder.pid, place, log, chance, tally)
            if not ours.poll(LIMIT_S):
                tally.violations.append(f"{run}: goes on after the take-over")
                return
            _, reported = ours.recv()
            _judge(run, reported, place, log, tally)
            log.unlink()
    finally:
        holder.kill()
        holder.join()


def _pause_until_taken(pid: int, place: Place, log: Path, chance: random.Random, tally: Tally) -> None:
    while True:
        time.sleep(chance.random() * 0.02)
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        taken = anyio.run(_take_by_force, place, log)
        os.kill(pid, signal.SIGCONT)
        if taken:
            tally.counts["pauses with a take-over"] += 1
            return
        tally.counts["pauses inside a transaction"] += 1


def _judge(run: str, reported: str, place: Place, log: Path, tally: Tally) -> None:
    lines = log.read_text().splitlines()
    taken = lines.index("taken")
    rows = journal(place)
    forced = max(number for number, (of, event, _) in enumerate(rows) if (of, event) == ("", Event.DECIDED))
    stored = {f"{run} {step}" for of, _, step in rows if of == run}
    stale = sum(of == run for of, _, _ in rows[forced:])
    if stale:
        tally.violations.append(f"{run}: {stale} commits after the take-over")
    sent = {line.removeprefix("sent ") for line in lines if line.startswith("sent ")}
    for line in lines[taken + 1 :]:
        if line.startswith("sent "):
            tally.counts["sends overtaken"] += 1
            if f"checking {line.removeprefix('sent ')}" in lines[taken:]:
                tally.violations.append(f"{line}: its check began after the take-over")
    if sent - stored != ({reported} if reported else set()):
        tally.violations.append(f"{run}: sent and not stored {sent - stored}, reported {reported!r}")
    tally.counts["sends reported as not recorded"] += bool(reported)


def run(race_count: int, pause_count: int, seed: int, state: str = "") -> Tally:
    tally = Tally()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=proof.SHELF)))
        found = server(state, stack)

        def place(name: str) -> Place:
            return File(folder / name / "state.db") if found is None else found.new()

        for workers in (2, 8):
            races(race_count, workers, place(f"races{workers}"), tally)
        pauses(pause_count, seed, place("pauses"), folder / "log", tally)
    return tally


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.rivals")
    parser.add_argument("--races", type=int, default=1000, help="of 2, and as many of 8")
    parser.add_argument("--pauses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", default="", help=f"a PostgreSQL server, by its superuser; or {NEW_SERVER}")
    options = parser.parse_args(arguments)
    tally = run(options.races, options.pauses, options.seed, options.state)
    slowest = {f"slowest: {what}": f"{seconds:.2f} s" for what, seconds in sorted(tally.slowest_s.items())}
    return tally.end(**slowest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
