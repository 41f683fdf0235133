"""Deleting a volume: approved, sent once where once is enough, and gone before it counts as done."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Step
from reconciler.project.run import run_plan
from tests.execution.stage import Stage, cluster, outcomes, plan, secret, volume

ADDRESS = "Volume/shop/data"
DELETE = f"{ADDRESS}#delete"
DELETABLE = "lifecycle: {deletion: delete, snapshot_before: []}\n"
WITH_SNAPSHOT = "lifecycle: {deletion: delete}\n"
BY_AGE = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
    "spec: {selector: {}, snapshot_max_age_h: 24}\n"
)
ONE = "/v1/apps/shop/volumes/*"


MISSING = {
    "method": "DELETE",
    "path": ONE,
    "action": "status",
    "status": 404,
    "body": {"error": "no such object"},
}


@pytest.mark.parametrize(
    ("faults", "read_lag_s", "outcome", "sent"),
    [
        ([{"action": "drop_after"}], 0, "done", 1),
        ([{"action": "drop_before"}], 0, "done", 2),
        ([{"action": "drop_after"}], 20, "done", 2),
        ([{"action": "drop_before"}, MISSING], 0, "unknown", 2),
        ([MISSING, {"method": "GET", "action": "status", "status": 403, "times": None}], 0, "unknown", 1),
    ],
    ids=[
        "looked up",
        "sent once more",
        "repeated after a lagging read",
        "404 to the second",
        "no read after 404",
    ],
)
async def test_a_delete_without_a_clear_answer_is_looked_up(
    stage: Stage, faults: Sequence[dict[str, Any]], read_lag_s: int, outcome: str, sent: int
) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.switch(read_lag_s=read_lag_s)
    for fault in faults:
        stage.fault(**{"method": "DELETE", "path": ONE, **fault})
    assert outcomes(await stage.apply("", approved_deletes=[ADDRESS])) == {DELETE: outcome}
    assert stage.line.mutations.count("DELETE") == sent
    assert (Address.parse(ADDRESS) in (await stage.store.load()).records) is (outcome == "unknown")


async def test_a_volume_counts_as_deleted_only_when_reads_stop_showing_it(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.switch(read_lag_s=20)
    applied = await stage.apply("", approved_deletes=[ADDRESS])
    assert outcomes(applied) == {DELETE: "done"}
    again = await stage.apply(volume(rest=DELETABLE))
    assert outcomes(again) == {f"{ADDRESS}#create": "done"}


async def test_a_refused_delete_that_is_tried_again_takes_no_second_snapshot(stage: Stage) -> None:
    await stage.apply(volume(rest=WITH_SNAPSHOT))
    stage.fault(method="DELETE", path=ONE, action="status", status=412)
    refused = await stage.apply("", approved_deletes=[ADDRESS])
    assert outcomes(refused) == {f"{ADDRESS}#snapshot": "done", DELETE: "failed"}
    again = await stage.apply("", approved_deletes=[ADDRESS])
    assert outcomes(again) == {f"{ADDRESS}#wait-snapshot": "done", DELETE: "done"}
    assert stage.line.mutations == ["POST", "POST", "DELETE", "DELETE"]


async def test_a_delete_that_lists_do_not_show_yet_is_done_and_says_so(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.switch(read_lag_s=600)
    (result,) = (await stage.apply("", approved_deletes=[ADDRESS])).results
    assert (result.outcome, result.error) == (
        "done",
        "the platform accepted the deletion, but still lists the object",
    )


KINDS = {
    "volume": (volume(rest=DELETABLE), ADDRESS, ONE, ()),
    "cluster": (
        cluster("lifecycle: {deletion: delete}\n"),
        "PostgresCluster/orders",
        "/v1/postgres/*",
        ("postgres.delete",),
    ),
    "secret": (
        secret(rest="lifecycle: {deletion: delete}\n"),
        "Secret/shop/PASSWORD",
        "/v1/apps/shop/secrets/*",
        ("secrets.list", "secrets.delete"),
    ),
}


async def test_the_wait_for_a_deletion_says_that_the_object_is_still_there(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.fault(**MISSING)
    seen = set[str]()

    class Told(Reporter):
        def step_waiting(self, step: Step, what: str, waited_s: float) -> None:
            seen.add(what)

    stage.reporter = Told()
    await stage.apply("", approved_deletes=[ADDRESS])
    assert seen == {"there"}


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_that_is_still_shown_is_not_deleted_whatever_the_answer_says(
    stage: Stage, kind: str, status: int
) -> None:
    """A token without the right, or an edge that lags behind, answers so too."""
    manifest, address, path, capabilities = KINDS[kind]
    stage.capabilities = frozenset(capabilities)
    await stage.apply(manifest)
    stage.fault(method="DELETE", path=path, action="status", status=status, body={"error": "no such object"})
    applied = await stage.apply("", approved_deletes=[address])
    assert outcomes(applied) == {f"{address}#delete": "unknown"}
    assert "no such object" in applied.results[-1].error
    assert applied.notices == ()  # nobody is asked
    assert Address.parse(address) in (await stage.store.load()).records
    assert stage.line.mutations.count("DELETE") == 1
    again = await stage.apply("", approved_deletes=[address])
    assert outcomes(again) == {f"{address}#delete": "done"}
    assert Address.parse(address) not in (await stage.store.load()).records


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_that_somebody_else_deleted_meanwhile_is_done(stage: Stage, kind: str) -> None:
    manifest, address, path, capabilities = KINDS[kind]
    stage.capabilities = frozenset(capabilities)
    await stage.apply(manifest)
    stage.fault(method="DELETE", path=path, action="status", status=404, after=True, body={"error": "gone"})
    assert outcomes(await stage.apply("", approved_deletes=[address])) == {f"{address}#delete": "done"}
    assert Address.parse(address) not in (await stage.store.load()).records


@pytest.mark.parametrize(
    ("approved", "path", "why"),
    [
        ((), None, "was not approved"),
        ((ADDRESS,), "/v1/apps/shop/volumes/vol_other", "is not about the recorded object"),
        ((ADDRESS,), "/v1/apps/shop/volumes", "is not about the recorded object"),
    ],
)
async def test_before_it_is_sent_a_delete_is_that_of_the_recorded_and_approved_id(
    stage: Stage, approved: Sequence[str], path: str | None, why: str
) -> None:
    await stage.apply(volume(rest=DELETABLE))
    found = await plan(stage, "")
    (step,) = found.steps
    step = replace(step, call=dataclasses.replace(step.call, path=path or step.call.path))
    applied = await run_plan(stage.project(), replace(found, steps=(step,)), approved_deletes=approved)
    assert [why in each.error for each in applied.results] == [True]
    assert "DELETE" not in stage.line.mutations


async def test_before_it_is_sent_a_change_is_that_of_the_recorded_id(stage: Stage) -> None:
    await stage.apply(volume())
    found = await plan(stage, volume(spec="region: ams, size_gb: 20"))
    (step,) = found.steps
    path = "/v1/apps/shop/volumes/vol_other/extend"
    step = replace(step, call=dataclasses.replace(step.call, path=path))
    applied = await run_plan(stage.project(), replace(found, steps=(step,)), approved_deletes=())
    assert "is not about the recorded object" in applied.results[0].error
    assert stage.line.mutations == ["POST"]


async def test_an_app_that_is_not_found_does_not_mean_that_its_volume_is_gone(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    app_missing = {"status": 404, "body": {"error": "Could not find App"}}
    stage.fault(method="DELETE", path=ONE, action="drop_before", times=2)
    stage.fault(method="GET", path=ONE, action="status", times=None, **app_missing)
    applied = await stage.apply("", approved_deletes=[ADDRESS])
    assert "done" not in outcomes(applied).values()
    assert Address.parse(ADDRESS) in (await stage.store.load()).records
    assert [each["state"] for each in stage.volumes()] == ["created"]


@pytest.mark.parametrize("answer", ["seen", "lost"])
async def test_a_snapshot_taken_for_its_age_is_not_the_one_before_a_delete(stage: Stage, answer: str) -> None:
    held = volume(spec="region: ams, size_gb: 10, auto_backup_enabled: false", rest=WITH_SNAPSHOT)
    await stage.apply(held)
    stage.time.elapsed_s += 25 * 3600
    if answer == "lost":
        stage.fault(method="POST", path=f"{ONE}/snapshots", action="drop_after")
    await stage.apply(held + BY_AGE)
    assert stage.line.mutations == ["POST", "POST"]
    stage.time.elapsed_s += 50 * 60
    done = outcomes(await stage.apply("", approved_deletes=[ADDRESS]))
    assert done == {f"{ADDRESS}#snapshot": "done", DELETE: "done"}
