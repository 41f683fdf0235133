"""Segments: the changes of a scope, as files that are written once; and how they stay few.

Four of about one size become one, so that a commit costs the same however long the journal is. A new base
is made when as much has changed since the last one as that one holds. What no head names any more is deleted;
the journal itself stays whole.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from reconciler.state.codec import decode_record
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.changes import Change, StoredRecord, decode_stored, sum_of
from reconciler.state.log.damage import Damaged, Gone
from reconciler.state.log.head import Head, Segment
from reconciler.state.log.scope_state import ScopeState, ScopeSummary
from reconciler.state.rules import View, effect_of_row

TAIL_BYTES = 64 * 1024  # how much of changes stands in a head at most, before they become a segment
BASE_BYTES = TAIL_BYTES  # how much has changed at least before a base is made
_WHOLE_BYTES = 256 * TAIL_BYTES  # a segment of this size is not copied into a larger one
_AT_ONCE = 4  # how many segments become one


class Files:
    """The segments and bases of all scopes of one state."""

    def __init__(self, bucket: Bucket, layout: Layout) -> None:
        self._bucket = bucket
        self._layout = layout

    def changes(self, head: Head, after: int) -> list[Change]:
        """Those in segments whose number is greater. Raises Gone, or Damaged."""
        wanted = [segment for segment in head.segments if segment.last > after]
        texts = self._bucket.in_parallel(
            lambda segment: self._read(self._layout.segment(head.scope, segment.name), segment), wanted
        )
        found = (decoded(line, head.scope) for text in texts for line in text.splitlines())
        return [change for change in found if change.number > after]

    def since(self, head: Head, known: int, until: int) -> tuple[ScopeState | None, list[Change]]:
        """The base of `head`, for who knows no change yet, and the changes in segments after what is known.

        Both are asked for at once. `until`: the last change in any segment. Raises Gone, or Damaged.
        """
        base = head.base if not known else None
        known = base.last if base is not None else known
        asked: list[Callable[[], Any]] = [lambda: self.changes(head, known)] if until > known else []
        if base is not None:
            asked.append(lambda: self._base(head.scope, base))
        found = self._bucket.in_parallel(lambda ask: ask(), asked)
        return (found.pop() if base is not None else None), (found[0] if found else [])

    def _base(self, scope: str, base: Segment) -> ScopeState:
        return _decode_base(self._read(self._layout.base(scope, base.name), base), scope)

    def all_changes(self, head: Head, tail: Sequence[str]) -> list[Change]:
        """From the first on. Raises Gone, or Damaged."""
        return [*self.changes(head, 0), *(decoded(line, head.scope) for line in tail)]

    def moved_out(self, head: Head, tail: Sequence[str], folded: ScopeState) -> Head:
        """`head` with its tail in a segment. `folded`: the scope as the head has it.

        Writes files that no head names yet; the caller does that. Done again, it writes the same ones.
        """
        first = head.segments[-1].last + 1 if head.segments else 1
        text = "".join(f"{line}\n" for line in tail)
        new = Segment("", first, head.changes, len(text), "")  # it gets its name once it is written
        segments, base = [*head.segments, new], head.base
        since = base.last if base is not None else 0
        changed = sum(segment.size for segment in segments if segment.last > since)
        if changed > max(BASE_BYTES, base.size if base is not None else 0):
            base, since = self._write_base(head, folded), head.changes
        kept = [self._as_one(head, group, text) for group in _groups(segments, since)]
        return replace(head, base=base, segments=tuple(kept))

    def copied(self, head: Head, lines: Sequence[str], folded: ScopeState) -> Head:
        """`head` of a scope that was made elsewhere, with its changes and what they amount to in files."""
        text = "".join(f"{line}\n" for line in lines)
        segment = self._write_segment(head, 1, head.changes, text)
        return replace(head, base=self._write_base(head, folded), segments=(segment,))

    def delete_unnamed(self, before: Head, after: Head) -> None:
        """Delete the segments that `before` names and `after`, which has replaced it, does not."""
        kept = {segment.name for segment in after.segments}
        unnamed = [
            self._layout.segment(before.scope, segment.name)
            for segment in before.segments
            if segment.name not in kept
        ]
        if before.base is not None and before.base != after.base:
            unnamed.append(self._layout.base(before.scope, before.base.name))
        self._bucket.in_parallel(self._bucket.delete, unnamed)

    def _as_one(self, head: Head, group: Sequence[Segment], new: str) -> Segment:
        """`new`: the text of the segment that is not written yet."""
        if len(group) == 1 and group[0].name:
            return group[0]

        def text(segment: Segment) -> str:
            return (
                self._read(self._layout.segment(head.scope, segment.name), segment) if segment.name else new
            )

        return self._write_segment(
            head, group[0].first, group[-1].last, "".join(self._bucket.in_parallel(text, group))
        )

    def _write_segment(self, head: Head, first: int, last: int, text: str) -> Segment:
        # The epoch belongs to one holder, so that no file of another one has this name.
        name = f"{head.epoch}-{first}-{last}"
        return self._write(self._layout.segment(head.scope, name), name, first, last, text)

    def _write_base(self, head: Head, folded: ScopeState) -> Segment:
        name = f"{head.epoch}-{head.changes}"
        return self._write(
            self._layout.base(head.scope, name), name, head.changes, head.changes, _encode_base(folded)
        )

    def _write(self, key: str, name: str, first: int, last: int, text: str) -> Segment:
        body = gzip.compress(text.encode(), compresslevel=3, mtime=0)
        if isinstance(writes.create(self._bucket, key, body), writes.Conflict):
            raise Damaged(f"{key} was written by somebody else")
        return Segment(name, first, last, len(text), hashlib.sha256(body).hexdigest())

    def _read(self, key: str, segment: Segment) -> str:
        found = self._bucket.get(key)
        if found is None:
            raise Gone(key)
        if hashlib.sha256(found.body).hexdigest() != segment.sha256:
            raise Damaged(f"{key} is not what was written")
        return gzip.decompress(found.body).decode()


def decoded(line: str, scope: str) -> Change:
    """Raises Damaged for another line."""
    try:
        return Change.from_line(line)
    except ValueError as error:
        raise Damaged(f"a change of `{scope}` is not what was written") from error


def _tier(size: int) -> int:
    """Segments of one tier differ in size by less than the factor by which merging makes them larger."""
    return (size // TAIL_BYTES).bit_length() // 2


def _groups(segments: Sequence[Segment], since: int) -> list[list[Segment]]:
    """Which segments become one. `since`: the newest change in the base; no group is on both sides of it."""
    groups = [[segment] for segment in segments]
    while (found := _next_merge(groups, since)) is not None:
        groups[found] = [[segment for group in groups[found] for segment in group]]
    return groups


def _next_merge(groups: Sequence[Sequence[Segment]], since: int) -> slice | None:
    """Four of one size, or a smaller one that a larger one follows."""
    tiers = [_tier(sum(segment.size for segment in group)) for group in groups]
    for start in range(len(groups)):
        for length in (2, _AT_ONCE):
            found = slice(start, start + length)
            some, sides = tiers[found], {group[-1].last > since for group in groups[found]}
            if len(some) < length or len(sides) > 1 or max(some) >= _tier(_WHOLE_BYTES):
                continue
            if (some[0] < some[-1]) if length == 2 else len(set(some)) == 1:
                return found
    return None


# --- a base: what all changes up to one amount to, so that a reader need not read them ---


def _encode_base(folded: ScopeState) -> str:
    """Two lines: the marks, the records. The same scope always gives the same text."""
    marks, view = folded.marks, folded.marks.view
    first = {
        "hash": marks.hash,
        "changes": marks.changes,
        "seq": marks.seq,
        "serial": marks.serial,
        "sum": f"{marks.sum:x}",
        "open_intents": list(view.open_intents.values()),
        "plans_run": sorted(marks.plans | view.plans_run),
        "unclaimed": list(view.unclaimed.values()),
        "platform": view.platform,
        "claimed": sorted(marks.claimed),
    }
    records = sorted(
        (stored.to_json() for stored in folded.stored.values()), key=lambda values: str(values[:4])
    )
    return f"{json.dumps(first)}\n{encode_json(records).decode()}\n"


def _decode_base(text: str, scope: str) -> ScopeState:
    """Raises Damaged for another text."""
    try:
        first, second, _ = text.split("\n")
        fields, records = json.loads(first), decode_stored(second)
        stored = [StoredRecord.from_json(values) for values in records]
        marks = ScopeSummary(
            fields["hash"],
            fields["changes"],
            fields["seq"],
            fields["serial"],
            len(stored),
            # The head authenticates the file. One that version 0.2.0 wrote does not hold the sum.
            int(fields["sum"], 16) if "sum" in fields else sum_of(stored),
            View(
                {(row[0], row[4], row[5]): row for row in fields["open_intents"]},
                unclaimed={effect_of_row(row).unclaimed: row for row in fields["unclaimed"]},
                platform=fields["platform"],
            ),
            frozenset(fields["claimed"]),
            frozenset(fields["plans_run"]),
        )
        decoded = {
            record.address: decode_record(record.address, record.serial, record.body.encode())
            for record in stored
        }
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the records of `{scope}` are not what was written") from error
    return ScopeState(marks, {record.address: record for record in stored}, decoded)
