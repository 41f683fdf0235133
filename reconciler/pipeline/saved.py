"""Saved plans of one state: signed with its key, and read only if they are."""

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.steps import Plan
from reconciler.planning import saved
from reconciler.secrets.fingerprint import plan_key
from reconciler.state.store import Store


async def dump_plan(store: Store, plan: Plan) -> bytes:
    """`plan`, signed with the key of the state. Raises ReconcilerError where there is no state."""
    return saved.dump_plan(plan, await _key(store, "a plan is saved"))


async def load_plan(store: Store, text: bytes) -> Plan:
    """Raises ReconcilerError where there is no state, and for what was not made with it, or changed since."""
    return saved.load_plan(text, await _key(store, "a saved plan runs"))


async def _key(store: Store, what: str) -> bytes:
    if not (await store.load()).lineage:
        init = command("state", "init")
        raise ReconcilerError(
            f"there is no state, and {what} only with one: its key signs the plan",
            help=f"check --state, or make a state with `{init}`",
            advice=(init,),
        )
    return plan_key(await store.fingerprint_key())
