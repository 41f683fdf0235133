"""What a person may say about a lost call: what can be true, and nothing that takes another one's object."""

import pytest

from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.execution.decisions import Actor
from reconciler.planning.declared import Desired
from reconciler.project.apply import run_saved
from reconciler.project.records import move
from reconciler.project.resolve import confirm_inferred, resolve_unknown, settle_restarts
from tests.execution.stage import SETTLE_S, Stage, cluster, left_open, loaded, outcomes, plan, volume

DATA = Address.parse("Volume/shop/data")
ORDERS = Address.parse("PostgresCluster/orders")


async def adopt(stage: Stage, address: Address, id: str) -> str:
    return await resolve_unknown(stage.project(), address, adopt=id)


@pytest.mark.parametrize("force", [False, True])
async def test_an_object_that_another_address_has_is_refused(stage: Stage, force: bool) -> None:
    """Two records of one volume: to delete one would be to delete the other's data."""
    await stage.apply(volume("other"))
    taken = (await stage.record("Volume/shop/other")).id
    await left_open(stage, volume("other") + volume(), "POST")
    with pytest.raises(ReconcilerError, match="is recorded as `Volume/shop/other`"):
        await resolve_unknown(stage.project(), DATA, adopt=taken, force=force)
    assert await stage.open_steps() == ["Volume/shop/data#create"]


