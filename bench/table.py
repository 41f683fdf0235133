"""The table that a run prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what each round measured. `peer`: what ours is held against, of the same rounds.

    `most` is what `ours / peer` may be, or `ours` itself where there is no peer: as medians. `cpu_ratio`:
    that of CPU seconds, where the row is about other ones; on a busy machine it says more.
    """

    figure: str
    ours: Sequence[float]
    unit: str
    most: float
    peer: Sequence[float] | None = None
    cpu_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else paired(self.ours, self.peer)

    @property
    def met(self) -> bool:
        return (median(self.ours) if self.ratio is None else self.ratio) <= self.most


def paired(ours: Sequence[float], peer: Sequence[float]) -> float:
    """The median of the rounds' ratios: each round is a pair from the same minutes."""
    return median(one / other for one, other in zip(ours, peer, strict=True))


_HEADINGS = ("figure", "ours", "peer", "ratio", "of CPU", "target", "")


def render(rows: Sequence[Row]) -> str:
    """The rows under headings."""
    return align([_HEADINGS, *map(_cells, rows)])


def align(cells: Sequence[Sequence[str]]) -> str:
    """In columns: the first flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        aligned = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    peer = "" if row.peer is None else f"{_number(median(row.peer))} {row.unit}"
    ratio, cpu_ratio = ("" if each is None else f"{each:.3f}" for each in (row.ratio, row.cpu_ratio))
    target = f"<= {row.most:g} {row.unit if row.ratio is None else 'x'}"
    ours = f"{_number(median(row.ours))} {row.unit}"
    return row.figure, ours, peer, ratio, cpu_ratio, target, "met" if row.met else "NOT MET"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
