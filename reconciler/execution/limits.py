"""The bounds of one run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`deadline_s` bounds one request, `settle_s` how late a lost create may still show up."""

    concurrency: int = 8
    deadline_s: float = 30.0
    settle_s: float = 180.0
