"""Waits in simulated time: they end with the condition, the failure or the deadline."""

import pytest

from reconciler.core.model import READY_AFTER
from reconciler.execution.send_gate import OUTAGE_S
from reconciler.project.run import run_plan
from tests.execution.stage import Stage, cluster, outcomes, plan, secret, volume
from tests.execution.test_power import SUSPEND, machine, make_machine

CREATE = "PostgresCluster/orders#create"
WAIT = "PostgresCluster/orders#wait"


async def test_a_cluster_is_read_until_it_is_ready_ever_rarer_but_every_five_seconds(stage: Stage) -> None:
    applied = await stage.apply(cluster())
    assert outcomes(applied) == {CREATE: "done"}
    assert stage.time.elapsed_s > 60
    assert stage.line.mutations == ["POST"]
    reads = len(stage.line.sent) - 1
    assert stage.time.elapsed_s / 5 < reads < stage.time.elapsed_s / 5 + 15


async def test_the_deadline_leaves_it_pending_and_later_runs_go_on(stage: Stage) -> None:
    soon = cluster("lifecycle: {timeout_s: 10}\n")
    first = await stage.apply(soon)
    assert outcomes(first) == {CREATE: "pending"}
    assert stage.time.elapsed_s <= 10
    assert (await stage.record("PostgresCluster/orders")).id
    assert await stage.open_steps() == []
    assert outcomes(await stage.apply(soon)) == {WAIT: "pending"}
    assert outcomes(await stage.apply(cluster())) == {WAIT: "done"}
    assert stage.line.mutations == ["POST"]


async def test_failed_reads_do_not_end_a_wait(stage: Stage) -> None:
    stage.fault(method="GET", path="/v1/postgres/*", action="status", status=503, times=10)
    applied = await stage.apply(cluster())
    assert outcomes(applied) == {CREATE: "done"}
    assert applied.notices == ()


async def test_a_minute_of_answers_between_two_outages_begins_a_new_minute(stage: Stage) -> None:
    stage.fault(method="GET", path="/v1/postgres/*", action="status", status=503, times=8)
    stage.time.at(60, lambda: stage.fault(method="GET", path="/v1/postgres/*", action="drop_before", times=8))
    assert outcomes(await stage.apply(cluster())) == {CREATE: "done"}
    assert stage.time.elapsed_s > 100


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "status", "status": 503},
        {"action": "status", "status": 502, "headers": {"retry-after": "3600"}},
        {"action": "drop_before"},
    ],
    ids=["503", "retry-after", "cut"],
)
async def test_an_outage_ends_a_wait_with_one_diagnostic(stage: Stage, fault: dict[str, object]) -> None:
    both = cluster() + cluster(name="other")
    stage.time.at(30, lambda: stage.fault(method="GET", path="/v1/postgres/*", times=None, **fault))
    applied = await stage.apply(both)
    assert set(outcomes(applied).values()) == {"pending"}
    assert stage.time.elapsed_s <= 30 + OUTAGE_S + 30
    (notice,) = applied.notices
    assert notice.code == "wait-unanswered"
    assert notice.message.startswith("the platform has not answered since 2026-01-01 00:00:3")
    assert notice.addresses == ("PostgresCluster/orders", "PostgresCluster/other")
    stage.call("DELETE", "/_sandbox/faults", {})
    again = await stage.apply(both)
    assert set(outcomes(again).values()) == {"done"}
    assert stage.line.mutations == ["POST", "POST"]


async def test_an_outage_does_not_count_as_a_wait_in_vain(stage: Stage) -> None:
    """Else the next run would take for undone what nobody could see, and do it again."""
    make_machine(stage)
    stage.switch(suspending_s=300)
    soon = machine("suspended", rest="lifecycle: {timeout_s: 1}\n")
    assert outcomes(await stage.apply(soon)) == {SUSPEND: "pending"}
    stage.fault(method="GET", path="/v1/apps/shop/machines/*", action="drop_before", times=None)
    assert set(outcomes(await stage.apply(machine("suspended"))).values()) == {"pending"}
    assert (await stage.record("Machine/shop/worker")).applied["power"] == "suspending"


