"""The table that a run prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what each round measured. `peer`: what ours is held against, of the same rounds.

    `most` is what `ours / peer` may be, or `ours` itself where there is no peer: as medians.
    """

    figure: str
    ours: Sequence[float]
    unit: str
    most: float
    peer: Sequence[float] | None = None

    @property
    def ratio(self) -> float | None:
        """The median of what the rounds gave: each is a pair from the same minutes."""
        if self.peer is None:
            return None
        return median(ours / peer for ours, peer in zip(self.ours, self.peer, strict=True))

    @property
    def met(self) -> bool:
        return (median(self.ours) if self.ratio is None else self.ratio) <= self.most


_HEADINGS = ("figure", "ours", "peer", "ratio", "target", "")


def render(rows: Sequence[Row]) -> str:
    """The rows under headings, numbers flush right."""
    return align([_HEADINGS, *map(_cells, rows)])


def align(cells: Sequence[Sequence[str]]) -> str:
    """In columns: the first and the last flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *numbers, last in cells:
        aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned, last]).rstrip())
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    peer = "" if row.peer is None else f"{_number(median(row.peer))} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    target = f"<= {row.most:g} {row.unit if row.ratio is None else 'x'}"
    ours = f"{_number(median(row.ours))} {row.unit}"
    return row.figure, ours, peer, ratio, target, "met" if row.met else "NOT MET"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