async def test_an_object_that_an_address_of_another_app_has_is_refused(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    made = stage.volumes()[0]["id"]
    await recorded(stage, "Volume/blog/posts", made)
    with pytest.raises(ReconcilerError, match="is recorded as `Volume/blog/posts`"):
        await adopt(stage, DATA, made)


async def test_an_object_that_is_recorded_twice_is_not_moved(stage: Stage) -> None:
    await stage.apply(volume())
    await recorded(stage, "Volume/blog/posts", (await stage.record()).id)
    target = Address.parse("Volume/shop/files")
    with pytest.raises(ReconcilerError, match="`Volume/shop/data` and as `Volume/blog/posts`") as refused:
        await move(stage.store, DATA, target, Actor(stage.time, "test", run="r9"))
    assert "reconcile state forget Volume/blog/posts" in refused.value.help
    assert await stage.record()


async def test_an_object_that_was_recorded_elsewhere_since_is_not_adopted(stage: Stage) -> None:
    made = stage.make_volume()
    planned = await plan(stage, volume())
    assert [change.action for change in planned.changes] == ["adopt"]
    await recorded(stage, "Volume/blog/posts", made)
    with pytest.raises(Refused) as refused:
        await run_saved(stage.project(), Desired(loaded(stage, volume())), planned, ())
    assert {"adopt-conflict", "plan-moved"} <= {each.code for each in refused.value.diagnostics}
    assert set((await stage.store.load()).records) == {Address.parse("Volume/blog/posts")}


async def recorded(stage: Stage, address: str, id: str) -> None:
    """What another run has recorded meanwhile."""
    lease = await stage.store.lease(["blog"], "another")
    one = StateRecord(Address.parse(address), id, "blog", {}, Lifecycle(), stage.time.now())
    await stage.store.commit(lease, [], [one])
    await stage.store.release(lease)


async def test_a_cluster_that_another_address_has_is_refused(stage: Stage) -> None:
    other = cluster(name="other")
    await stage.apply(other)
    taken = (await stage.record("PostgresCluster/other")).id
    await left_open(stage, other + cluster(), "POST")
    with pytest.raises(ReconcilerError, match="is recorded as `PostgresCluster/other`"):
        await adopt(stage, ORDERS, taken)


@pytest.mark.parametrize("field", ["name", "region"])
async def test_a_cluster_that_the_call_did_not_ask_for_is_refused(stage: Stage, field: str) -> None:
    body = {"org_slug": "personal", "plan": "starter", "region": "ams", "name": "orders", field: "fra"}
    foreign = stage.call("POST", "/v1/postgres", body)["data"]["id"]
    await left_open(stage, cluster(), "POST")
    with pytest.raises(ReconcilerError, match=f"its {field} is `fra`, not"):
        await adopt(stage, ORDERS, foreign)
    assert await stage.open_steps() == ["PostgresCluster/orders#create"]


async def test_an_object_from_before_the_call_is_refused(stage: Stage) -> None:
    destroyed = stage.make_volume()  # it stays listed for a day
    stage.call("DELETE", f"/v1/apps/shop/volumes/{destroyed}", None)
    await left_open(stage, volume(), "POST")
    with pytest.raises(ReconcilerError, match="was there before the call was sent"):
        await adopt(stage, DATA, destroyed)


async def test_an_id_that_does_not_exist_is_refused(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    with pytest.raises(ReconcilerError, match="vol_none does not exist"):
        await adopt(stage, DATA, "vol_none")


async def test_what_the_call_made_is_recorded_as_certain(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    made = stage.volumes()[0]["id"]
    assert await adopt(stage, DATA, made) == f"recorded as {made}"
    assert (await stage.record()).inferred is False
    assert (await stage.apply(volume())).plan.steps == ()
    assert stage.line.mutations == ["POST"]


async def test_a_snapshot_that_a_person_names_serves_the_call_that_waits_for_it(stage: Stage) -> None:
    first = "lifecycle: {snapshot_before: [extend]}\n"
    grown = volume(spec="region: ams, size_gb: 20", rest=first)
    await stage.apply(volume(rest=first))
    await left_open(stage, grown, "POST")
    await stage.time.sleep(SETTLE_S)
    path = f"/v1/apps/shop/volumes/{stage.volumes()[0]['id']}/snapshots"
    stage.call("POST", path, None)  # somebody else takes one, too
    await stage.time.sleep(SETTLE_S)
    made = min(stage.call("GET", path, None), key=lambda snapshot: snapshot["created_at"])["id"]
    assert await adopt(stage, DATA, made) == f"recorded as {made}"
    assert set(outcomes(await stage.apply(grown)).values()) == {"done"}
    assert len(stage.call("GET", path, None)) == 2


async def not_created(stage: Stage, address: Address, *, force: bool = False) -> str:
    return await resolve_unknown(stage.project(), address, adopt=None, force=force)


async def test_nothing_is_said_not_to_be_created_while_it_may_still_show_up(stage: Stage) -> None:
    await left_open(stage, cluster(), "POST")
    await stage.time.sleep(SETTLE_S / 4)
    began_s = stage.time.elapsed_s
    assert "not created" in await not_created(stage, ORDERS)
    assert stage.time.elapsed_s == pytest.approx(began_s + SETTLE_S * 3 / 4)


async def test_a_person_who_knows_better_need_not_wait(stage: Stage) -> None:
    await left_open(stage, cluster(), "POST")
    assert "not created" in await not_created(stage, ORDERS, force=True)
    assert await stage.open_steps() == []


@pytest.mark.parametrize("listed", ["before the call", "only now"])
async def test_what_a_list_shows_is_not_said_not_to_be_created(stage: Stage, listed: str) -> None:
    able = frozenset({"postgres.list"})
    stage.capabilities = able if listed == "before the call" else frozenset()
    await left_open(stage, cluster(), "POST")
    stage.capabilities = able
    await stage.time.sleep(SETTLE_S)
    made = stage.call("GET", "/v1/postgres", None)["data"][0]["id"]
    with pytest.raises(ReconcilerError, match=f"may have created {made}") as refused:
        await not_created(stage, ORDERS)
    assert f"--adopt {made}" in refused.value.help
    assert "not created" in await not_created(stage, ORDERS, force=True)


async def test_of_several_objects_that_a_call_may_have_made_none_is_advised(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    stage.make_volume()
    await stage.time.sleep(SETTLE_S)
    with pytest.raises(ReconcilerError, match="may have created") as refused:
        await not_created(stage, DATA)
    assert f"resolve {DATA} --adopt ID" in refused.value.help


async def test_without_a_look_nothing_is_said_not_to_be_created(stage: Stage) -> None:
    stage.fault(method="POST", path="/v1/apps/shop/volumes", action="drop_before")
    await left_open(stage, volume(), "POST")
    await stage.time.sleep(SETTLE_S)
    stage.fault(method="GET", path="*", action="status", status=403)
    with pytest.raises(ReconcilerError, match="cannot check that nothing was created"):
        await not_created(stage, DATA)


SENT = "region: ams, size_gb: 5, encrypted: true, snapshot_retention: 7"
STRANGERS = {"size_gb": 50, "encrypted": False, "snapshot_retention": 30, "region": "fra"}


@pytest.mark.parametrize("field", STRANGERS)
async def test_a_volume_that_differs_from_the_call_is_taken_only_by_force(stage: Stage, field: str) -> None:
    await left_open(stage, volume(spec=SENT), "POST")
    body = {"name": "data", "region": "ams", "size_gb": 5, "encrypted": True, "snapshot_retention": 7}
    stranger = stage.call("POST", "/v1/apps/shop/volumes", {**body, field: STRANGERS[field]})["id"]
    with pytest.raises(ReconcilerError, match=f"its {field} is `{STRANGERS[field]}`, not") as refused:
        await adopt(stage, DATA, stranger)
    assert "--force" in refused.value.help
    assert await resolve_unknown(stage.project(), DATA, adopt=stranger, force=True)
    assert (await stage.record()).id == stranger


async def owing_restarts(stage: Stage, *names: str) -> str:
    """Volumes that one machine holds, all of which owe a restart after an extend; the machine's id."""
    stage.switch(extend_needs_restart="always")
    await stage.apply("".join(map(volume, names)))
    held = [item["id"] for item in stage.volumes()]
    stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": "m1", "volumes": held})
    await stage.apply("".join(volume(name, spec="region: ams, size_gb: 20") for name in names))
    return "m1"


async def owed(stage: Stage) -> list[str]:
    return [
        str(address) for address, record in (await stage.store.load()).records.items() if record.obligations
    ]


async def test_one_command_settles_all_restarts_of_a_machine(stage: Stage) -> None:
    machine = await owing_restarts(stage, "a", "b")
    await stage.apply(volume("c") + volume("a", spec="region: ams, size_gb: 20"))
    assert sorted(await owed(stage)) == ["Volume/shop/a", "Volume/shop/b"]
    with pytest.raises(ReconcilerError, match="no volume of machine m2 owes a restart"):
        await settle_restarts(stage.project(), (), machine="m2")
    settled = await settle_restarts(stage.project(), (), machine=machine)
    assert sorted(map(str, settled)) == ["Volume/shop/a", "Volume/shop/b"]
    assert await owed(stage) == []


async def test_several_restarts_are_settled_by_address_or_none_is(stage: Stage) -> None:
    await owing_restarts(stage, "a", "b")
    addresses = [Address.parse("Volume/shop/a"), Address.parse("Volume/shop/b")]
    with pytest.raises(ReconcilerError, match="`Volume/shop/data` owes no restart") as refused:
        await settle_restarts(stage.project(), [*addresses, DATA])
    assert "what owes one: Volume/shop/a, Volume/shop/b;" in refused.value.help
    assert len(await owed(stage)) == 2
    await settle_restarts(stage.project(), addresses)
    assert await owed(stage) == []


async def test_all_inferred_ids_are_confirmed_at_once_with_what_was_sent(stage: Stage) -> None:
    stage.fault(method="POST", path="/v1/apps/shop/volumes", action="drop_after", times=2)
    await stage.apply(volume("a") + volume("b"))
    told = await confirm_inferred(stage.project(), ())
    assert sorted(map(str, told)) == ["Volume/shop/a", "Volume/shop/b"]
    assert "name a, region ams, size_gb 10" in told[Address.parse("Volume/shop/a")]
    assert not any(record.inferred for record in (await stage.store.load()).records.values())
    with pytest.raises(ReconcilerError, match="`Volume/shop/a` has no inferred id"):
        await confirm_inferred(stage.project(), [Address.parse("Volume/shop/a")])
