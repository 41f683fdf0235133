"""What a person may say about a lost call: what can be true, and nothing that takes another one's object."""

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.pipeline.resolve import resolve_unknown
from tests.execution.stage import SETTLE_S, Stage, cluster, left_open, outcomes, volume

pytestmark = pytest.mark.anyio

DATA = Address.parse("Volume/shop/data")
ORDERS = Address.parse("PostgresCluster/orders")


async def adopt(stage: Stage, address: Address, id: str) -> str:
    return await resolve_unknown(stage.project(), address, adopt=id)


async def test_an_object_that_another_address_has_is_refused(stage: Stage) -> None:
    """Two records of one volume: to delete one would be to delete the other's data."""
    await stage.apply(volume("other"))
    taken = (await stage.record("Volume/shop/other")).id
    await left_open(stage, volume("other") + volume(), "POST")
    with pytest.raises(ReconcilerError, match="is recorded as `Volume/shop/other`"):
        await adopt(stage, DATA, taken)
    assert await stage.open_steps() == ["Volume/shop/data#create"]


async def test_a_cluster_that_another_address_has_is_refused(stage: Stage) -> None:
    other = cluster().replace("name: orders", "name: other")
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
    with pytest.raises(ReconcilerError, match="there is no vol_none"):
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
