"""What a plan is made from, as one value."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.moves.elsewhere import Elsewhere
from reconciler.planning.siblings import Siblings


class PlanRequest(Struct, frozen=True):
    """Everything that a plan is made from, except the answers to its reads and the values of secrets.

    `id`: of the plan. `context`: also of the state that `records` are from; its time is that of our clock, by
    which records are dated. `records`: as they are once Moved manifests are followed.
    `undecided`: addresses about which nothing may be decided, and why, such as a call of unknown outcome.
    `focus`: the only addresses that the plan is about; None for all. What they refer to is read as well.
    `siblings`: what other environments have recorded, where the plan may take anything over.
    `approved_deletes`: addresses of objects that a person wants deleted, whatever has come in their place;
    None for a plan that is only looked at, or signed: then people decide about all of its deletes.
    """

    id: str
    context: Context
    kinds: Mapping[str, Kind]
    resources: Sequence[Resource]
    records: Mapping[Address, StateRecord]
    capabilities: frozenset[str]
    undecided: Mapping[Address, Diagnostic] = field(default_factory=dict)
    focus: Collection[Address] | None = None
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    siblings: Siblings = field(default_factory=Siblings)
    approved_deletes: Collection[str] | None = ()
