"""The journal's own checks, behind all digests: what they find when those were made to fit."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log.damage import sealed, unsealed
from reconciler.state.places.sqlite.bucket import digest_of, tag_of
from reconciler.state.places.sqlite.files import seen_path
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import entry

pytestmark = pytest.mark.anyio


def lines_of(path: Path) -> tuple[str, list[bytes]]:
    """The key of the head of `shop`, and its lines."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT key, body FROM objects WHERE key LIKE '%/heads/shop'"
        key, first = connection.execute(query).fetchone()
        rest = connection.execute("SELECT line FROM lines WHERE head = ? ORDER BY number", (key,))
        return key, [first, *(line for (line,) in rest)]


def forge(path: Path, change: Callable[[list[bytes]], list[bytes]], **fields: Any) -> None:
    """Change the lines of the head of `shop`, and fields of the first; and make all digests fit."""
    key, lines = lines_of(path)
    first = json.dumps(sealed(unsealed(json.loads(lines[0])) | fields)).encode()
    rows = [(key, number, digest_of(line), line) for number, line in enumerate(change(lines[1:]), 1)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE objects SET tag = ?, body = ? WHERE key = ?", (tag_of(first), first, key))
        connection.execute("DELETE FROM lines WHERE head = ?", (key,))
        connection.executemany("INSERT INTO lines VALUES (?,?,?,?)", rows)
        connection.commit()
    seen_path(path).unlink()


async def test_a_head_that_was_put_back_with_its_digests_is_found(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """A scope would go on from an earlier row of its chain, and give a serial twice."""
    await fill(store)
    hash = json.loads(lines_of(path)[1][1])["rows"][3][-1]
    forge(path, list, seq=4, hash=hash)
    for attempt in (another().load, another().verify):
        with pytest.raises(StoreError, match="the head of `shop` does not fit its journal"):
            await attempt()


async def test_another_change_at_the_end_is_not_the_one_that_was_written(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """Two histories that go on from the same row: each of them is a sound chain."""
    await fill(store)
    before = path.read_bytes()
    ends = []
    for step in ("a", "b"):
        path.write_bytes(before)
        seen_path(path).unlink()
        other = another()
        lease = await other.lease(["shop"], "anna")
        await other.commit(lease, [entry(Event.DONE, step)])
        await other.close()
        ends.append(lines_of(path)[1][-1])
    forge(path, lambda lines: [*lines[:-1], ends[0]])
    with pytest.raises(StoreError, match="the head of `shop` does not fit its journal"):
        await another().load()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda lines: [lines[0], *lines[2:]], "change 3 of `shop` does not follow the one before it"),
        (lambda lines: lines[:-1], "does not fit its journal|follow"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "change 2 of `shop` does not follow"),
        (lambda lines: [line.replace(b'"s3"', b'"s9"') for line in lines], "change 2 of `shop` is not what"),
        (lambda lines: [line.replace(b"T12:", b"T13:") for line in lines], "change 1 of `shop` is not what"),
    ],
)
async def test_the_chain_of_a_scope_is_followed_when_it_is_read(
    store: SqliteStore, another: OpenStore, path: Path, change: Any, named: str
) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["shop"], "anna")
    for step in ("s3", "s4"):
        await other.commit(lease, [entry(Event.DONE, step)])
    await other.verify()
    await other.close()
    forge(path, change)
    for attempt in (another().load, another().journal, another().verify):
        with pytest.raises(StoreError, match=named):
            await attempt()


async def test_a_run_without_a_plan_and_a_decision_about_something_else_change_no_list(
    store: SqliteStore,
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.RUN_STARTED, ""), entry(Event.DECIDED, "", forget="vol_1")])
    state = await store.load()
    assert (state.plans_run, state.unclaimed) == (frozenset(), ())
    await store.verify()
