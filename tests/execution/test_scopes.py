"""A run of several scopes: one commit for each of them, and what stands when not all of them were made."""

from collections.abc import Collection, Sequence

import pytest

from reconciler.core.errors import StoreError
from reconciler.core.model import Action, Address, Change, Lifecycle, StateRecord
from reconciler.core.steps import Move, Plan
from reconciler.execution.recorder import Recorder
from reconciler.kinds import find_kinds
from reconciler.moves.compare import LEFT
from reconciler.moves.records import moved_records
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import JournalEntry, Lease, Store
from tests.contexts import context
from tests.execution.stage import START, Stage, cluster, left_open, outcomes, plan, volume
from tests.state.doubles import known_as, made, spooling

ORDERS = Address("PostgresCluster", "orders")
MAIN = Address("PostgresCluster", "main")
COPY = Address("PostgresCluster", "copy")  # of another organization, restored from `orders`
LOGS = Address("Volume", "logs", "shop")
SCOPES = ("org/acme", "org/beta", "shop")


class Refusing(Store):
    """Takes no commit to these scopes."""

    def __init__(self, inner: MemoryStore, scopes: Collection[str]) -> None:
        super().__init__(inner)
        self.scopes = scopes
        self.committed: list[str] = []

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        if lease.scope in self.scopes:
            raise StoreError(f"no commit to {lease.scope}")
        self.committed.append(lease.scope)
        return await super().commit(lease, entries, put, remove)


def record(address: Address, scope: str, **applied: object) -> StateRecord:
    return StateRecord(address, f"id_{address.name}", scope, applied, Lifecycle(), START)


async def prepared(stage: Stage, refused: Collection[str] = ()) -> tuple[Refusing, Recorder, Plan]:
    """A run that renames a cluster which one of another scope names, and forgets a volume in a third."""
    inner = made(stage.time)
    lease = await inner.lease(SCOPES, "test")
    known = [
        record(ORDERS, "org/acme"),
        record(COPY, "org/beta", restore={"from": "orders"}),
        record(LOGS, "shop"),
    ]
    records = {}
    for each in known:
        (records[each.address],) = await inner.commit(lease.of(each.scope), [], [each])
    stage.store = spooling(store := Refusing(inner, refused), stage.time, stage.root)
    forgets = (Change(LOGS, Action.FORGET), Change(Address("Volume", "gone", "shop"), Action.FORGET))
    moves = (Move(ORDERS, MAIN, "id_orders", records[ORDERS].serial),)
    plan = Plan("plan-1", context("", START), forgets, (), (), (), (), (), moves=moves)
    return store, Recorder(stage.store, lease, "run", stage.time, records), plan


async def test_a_run_begins_and_ends_in_each_of_its_scopes(stage: Stage) -> None:
    store, recorder, plan = await prepared(stage)
    await recorder.start(plan)
    assert store.committed == ["org/beta", "shop", "org/acme"]  # what names a record, before it moves
    state = await store.load()
    assert set(state.records) == {MAIN, COPY}
    assert state.records == recorder.records
    assert state.records[COPY].applied["restore"] == {"from": "main"}
    assert state.plans_run == {"plan-1"}
    await recorder.finish()
    assert sorted(store.committed[3:]) == sorted(SCOPES)


@pytest.mark.parametrize("refused", SCOPES)
async def test_a_run_that_starts_in_some_scopes_has_run_and_can_be_repeated(
    stage: Stage, refused: str
) -> None:
    store, recorder, plan = await prepared(stage, [refused])
    with pytest.raises(StoreError, match=f"no commit to {refused}"):
        await recorder.start(plan)
    state = await store.load()
    assert state.plans_run == {"plan-1"}
    assert ORDERS in state.records
    store.scopes = ()
    moved = moved_records(find_kinds(), plan.moves, state.records)
    assert moved[MAIN].id == "id_orders"
    again = Recorder(stage.store, await _lease(store), "run-2", stage.time, state.records)
    await again.start(plan)
    state = await store.load()
    assert set(state.records) == {MAIN, COPY}
    assert state.records[COPY].applied["restore"] == {"from": "main"}


async def _lease(store: Refusing) -> Lease:
    await store.close()  # the first run's process has ended
    assert isinstance(store.inner, MemoryStore)
    return await store.inner.lease(SCOPES, "another")


class Checked(Store):
    """Notes of which scopes a lease was checked."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.scopes: list[tuple[str, ...]] = []

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        self.scopes.append(lease.scopes)
        await super().check(lease, for_s)


async def test_a_call_costs_a_check_of_its_own_scope_however_many_there_are(stage: Stage) -> None:
    stage.store = spooling(store := Checked(made(stage.time)), stage.time, stage.root)
    applied = await stage.apply(f"{volume('data')}{volume('logs')}{cluster()}")
    assert set(outcomes(applied).values()) == {"done"}
    assert sorted(store.scopes) == [("org/personal",), ("shop",), ("shop",)]


async def test_the_ids_that_are_tracked_are_those_of_the_records_as_they_stand(stage: Stage) -> None:
    _, recorder, plan = await prepared(stage)
    tracked = recorder.tracked_ids()
    assert set(tracked) == {"id_orders", "id_copy", "id_logs"}
    await recorder.start(plan)
    assert set(tracked) == {each.id for each in recorder.records.values()} == {"id_orders", "id_copy"}


async def test_what_has_left_another_runners_scope_needs_no_lease_there(stage: Stage) -> None:
    known = await _made(stage, f"{volume()}{cluster()}")
    await MemoryStore(known).lease(["org/personal"], "another runner")
    for outcome in ("done", None):  # the second time, there is nothing to do
        applied = await stage.apply(volume(spec="region: ams, size_gb: 20"))
        assert outcomes(applied) == ({"Volume/shop/data#extend": outcome} if outcome else {})
        assert {change.address: change.action for change in applied.plan.changes}[ORDERS] is Action.RETAIN
    assert LEFT not in (await stage.record(str(ORDERS))).applied


async def test_leaving_is_recorded_in_scopes_with_manifests_or_if_there_are_none(
    stage: Stage,
) -> None:
    await _made(stage, f"{volume()}{volume('logs')}{cluster()}")
    await stage.apply(volume())
    assert (await stage.record(str(LOGS))).applied[LEFT]
    assert LEFT not in (await stage.record(str(ORDERS))).applied
    await stage.apply("")
    assert (await stage.record(str(ORDERS))).applied[LEFT]


async def test_a_call_under_way_for_what_has_left_is_the_business_of_who_sends_it(stage: Stage) -> None:
    known = await _made(stage, volume())
    await left_open(stage, f"{volume()}{cluster()}", "POST")
    sender = MemoryStore(known)
    lease = await sender.lease(["org/personal"], "another runner")
    applied = await stage.apply(volume(spec="region: ams, size_gb: 20"))
    assert set(outcomes(applied).values()) == {"done"}
    assert (await plan(stage, volume(spec="region: ams, size_gb: 20"))).diagnostics == ()
    await sender.release(lease)
    told = (await plan(stage, volume(spec="region: ams, size_gb: 20"))).diagnostics
    assert [each.code for each in told] == ["unknown-outcome"]


async def _made(stage: Stage, manifests: str) -> MemoryState:
    known = known_as("lineage-1", bytes(32), stage.time)
    stage.store = spooling(MemoryStore(known), stage.time, stage.root)
    await stage.apply(manifests)
    return known