async def test_no_other_call_starts_while_the_platform_does_not_answer(stage: Stage) -> None:
    for id in ("m1", "m2"):
        make_machine(stage, id)
    stage.switch(suspending_s=300)
    stage.time.at(5, lambda: stage.fault(method="*", path="*", action="drop_before", times=None))
    both = machine("suspended") + machine("suspended", "m2", "other")
    applied = await stage.apply(both)
    assert sorted(outcomes(applied).values()) == ["pending", "skipped"]
    assert stage.line.mutations == ["POST"]
    assert "the platform has not answered for" in next(
        each.error for each in applied.results if each.outcome == "skipped"
    )
    assert [notice.code for notice in applied.notices] == ["wait-unanswered"]


@pytest.mark.parametrize("status", ["failed", "error"])
async def test_a_failed_cluster_ends_the_wait_and_keeps_its_id(stage: Stage, status: str) -> None:
    stage.switch(cluster_outcome=status)
    applied = await stage.apply(cluster())
    (result,) = applied.results
    assert result.outcome == "failed"
    assert status in result.error
    assert (await stage.record("PostgresCluster/orders")).id == result.id


async def test_stopping_ends_a_wait_as_pending(stage: Stage) -> None:
    applied = await stage.apply(cluster(), on_executor=lambda executor: stage.time.at(20, executor.stop))
    assert outcomes(applied) == {CREATE: "pending"}
    assert applied.interrupted


async def test_an_extend_is_waited_for_until_reads_show_it(stage: Stage) -> None:
    await stage.apply(volume())
    stage.switch(read_lag_s=8)
    before_s = stage.time.elapsed_s
    await stage.apply(volume(spec="region: ams, size_gb: 20"))
    assert stage.time.elapsed_s >= before_s + 8


DSN = secret("DSN", '{template: "${PostgresCluster/orders:endpoints.primary.pooler.host}"}')


@pytest.mark.parametrize("moved", [False, True])
async def test_a_value_that_is_known_late_is_sent_only_if_it_differs(stage: Stage, moved: bool) -> None:
    await stage.apply(cluster() + DSN)
    id = (await stage.record("PostgresCluster/orders")).id
    world = stage.call("GET", "/_sandbox/world", {})["clusters"][0]
    endpoints = world["endpoints"]
    endpoints["primary"]["pooler"]["host"] = "moved.host" if moved else endpoints["primary"]["pooler"]["host"]
    half = {"data": {**world, "endpoints": None, "status": "creating"}}
    whole = {"data": {**world, "endpoints": endpoints, "status": "ready"}}
    stage.fault(method="GET", path=f"/v1/postgres/{id}", action="status", status=200, body=half, times=2)
    stage.fault(method="GET", path=f"/v1/postgres/{id}", action="status", status=200, body=whole, times=9)
    before = len(stage.line.mutations)
    applied = await stage.apply(cluster() + DSN)
    assert outcomes(applied)["Secret/shop/DSN#set"] == "done"
    assert len(stage.line.mutations) - before == (1 if moved else 0)


async def test_what_is_still_being_made_says_since_when_and_what_others_took(stage: Stage) -> None:
    soon = cluster("lifecycle: {timeout_s: 10}\n")
    (alone,) = (await stage.apply(soon)).results
    assert alone.error.startswith("still creating, since 2026-01-01 00:00 UTC (7 s); run again")
    await stage.apply(cluster())  # ready after 150 s
    other = soon.replace("name: orders", "name: other")
    (beside,) = (await stage.apply(cluster() + other)).results
    assert "(7 s; others took 15" in beside.error
    noticed = await plan(stage, cluster() + other)
    (change,) = noticed.changes
    assert "(7 s; others took 15" in change.reason


async def test_a_cluster_that_became_ready_unseen_does_not_say_how_long_it_took(
    stage: Stage,
) -> None:
    await stage.apply(cluster("lifecycle: {timeout_s: 10}\n"))
    planned = await plan(stage, cluster())
    await stage.time.sleep(86400)
    await run_plan(stage.project(), planned, approved_deletes=())
    assert READY_AFTER not in (await stage.record("PostgresCluster/orders")).applied
