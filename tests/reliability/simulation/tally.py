"""How often each kind of event was reached: without this, no violations could mean nothing happened."""

from collections import Counter
from collections.abc import Mapping

from tests.reliability.simulation.faults import SPELLS, kinds_for
from tests.reliability.simulation.scenario import State


class Tally(Counter[str]):
    """Counts by class, such as `fault mutation late` or `crash commit:after`."""

    def note(self, *words: str) -> None:
        self[" ".join(words)] += 1


SEAMS = (
    "read:before",
    "read:after",
    "mutation:before",
    "mutation:sent",
    "mutation:effect",
    "mutation:after",
    "commit:before",
    "commit:after",
    "lease:after",
    "release:before",
    "sleep",
)

_EVERYWHERE = frozenset(
    {
        *(f"fault {channel} {kind}" for channel in ("read", "mutation") for kind in kinds_for(channel)),
        *(f"spell {kind}" for kind in SPELLS),
        *(f"crash {seam}" for seam in SEAMS),
        *(f"outcome {word}" for word in ("done", "pending", "unknown", "failed", "skipped")),
        *(f"event {word}" for word in ("step.done", "step.failed", "step.unknown", "step.settled")),
        *(f"settled {word}" for word in ("landed", "not-landed", "absolute", "by-person")),
        *(f"commit fault {place}" for place in ("before", "after")),
        *(f"decision {code}" for code in ("unknown-outcome", "object-missing", "object-destroyed")),
        *(f"decision {code}" for code in ("ambiguous-match", "volume-shrink", "immutable-field")),
        *(f"decision {code}" for code in ("volume-attached", "delete-not-approved", "moved")),
        *(f"action {word}" for word in ("create", "adopt", "extend", "update", "set", "snapshot", "delete")),
        *(f"action {word}" for word in ("suspend", "start", "restart")),
        *(f"machine {word}" for word in ("suspend", "start", "restart", "stop")),
        *(
            f"edit {word}"
            for word in ("mount", "move", "suspend", "start", "stop", "deploy", "lose_snapshot")
        ),
        "crash in flight",
        "locked out",
        "signal",
        "lease lost",
        "restart owed",
        "restarted",
        "spool kept",
        "spool failed",
        "late effect of a dead process",
    }
)

_SHARED = frozenset(
    {
        *(f"store write {kind}" for kind in ("answer lost", "request lost", "late", "refused", "slow")),
        *(f"store {what} unreachable" for what in ("read", "write")),
        *(f"pause {how}" for how in ("stopped", "hanging")),
        *(f"crash store:{what}" for what in ("read", "write")),
        "store cut off",
        "store late write lands",
        "taken over",
        "late sender",
        "late sender beyond the settle window",
    }
)

_SERVED = frozenset(
    {
        "crash store:answered",
        "store connect unreachable",
        "store write restarted",
    }
)

REQUIRED: Mapping[State, frozenset[str]] = {
    "sqlite": _EVERYWHERE,
    "objects": _EVERYWHERE | _SHARED,
    "postgresql": _EVERYWHERE | _SHARED | _SERVED,
}
