"""What a proof counted, and what was wrong."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
