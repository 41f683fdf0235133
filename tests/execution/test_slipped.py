"""Bugs that were once planted from outside, and that only a long simulation found, or nothing at all."""

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.passing import Passing
from reconciler.state.store import Lease
from tests.execution.stage import SETTLE_S, Stage, left_open, outcomes, volume
from tests.state.doubles import spooling

ADDRESS = "Volume/shop/data"
VOLUMES = "/v1/apps/shop/volumes"
AUTO = "lifecycle: {restart: auto}\n"
DELETABLE = "lifecycle: {deletion: delete, snapshot_before: []}\n"


async def test_a_restart_of_one_machine_settles_nothing_of_another_machine(stage: Stage) -> None:
    stage.capabilities = frozenset({"machine.restart"})
    both = "".join(volume(name, rest=AUTO) for name in ("data", "logs"))
    await stage.apply(both)
    for each in stage.volumes():
        machine = {"app": "shop", "id": f"m-{each['name']}", "volumes": [each["id"]]}
        stage.call("POST", "/_sandbox/machines", machine)
    stage.fault(method="POST", path="*/m-logs/restart", action="status", status=412)
    applied = await stage.apply(both.replace("size_gb: 10", "size_gb: 20"))
    assert outcomes(applied)[f"{ADDRESS}#restart"] == "done"
    assert [str(owed.address) for owed in applied.owed] == ["Volume/shop/logs"]
    assert (await stage.record()).obligations == ()
    assert len((await stage.record("Volume/shop/logs")).obligations) == 1


async def test_the_settle_window_of_a_call_of_an_earlier_run_is_waited_out(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    await left_open(stage, volume(), "POST")
    sent_s = stage.time.elapsed_s
    stage.time.at(sent_s + SETTLE_S / 2, stage.make_volume)  # what the lost call makes, late
    assert (await stage.apply(volume())).results == ()
    assert stage.time.elapsed_s >= sent_s + SETTLE_S
    assert [each["id"] for each in stage.volumes()] == [(await stage.record()).id]


async def test_an_app_that_is_not_found_does_not_mean_that_its_volume_is_gone(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    app_missing = {"status": 404, "body": {"error": "Could not find App"}}
    stage.fault(method="DELETE", path=f"{VOLUMES}/*", action="drop_before", times=2)
    stage.fault(method="GET", path=f"{VOLUMES}/*", action="status", times=None, **app_missing)
    applied = await stage.apply("", approved_deletes=[ADDRESS])
    assert "done" not in outcomes(applied).values()
    assert Address.parse(ADDRESS) in (await stage.store.load()).records
    assert [each["state"] for each in stage.volumes()] == ["created"]


class LostBefore(Passing):
    """Its lease is somebody else's at the check before the call with this number."""

    call = 2
    checks = 0

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        if for_s:
            self.checks += 1
            if self.checks == self.call:
                raise StoreError("the lease is somebody else's")
        await super().check(lease, for_s)


async def test_the_lease_is_checked_before_a_second_attempt_too(stage: Stage) -> None:
    stage.store = spooling(LostBefore(stage.store.inner), stage.time, stage.root)
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    applied = await stage.apply(volume())
    assert outcomes(applied) == {f"{ADDRESS}#create": "failed"}
    assert "somebody else's" in applied.results[0].error
    assert stage.line.mutations == ["POST"]
    assert stage.volumes() == []
