"""The head of a scope: where it stands, who may change it, and its newest changes.

One object, replaced with each commit and each lease. Its first line is JSON with the fields of `Head`; each
line after it is a change that stands in no segment yet. It does not grow with the records.
"""

import json
from collections.abc import Sequence

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from reconciler.state.log.damage import Damaged, Newer, sealed_line, unsealed
from reconciler.state.log.scope_state import ScopeSummary

FORMAT = 2  # 1 did not say how far the root had come


class Segment(Struct, frozen=True):
    """A file of changes, or of what they amount to (`base`). `size` in bytes, before it was compressed."""

    name: str
    first: int  # the numbers of its changes; a base has one, which is the newest in it
    last: int
    size: int
    sha256: str


class Head(Struct, frozen=True):
    """`serial` counts what was written here, `nonce` differs each time: two heads never have the same bytes.

    `epoch`: of the newest lease; `lease`: its id, "" once it is taken away. `holder` took it at `since`.
    `root`: the serial that the root had at least: one with a lower serial is older than this head.
    `changes`, `seq`, `hash`, `record_serial`, `records`, `sum`: see `ScopeSummary`.
    """

    scope: str
    lineage: str
    serial: int = 0
    nonce: str = ""
    epoch: int = 0
    lease: str = ""
    holder: str = ""
    since: str = ""
    changes: int = 0
    seq: int = 0
    hash: str = ""
    record_serial: int = 0
    records: int = 0
    sum: str = "0"
    base: Segment | None = None
    segments: tuple[Segment, ...] = ()
    root: int = 0
    format: int = FORMAT

    def of(self, marks: ScopeSummary) -> "Head":
        """This head, once the scope is as `marks` say."""
        return replace(
            self,
            changes=marks.changes,
            seq=marks.seq,
            hash=marks.hash,
            record_serial=marks.serial,
            records=marks.records,
            sum=f"{marks.sum:x}",
        )

    def fits(self, marks: ScopeSummary) -> bool:
        """Whether this head says what its journal and records amount to."""
        return self == self.of(marks)


def encode(head: Head, tail: Sequence[str]) -> bytes:
    """The object. `tail`: the changes, a line each."""
    return "\n".join([sealed_line(to_builtins(head)), *tail, ""]).encode()


def is_used(body: bytes) -> bool:
    """Whether a change was ever stored in a scope. True for what is not a head."""
    try:
        return bool(json.loads(body[: body.index(b"\n")])["changes"])
    except (KeyError, TypeError, ValueError):
        return True


def decode(body: bytes, scope: str, lineage: str) -> tuple[Head, list[str]]:
    """Raises Damaged for anything but the head of this scope, and Newer for one of a newer program."""
    try:
        first, *tail, end = body.decode().split("\n")
        fields = json.loads(first)
        newer = fields["format"] > FORMAT
        if newer:
            raise Newer
        head = convert(unsealed(fields), Head)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the head of `{scope}` is not what was written") from error
    if end or (head.scope, head.lineage) != (scope, lineage):
        raise Damaged(f"the head of `{scope}` is that of another scope or state")
    return head, tail
