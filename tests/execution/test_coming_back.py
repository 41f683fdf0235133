"""A volume that others destroyed, made again at its address: nothing of the old record stays."""

import pytest
from msgspec.structs import replace

from reconciler.core.errors import Refused
from reconciler.core.model import Obligation, StateRecord
from reconciler.project.run import run_plan
from tests.execution.stage import SETTLE_S, Stage, left_open, outcomes, plan, volume

ADDRESS = "Volume/shop/data"
CREATE = f"{ADDRESS}#create"


async def destroyed(stage: Stage) -> tuple[str, str]:
    """The id of a recorded volume that somebody deletes, and the manifest that brings it back."""
    await stage.apply(volume())
    id = (await stage.record()).id
    path = f"/v1/apps/shop/volumes/{id}"
    snapshot = stage.call("POST", f"{path}/snapshots", {})["Msg"]["backup"]["graph_id"]
    await stage.time.sleep(300)
    stage.call("DELETE", path, {})
    stage.line.sent.clear()
    return id, volume(spec=f"region: ams, size_gb: 10, from: {{snapshot_id: {snapshot}}}")


async def owe_a_restart(stage: Stage, record: StateRecord) -> None:
    owed = Obligation("restart", "extended from 5 to 10 GB", "owed", stage.time.now())
    lease = await stage.store.lease([record.scope], "the test")
    await stage.store.commit(lease, [], [replace(record, obligations=(owed,))])
    await stage.store.release(lease)


async def test_the_record_is_of_the_new_volume_alone(stage: Stage) -> None:
    id, again = await destroyed(stage)
    before = await stage.record()
    await owe_a_restart(stage, before)
    assert outcomes(await stage.apply(again)) == {CREATE: "done"}
    after = await stage.record()
    assert after.id != id
    assert after.created_at > before.created_at
    assert after.obligations == ()
    assert not after.inferred
    assert (await plan(stage, again)).changes == ()
    assert stage.line.mutations == ["POST"]


async def test_a_lost_answer_is_settled_as_that_of_any_create(stage: Stage) -> None:
    id, again = await destroyed(stage)
    await left_open(stage, again, "POST")
    await stage.time.sleep(SETTLE_S)
    assert (await stage.apply(again)).results == ()
    record = await stage.record()
    assert (record.id != id, record.inferred) == (True, True)
    present = [each for each in stage.volumes() if each["state"] == "created"]
    assert [each["id"] for each in present] == [record.id]
    assert stage.line.mutations == ["POST"]


async def test_nothing_is_made_beside_one_that_somebody_restored_by_hand(stage: Stage) -> None:
    _, again = await destroyed(stage)
    stage.make_volume()
    result = (await stage.apply(again)).results[0]
    assert (result.outcome, "an equal object that no record owns" in result.error) == ("failed", True)
    assert stage.line.mutations == []


async def test_nothing_is_made_in_the_place_of_one_that_came_back(stage: Stage) -> None:
    """What apply reads decides, not what the plan saw."""
    id, again = await destroyed(stage)
    saved = await plan(stage, again)
    stage.call("PATCH", f"/_sandbox/world/volumes/{id}", {"state": "created"})
    with pytest.raises(Refused, match="nothing was changed"):
        await run_plan(stage.project(), saved, approved_deletes=())
    assert stage.line.mutations == []
