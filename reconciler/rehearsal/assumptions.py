"""What a rehearsal takes for granted: where the API document leaves something open, the twin plays one way.

The twin notes which switches of the sandbox its answers depended on. Of these, the ones are named on which an
end may depend; how a null or an error text looks changes nothing for a client that takes all forms.
"""

from collections.abc import Collection, Mapping
from typing import Any

from reconciler.rehearsal.matrix import Assumption

ASSUMED: Mapping[str, str] = {
    "attached_none": "a volume that no machine holds says so",
    "cluster_name_collision": "two clusters of an organization may have one name",
    "cluster_outcome": "a new cluster becomes ready",
    "detach_lag_s": "a volume is free as soon as its machine is destroyed",
    "extend_needs_restart": "an extend needs a restart of the machine that holds the volume, and of no other",
    "pitr_window_days": "any time of the last seven days can be restored",
    "placement": "there is room for new volumes where they are to be",
    "rate_limit": "no call is refused because of those before it",
    "read_lag_s": "what a call has changed is read at once",
    "restart_repeated": "a restart of a machine that is starting is accepted",
    "secret_digest": "an equal secret value has an equal digest",
    "snapshot_fields": "listed snapshots say what state they are in",
    "snapshot_outcome": "a snapshot that was asked for is made",
    "snapshot_reply": "the answer to a snapshot names it",
    "start_repeated": "a start of a machine that runs is accepted",
    "suspend_repeated": "a suspend of a machine that is suspended is accepted",
    "suspending_s": "a machine is suspended within ten seconds",
    "zones_per_region": "a region has five zones",
}


class Noting(dict[str, Any]):
    """Settings that note which of them were asked for."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)


def assumptions(asked: Collection[str], known: Collection[str] = ()) -> tuple[Assumption, ...]:
    """Those behind the switches that were `asked` for, without those whose setting is `known`."""
    named = set(asked) - set(known)
    return tuple(Assumption(name, says) for name, says in ASSUMED.items() if name in named)
