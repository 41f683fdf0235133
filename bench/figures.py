"""Figures, and how they are measured.

Programs take turns, so that whatever else the machine does meets all alike.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from bench.processes import Cost
from bench.stage import Program, Stage
from bench.table import Row, paired


@dataclass(frozen=True)
class Measure:
    unit: str
    of: Callable[[Cost], float]


WALL = Measure("s", attrgetter("wall_s"))
CPU = Measure("s", attrgetter("cpu_s"))
MICROSECONDS = Measure("µs", attrgetter("cpu_s"))
PEAK = Measure("MiB", attrgetter("peak_mib"))


@dataclass(frozen=True)
class Figure:
    """What `ours` may take at `most`: as many times as much as `peer`, or without one, as many units.

    `less`: what is taken off ours.
    """

    ours: Program
    most: float
    peer: Program | None = None
    measure: Measure = WALL
    less: Program | None = None

    @property
    def name(self) -> str:
        ours = f"{self.ours} - {self.less}" if self.less else str(self.ours)
        what = {WALL: "", CPU: ": CPU", MICROSECONDS: ": CPU", PEAK: ": memory"}[self.measure]
        return f"{ours} / {self.peer}{what}" if self.peer else f"{ours}{what}"

    @property
    def programs(self) -> Sequence[Program]:
        return [program for program in (self.peer, self.less, self.ours) if program is not None]


@dataclass(frozen=True)
class Group:
    """Figures that are measured together: each of their programs runs once a round.

    `quick`: how many rounds where there is little time; 0: none.
    """

    rounds: int
    quick: int
    figures: Sequence[Figure]

    @property
    def programs(self) -> Sequence[Program]:
        return list(dict.fromkeys(program for figure in self.figures for program in figure.programs))


def chosen(groups: Iterable[Group], *, quick: bool = False, only: str = "") -> list[Group]:
    """The groups with what is left of their figures and rounds."""
    found = [
        replace(
            group,
            rounds=group.quick if quick else group.rounds,
            figures=[figure for figure in group.figures if only in figure.name],
        )
        for group in groups
    ]
    return [group for group in found if group.rounds and group.figures]


def measure(group: Group, stage: Stage) -> list[Row]:
    costs: dict[Program, list[Cost]] = {program: [] for program in group.programs}
    runs = {program: program.opened(stage) for program in costs}
    for _ in range(group.rounds):
        for program, run in runs.items():
            costs[program].append(run())
    return [_row(figure, costs) for figure in group.figures]


def _row(figure: Figure, costs: dict[Program, list[Cost]]) -> Row:
    def values(program: Program, measure: Measure = figure.measure) -> list[float]:
        return [measure.of(cost) for cost in costs[program]]

    ours, peer, cpu_ratio = values(figure.ours), None, None
    if figure.less is not None:
        ours = [whole - part for whole, part in zip(ours, values(figure.less), strict=True)]
    if figure.peer is not None:
        peer = values(figure.peer)
        if figure.measure is WALL and figure.less is None and all(values(figure.peer, CPU)):
            cpu_ratio = paired(values(figure.ours, CPU), values(figure.peer, CPU))
    return Row(figure.name, ours, figure.measure.unit, figure.most, peer, cpu_ratio)
