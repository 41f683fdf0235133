"""Objects that are fuller than their manifest allows (`alert_at`), and when they will be full."""

from reconciler.core.diagnostics import Diagnostic, warning
from reconciler.core.model import ALERT_AT, Effect, FieldChange, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import FillsUp, Look
from reconciler.project.looks import recorded_looks
from reconciler.project.trends import outlook, trend_of
from reconciler.state.store import State


def filling(
    kind: Kind, record: StateRecord, resource: Resource | None, look: Look, state: State
) -> tuple[FieldChange, Diagnostic] | None:
    """Return the missed `alert_at`, and a warning with what the looks so far say of the time ahead.

    None: it is met, or nobody knows how full the object is.
    """
    allowed = resource.objectives.get(ALERT_AT) if resource is not None else None
    percent, role = look.percent, kind.role(FillsUp)
    if resource is None or role is None or allowed is None or percent is None or percent < allowed:
        return None
    trend = trend_of((*recorded_looks(state, kind.name, record.id), look))
    cure = "make it larger, or remove data"
    if (grow := resource.grow) is not None:
        most_gb = role.most_gb(resource.spec)
        cure = f"an apply makes it larger at {grow.at} %, up to {most_gb} GB; or remove data"
    problem = warning(
        "volume-filling",
        f"`{record.address}` ({record.id}): {look}; {outlook(trend, look.total_bytes or 0)}",
        resource.span("metadata", "name"),
        help=cure,
        about=(record.address,),
    )
    return FieldChange(ALERT_AT, f"{allowed}%", f"{percent}%", Effect.REFUSED), problem
