"""The bounds of one run."""

from msgspec import Struct


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """`concurrency`: calls at a time. `read_concurrency`: GETs at a time while planning.

    `deadline_s`: seconds for one request. `settle_s`: seconds after which a lost create cannot take effect
    any more. `adopt_inferred`: a lost create is settled by evidence alone; without it, a person must decide.
    """

    concurrency: int
    deadline_s: float
    settle_s: float
    adopt_inferred: bool
    read_concurrency: int

    @property
    def repeat_after_s(self) -> float:
        """Seconds from a lost absolute call to its repetition, which the lost call must not overtake."""
        return min(self.deadline_s, self.settle_s)
