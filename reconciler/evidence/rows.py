"""Rows of the journal as parts of a bundle: the bytes that are hashed, so `sha256sum` follows the chain.

A row is the JSON of the hash before it, its number and its columns, then a line break, then its data. Its
hash is the SHA-256 of these bytes (`state.chain`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.evidence.archive import Damaged, digest
from reconciler.state.codec import decode_entry
from reconciler.state.contents import Row, StateDump
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry

HEAD = "head.json"


class Slice(Struct, frozen=True):
    """`parts`: the rows by name, and the heads of all scopes at one moment."""

    parts: Mapping[str, bytes]
    head: str


def heads_at(contents: StateDump, count: int) -> dict[str, str]:
    """`State.heads` as of row `count`."""
    return {row.scope: row.hash for row in contents.rows[:count]}


def head_text(lineage: str, heads: Mapping[str, str]) -> bytes:
    """The bytes that `state_head` is the digest of."""
    return json.dumps([lineage, *sorted(heads.items())], separators=(",", ":")).encode()


def cut(contents: StateDump, run: str, count: int) -> Slice:
    """The rows of the scopes of `run`, from its first row in each scope up to row `count` of the state."""
    parts: dict[str, bytes] = {}
    scopes: dict[str, int] = {}
    before: dict[str, str] = {}
    for row in contents.rows[:count]:
        previous = before.get(row.scope, contents.lineage)
        before[row.scope] = row.hash
        if row.columns[0] == run or row.scope in scopes:
            number = scopes.setdefault(row.scope, len(scopes) + 1)
            parts[f"journal/{number:03}-{row.seq:08}.row"] = row_bytes(previous, row)
    text = head_text(contents.lineage, heads_at(contents, count))
    return Slice({**parts, HEAD: text}, digest(text))


def row_bytes(previous: str, row: Row) -> bytes:
    """The bytes of a row. `previous`: the hash of the row before it in its scope."""
    *columns, data = row.columns
    head = json.dumps([previous, row.seq, *columns, *filter(None, [row.scope])], separators=(",", ":"))
    return f"{head}\n{data}".encode()


class Proven(Struct, frozen=True):
    """The content of verified rows. `entries`: as `Store.journal` returns them. `started`: of the run."""

    lineage: str
    run: str
    entries: Sequence[tuple[str, JournalEntry]]
    started: JournalEntry


def proven(parts: Mapping[str, bytes]) -> Proven:
    """Verify the rows. Raises Damaged where one does not follow from the one before, or ends in no head."""
    lineage, heads = _heads(parts)
    entries: list[tuple[str, JournalEntry]] = []
    ends: dict[str, tuple[int, str, str]] = {}
    firsts: list[JournalEntry] = []
    for name in sorted(part for part in parts if part.startswith("journal/")):
        previous, seq, scope, entry = _parsed(name, parts[name])
        number = name.split("/")[1][:3]
        if int(name[-12:-4]) != seq:
            raise Damaged(name, "its place in the chain is another one")
        if number not in ends:
            firsts.append(entry)
        elif ends[number] != (seq - 1, previous, scope):
            raise Damaged(name, "it does not follow from the row before it")
        ends[number] = seq, digest(parts[name]), scope
        entries.append((scope, entry))
    if not firsts:
        raise Damaged("journal", "it holds no row of the run")
    run = firsts[0].run
    if any(first.event is not Event.RUN_STARTED or first.run != run for first in firsts):
        raise Damaged("journal", "it does not begin with one run in each of its scopes")
    for _, hash, scope in ends.values():
        if heads.get(scope) != hash:
            raise Damaged(HEAD, f"the journal of `{scope}` does not end there")
    if len({scope for _, _, scope in ends.values()}) != len(ends):
        raise Damaged("journal", "a scope is there twice")
    return Proven(lineage, run, entries, firsts[0])


def _heads(parts: Mapping[str, bytes]) -> tuple[str, dict[str, str]]:
    if HEAD not in parts:
        raise Damaged(HEAD, "it is missing")
    try:
        lineage, *pairs = json.loads(parts[HEAD])
        heads = {str(scope): str(hash) for scope, hash in pairs}
    except (ValueError, TypeError, RecursionError):
        raise Damaged(HEAD, "it cannot be read") from None
    if head_text(lineage, heads) != parts[HEAD]:
        raise Damaged(HEAD, "it is not as it is written")
    return lineage, heads


def _parsed(name: str, content: bytes) -> tuple[str, int, str, JournalEntry]:
    head, _, data = content.partition(b"\n")
    try:
        previous, seq, run, event, at, address, step, attempt, *scope = json.loads(head)
        entry = decode_entry((run, event, at, address, step, attempt, data.decode()))
        written = json.dumps(
            [previous, seq, run, event, at, address, step, attempt, *scope], separators=(",", ":")
        )
        if written.encode() != head or len(scope) > 1 or not isinstance(entry.data, dict):
            raise ValueError
        return str(previous), int(seq), str(scope[0]) if scope else WHOLE_STATE, entry
    except (ValueError, TypeError, RecursionError):
        raise Damaged(name, "it cannot be read") from None


def approvals_of(started: JournalEntry) -> Iterator[Mapping[str, Any]]:
    """The approvals that the run used, as it journaled them."""
    found = started.data.get("approvals")
    for approval in found if isinstance(found, list) else ():
        if isinstance(approval, dict):
            yield approval
