"""The style of a text report: in colour and wrapped on a terminal, plain and unwrapped in a log.

Words are never broken, and neither are commands in backticks: people copy them.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import groupby

from msgspec import Struct

from reconciler.core.model import Action, Impact
from reconciler.reports.escape import columns_of, visible

WIDEST = 100  # longer lines are hard to read, however wide the terminal
_NARROWEST = 40
_WORD = re.compile(r" *(?P<word>(?:`[^`]*`|\": |\S)+)")  # `": `: a key of JSON stays beside its value


class Tone(StrEnum):
    """The meaning of a piece of text; the value is its terminal code. Red is for loss only."""

    PLAIN = ""
    STRONG = "1"
    FAINT = "2"
    LOSS = "31"
    NEW = "32"
    PAUSE = "33"  # a restart or downtime, now or owed
    REFUSED = "35"
    CHANGE = "36"


TONES: Mapping[Action, Tone] = {
    Action.CREATE: Tone.NEW,
    Action.RESTORE: Tone.NEW,
    Action.ADOPT: Tone.NEW,
    Action.EXTEND: Tone.CHANGE,
    Action.UPDATE: Tone.CHANGE,
    Action.SET: Tone.CHANGE,
    Action.SUSPEND: Tone.PAUSE,
    Action.STOP: Tone.PAUSE,
    Action.START: Tone.CHANGE,
    Action.SNAPSHOT: Tone.NEW,
    Action.RESTART: Tone.PAUSE,
    Action.DELETE: Tone.LOSS,
    Action.REFUSED: Tone.REFUSED,
}
IMPACT_TONES: Mapping[Impact, Tone] = {
    Impact.DATA_LOSS: Tone.LOSS,
    Impact.REPOINT: Tone.PAUSE,
    Impact.DOWNTIME: Tone.PAUSE,
    Impact.RESTART: Tone.PAUSE,
}
OUTCOME_TONES: Mapping[str, Tone] = {
    "failed": Tone.LOSS,
    "unknown": Tone.REFUSED,
    "pending": Tone.PAUSE,
    "skipped": Tone.PAUSE,
}
END_TONES: Mapping[str, Tone] = {
    "converged": Tone.NEW,
    "pending": Tone.PAUSE,
    "decision": Tone.REFUSED,
    "failed": Tone.LOSS,
}

Part = str | tuple[str, Tone]


class Style(Struct, frozen=True):
    """`columns`: the width at which lines wrap; None: nowhere, since logs are searched line by line."""

    columns: int | None = None
    colour: bool = False

    @property
    def width(self) -> int:
        """The columns that a line should keep to. Without a terminal it is always the same."""
        return WIDEST if self.columns is None else max(_NARROWEST, min(WIDEST, self.columns))

    def fits(self, indent: int, *parts: Part) -> bool:
        """Whether `parts` take no more than one line."""
        return indent + columns_of("".join(text for text, _ in _toned(parts))) <= self.width

    def line(self, indent: int, *parts: Part, hang: int = 4) -> str:
        """Return `parts` as one line, or as several: all but the first have `hang` more columns of indent."""
        toned = list(_toned(parts))
        text = "".join(piece for piece, _ in toned)
        if self.columns is None and not self.colour:
            return f"{' ' * indent}{text}"
        tones = [tone for piece, tone in toned for _ in piece]
        lines = [
            " " * (indent + (hang if start else 0)) + self._painted(text[start:end], tones[start:end])
            for start, end in self._split(text, indent, hang)
        ]
        return "\n".join(lines)

    def _split(self, text: str, indent: int, hang: int) -> Iterator[tuple[int, int]]:
        """Where each line begins and ends in `text`."""
        start = end = 0
        room = self.width - indent
        for found in _WORD.finditer(text) if self.columns is not None else ():
            if end > start and columns_of(text[start : found.end()]) > room:
                yield start, end
                start = found.start("word")
                room = self.width - indent - hang
            end = found.end()
        yield start, len(text)

    def _painted(self, text: str, tones: list[Tone]) -> str:
        if not self.colour:
            return text
        runs = groupby(zip(text, tones, strict=True), key=lambda pair: pair[1])
        painted = (("".join(character for character, _ in run), tone) for tone, run in runs)
        return "".join(f"\x1b[{tone}m{run}\x1b[0m" if tone else run for run, tone in painted)


PLAIN = Style()


def _toned(parts: tuple[Part, ...]) -> Iterator[tuple[str, Tone]]:
    for part in parts:
        text, tone = (part, Tone.PLAIN) if isinstance(part, str) else part
        yield visible(text), tone
