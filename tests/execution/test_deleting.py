"""Deleting a volume: approved, sent once where once is enough, and gone before it counts as done."""

import dataclasses
from collections.abc import Sequence

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
ONE = "/v1/apps/shop/volumes/*"


async def test_a_delete_whose_answer_was_lost_is_looked_up_and_not_sent_again(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.fault(method="DELETE", path=ONE, action="drop_after")
    applied = await stage.apply("", approved_deletes=[ADDRESS])
    assert outcomes(applied) == {DELETE: "done"}
    assert stage.line.mutations.count("DELETE") == 1
    assert Address.parse(ADDRESS) not in (await stage.store.load()).records


async def test_a_delete_that_did_not_arrive_is_sent_once_more(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.fault(method="DELETE", path=ONE, action="drop_before")
    applied = await stage.apply("", approved_deletes=[ADDRESS])
    assert outcomes(applied) == {DELETE: "done"}
    assert stage.line.mutations.count("DELETE") == 2


async def test_a_lagging_list_makes_it_repeat_a_delete_that_landed_which_is_done_too(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.switch(read_lag_s=20)
    stage.fault(method="DELETE", path=ONE, action="drop_after")
    applied = await stage.apply("", approved_deletes=[ADDRESS])
    assert outcomes(applied) == {DELETE: "done"}
    assert stage.line.mutations.count("DELETE") == 2


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
    stage.fault(method="DELETE", path=ONE, action="status", status=404, body={"error": "no such object"})
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


async def test_a_repeated_delete_that_is_answered_404_is_looked_up_too(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.fault(method="DELETE", path=ONE, action="drop_before")
    stage.fault(method="DELETE", path=ONE, action="status", status=404, body={"error": "no such object"})
    assert outcomes(await stage.apply("", approved_deletes=[ADDRESS])) == {DELETE: "unknown"}
    assert Address.parse(ADDRESS) in (await stage.store.load()).records


async def test_while_no_read_answers_a_404_leaves_a_deletion_open(stage: Stage) -> None:
    await stage.apply(volume(rest=DELETABLE))
    stage.fault(method="DELETE", path=ONE, action="status", status=404, body={"error": "no such object"})
    stage.fault(method="GET", path=ONE, action="status", status=403, times=None)
    assert outcomes(await stage.apply("", approved_deletes=[ADDRESS])) == {DELETE: "unknown"}
    assert Address.parse(ADDRESS) in (await stage.store.load()).records


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
