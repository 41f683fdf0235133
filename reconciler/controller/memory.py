"""What the controller keeps in the state: the status of each scope, and what people ordered.

Both are notes of the state (`execution.decisions`), so that they are seen from any machine.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct, ValidationError, convert, field, to_builtins

from reconciler.controller.status import ScopeStatus
from reconciler.execution.decisions import Actor, Content, recall, remember
from reconciler.services.signing import KEEP_S, NotAuthentic
from reconciler.state.spooling import Spooling
from reconciler.state.store import State

_STATUSES, _ORDERS, _SOURCE = "controller", "controller-orders", "controller-source"


class Order(Struct, frozen=True):
    """What a person said about one scope. `suspended`: why nothing is looked at; "" for nobody said so.

    `now`: another text each time that somebody asks for a look at once; "" for never.
    """

    suspended: str = ""
    now: str = ""


class Kept(Struct, frozen=True):
    """`accepted`: the commit that a person accepted although history was rewritten; "" for none."""

    statuses: Mapping[str, ScopeStatus] = field(default_factory=dict)
    orders: Mapping[str, Order] = field(default_factory=dict)
    accepted: str = ""

    def order(self, scope: str) -> Order:
        return self.orders.get(scope, Order())


def read(state: State) -> Kept:
    """What `state` keeps. What a newer version wrote, and is not known here, is left out."""
    statuses = {}
    for scope, data in recall(state, _STATUSES).items():
        try:
            statuses[scope] = convert(data, ScopeStatus)
        except ValidationError:
            continue
    orders = {
        scope: Order(data.get("suspended", ""), data.get("now", ""))
        for scope, data in recall(state, _ORDERS).items()
    }
    return Kept(statuses, orders, recall(state, _SOURCE).get("accepted", ""))


async def write(
    store: Spooling, actor: Actor, statuses: Mapping[str, ScopeStatus], gone: frozenset[str]
) -> None:
    """Keep `statuses`, and forget those of scopes that are `gone`. Others' stay as they are."""

    def new(before: Content) -> Content:
        kept = {scope: data for scope, data in before.items() if scope not in gone}
        return kept | {scope: to_builtins(status) for scope, status in statuses.items()}

    await remember(store, actor, _STATUSES, new)


async def order(store: Spooling, actor: Actor, scope: str, **said: str | None) -> None:
    """Keep what a person `said` about `scope`: `suspended` and `now`; None takes it back."""

    def new(before: Content) -> Content:
        whole = {**before.get(scope, {}), **said}
        kept = {name: value for name, value in whole.items() if value}
        rest = {name: data for name, data in before.items() if name != scope}
        return rest | ({scope: kept} if kept else {})

    await remember(store, actor, _ORDERS, new)


async def hear(store: Spooling, actor: Actor, scopes: Collection[str], digest: str, now_s: float) -> None:
    """Order a look at `scopes` for the webhook `digest`. Raises NotAuthentic for one that came before."""

    def new(before: Content) -> Content:
        if any(digest in data.get("heard", ()) for data in before.values()):
            raise NotAuthentic("it came before")
        after = dict(before)
        for scope in scopes:
            data = before.get(scope, {})
            young = {known: at for known, at in data.get("heard", {}).items() if at >= now_s - KEEP_S}
            after[scope] = {**data, "now": digest, "heard": {**young, digest: now_s}}
        return after

    await remember(store, actor, _ORDERS, new)


async def accept(store: Spooling, actor: Actor, commit: str) -> None:
    """Keep that a person accepts a source that was rewritten to this `commit`."""
    await remember(store, actor, _SOURCE, lambda before: {"accepted": commit})
