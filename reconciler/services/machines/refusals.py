"""What the platform refuses with: which statuses prove that nothing happened, and which texts are told apart.

It is not known to answer with other 4xx, so a proxy may have sent them: those prove nothing, and a
needless question costs less than a second create. Source: design, section 5; platform notes.
"""

from reconciler.services.outcome import Policy
from reconciler.services.refusals import Refusal, row

POLICY = Policy(
    by_anyone=frozenset({401, 403, 413, 415, 429}),
    by_itself=frozenset({400, 404, 409, 410, 412, 422}),
    refusals=(
        row(
            Refusal.NO_CAPACITY,
            (412, 422),
            r"insufficient (capacity|resources)|placement|unique zone",
            codes=("insufficient_capacity", "volume_placement_capacity"),
        ),
        row(Refusal.APP_MISSING, (404,), r"could not find app\b"),
        row(Refusal.SNAPSHOT_SCHEDULED, (412,), r"snapshot is already scheduled"),
        row(Refusal.VOLUME_BOUND, (412,), r"currently bound to machine"),
        row(Refusal.STATE_NOT_REACHED, (408,), r"deadline_exceeded"),
    ),
)
