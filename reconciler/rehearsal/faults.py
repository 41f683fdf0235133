"""What may become of one call in a rehearsal: whether it takes effect, and what its sender gets to see."""

from msgspec import Struct

KILLED = "killed"


class Course(Struct, frozen=True):
    """`effect`: the call is carried out. `status`: answered so, instead of the real answer; 0: no answer.

    `late`: nothing is answered before the sender's deadline is over.
    """

    effect: bool
    status: int = 0
    late: bool = False
    retry_after_s: int = 0


COURSES = {  # for each of `matrix.CALL_FAULTS`
    "lost_before": Course(effect=False),
    "lost_after": Course(effect=True),
    "error_after": Course(effect=True, status=502),
    "slow": Course(effect=True, late=True),
    "refused_412": Course(effect=False, status=412),
    "limited_429": Course(effect=False, status=429, retry_after_s=7),
    KILLED: Course(effect=True),
}
