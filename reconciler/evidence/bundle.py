"""Makes a bundle: everything that the state proves about one run, as one file.

The rows of the journal are parts of it: the bytes that are hashed, so `sha256sum` follows the chain. A row is
the JSON of the hash before it, its number and its columns, then a line break, then its data. Its hash is the
SHA-256 of these bytes (`state.chain`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.errors import ReconcilerError
from reconciler.evidence.archive import MOST_BYTES, Damaged, digest, pack
from reconciler.planning.digest import plan_text
from reconciler.planning.saved import SavedPlan
from reconciler.state.chain import state_head
from reconciler.state.codec import decode_entry
from reconciler.state.contents import Row, StateDump, verify
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry

HEAD, PLAN, REHEARSAL = "head.json", "plan.json", "rehearsal.json"


def heads_at(contents: StateDump, count: int) -> dict[str, str]:
    """`State.heads` as of row `count`."""
    return {row.scope: row.hash for row in contents.rows[:count]}


def head_text(lineage: str, heads: Mapping[str, str]) -> bytes:
    """The bytes that `state_head` is the digest of."""
    return json.dumps([lineage, *sorted(heads.items())], separators=(",", ":")).encode()


def cut(contents: StateDump, run: str, count: int) -> dict[str, bytes]:
    """The rows of the scopes of `run`, from its first row in each scope up to row `count` of the state.

    By name, and with the heads of all scopes at that moment.
    """
    parts: dict[str, bytes] = {}
    scopes: dict[str, int] = {}
    before: dict[str, str] = {}
    for row in contents.rows[:count]:
        previous = before.get(row.scope, contents.lineage)
        before[row.scope] = row.hash
        if row.columns[0] == run or row.scope in scopes:
            number = scopes.setdefault(row.scope, len(scopes) + 1)
            parts[f"journal/{number:03}-{row.seq:08}.row"] = row_bytes(previous, row)
    return {**parts, HEAD: head_text(contents.lineage, heads_at(contents, count))}


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


_MOST_APPROVALS = 99


class NotBundled(ReconcilerError):
    """The run cannot be bundled; the message names the part that cannot be proved."""

    def __init__(self, why: str, help: str = "", *advice: Command) -> None:
        super().__init__(f"the run cannot be bundled: {why}; nothing was written", help=help, advice=advice)


def bundle(
    contents: StateDump,
    run: str,
    *,
    head: str = "",
    saved: SavedPlan | None = None,
    encrypted: bool = False,
) -> bytes:
    """Return the bundle of a run.

    `head`: of the state, as the apply printed it; "" for the head at the end of the run. `saved`: the plan of
    the run. `encrypted`: the state is, so that what it says of the run must not be written down in clear.

    Raises NotBundled, and StoreError where the journal was altered.
    """
    verify(contents)
    if encrypted:
        show = command("history", "show", run)
        raise NotBundled(
            "its state is encrypted, and a bundle would say in clear what the run did",
            f"who may read the state sees the run with `{show}`",
            show,
        )
    own = [index for index, row in enumerate(contents.rows) if row.columns[0] == run]
    parts = cut(contents, run, _count(contents, own, head))
    started = decode_entry(contents.rows[own[0]].columns)
    approvals = list(approvals_of(started))
    if len(approvals) > _MOST_APPROVALS:
        raise NotBundled(f"it used {len(approvals)} approvals")
    for number, approval in enumerate(approvals, start=1):
        for part in ("statement", "signature"):
            parts[f"approvals/{number:02}.{part}"] = str(approval[part]).encode()
    parts |= _planned(started, approvals, saved)
    data = pack(parts)
    if len(data) > MOST_BYTES:
        raise NotBundled(f"it would be larger than {MOST_BYTES >> 20} MiB")
    return data


def _count(contents: StateDump, own: list[int], head: str) -> int:
    """The number of rows after which the state had this head, from the end of the run on.

    Another run may have been at work in another app.
    """
    ended = [index for index in own if contents.rows[index].columns[1] == Event.RUN_FINISHED]
    first = (ended or own)[-1] + 1
    if not head:
        return first
    for count in range(first, len(contents.rows) + 1):
        if state_head(contents.lineage, heads_at(contents, count)) == head.lower():
            return count
    raise NotBundled(
        f"the state has not had the head {head} since the run ended", help="check the head: apply prints it"
    )


def _planned(
    started: JournalEntry, approvals: list[Mapping[str, str]], saved: SavedPlan | None
) -> dict[str, bytes]:
    if saved is None:
        return {}
    text = plan_text(saved.plan).encode()
    if digest(text) != started.data.get("digest"):
        raise NotBundled("the file given with --plan is not the plan that it carried out")
    parts = {PLAN: text}
    if saved.rehearsal is not None:
        rehearsed = saved.rehearsal.text.encode()
        signed = f'"rehearsal": "{digest(rehearsed)}"'
        if any(signed in approval["statement"] for approval in approvals):
            parts[REHEARSAL] = rehearsed
    return parts
