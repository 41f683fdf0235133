"""The table that a run prints."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `peer` is what it is held against: Terraform's, or the number that must come out.

    `target` is the most that `ours / peer` may be, or `ours` itself where there is no peer.
    """

    figure: str
    ours: float
    unit: str
    target: float
    peer: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.ours / self.peer

    @property
    def met(self) -> bool:
        return (self.ours if self.ratio is None else self.ratio) <= self.target


@dataclass(frozen=True, slots=True)
class Count(Row):
    """A number of calls, which must be exactly the peer's."""

    @property
    def met(self) -> bool:
        return self.ours == self.peer


_HEADINGS = ("figure", "ours", "peer", "ratio", "target", "")


def render(rows: Sequence[Row]) -> str:
    """The rows under headings, numbers flush right."""
    cells = [_HEADINGS, *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    lines = []
    for row in cells:
        first, *numbers, last = row
        aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned, last]).rstrip())
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    peer = "" if row.peer is None else f"{_number(row.peer)} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    if isinstance(row, Count):
        target = "equal"
    elif row.peer is None:
        target = f"<= {row.target:g} {row.unit}"
    else:
        target = f"<= {row.target:g} x"
    return row.figure, f"{_number(row.ours)} {row.unit}", peer, ratio, target, "met" if row.met else "NOT MET"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
