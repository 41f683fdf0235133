"""Drills that run: what they send, what they leave, and what holds them up."""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reconciler.approvals.rules import Authority, Rule, Said
from reconciler.core.errors import Locked, ReconcilerError, Refused
from reconciler.core.model import Address, Deletion, Lifecycle
from reconciler.drift.find import find_drift
from reconciler.drills.results import proofs
from reconciler.execution.decisions import MADE, remember
from reconciler.execution.executor import Executor
from reconciler.kinds import find_kinds
from reconciler.project.drill import ONE_AT_A_TIME, run_drills
from reconciler.project.plan import make_plan
from reconciler.services.machines.wire.cluster import ClusterBackup
from reconciler.state.store import Event
from tests.approvals.people import Person, signers
from tests.drills.stage import (
    DATA,
    ORDERS,
    WEEKLY,
    desired,
    drill,
    drilled,
    project_of,
    scratch,
    snapshot,
)
from tests.execution.stage import Stage, cluster, volume
from tests.guardrails.limits import limit
from tests.guardrails.times import freeze

VOLUME = volume() + drill()
CLUSTER = cluster() + drill(ORDERS)


async def of_volume(stage: Stage) -> None:
    await stage.apply(volume())
    snapshot(stage)
    await stage.time.sleep(3600)
    stage.line.sent.clear()


async def of_cluster(stage: Stage) -> None:
    await stage.apply(cluster())
    await stage.time.sleep(3600)
    stage.line.sent.clear()


async def killed(stage: Stage, manifests: str, method: str) -> None:
    """A drill that is killed while it waits for the answer to a `method`, which was carried out."""
    stage.fail_at(Event.UNKNOWN)  # a killed process writes nothing any more
    stage.line.hangs.add(method)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(drilled, stage, manifests, WEEKLY))
        await stage.line.reached.wait()
        group.cancel_scope.cancel()
    stage.mend()
    stage.line.hangs.clear()
    stage.line.reached = anyio.Event()


async def left(stage: Stage, manifests: str = VOLUME) -> Address:
    """The address of what a drill restored into and left, since its delete was refused."""
    await of_volume(stage)
    stage.fault(method="DELETE", path="/v1/apps/shop/volumes/*", action="status", status=403)
    (ran,) = await drilled(stage, manifests, WEEKLY)
    assert ran.result is not None
    assert ran.result.passed
    assert ran.left is not None
    stage.line.sent.clear()
    return ran.left


# --- one drill ---


async def test_a_volume_is_restored_looked_at_and_deleted_again(stage: Stage) -> None:
    await of_volume(stage)
    (source,) = stage.volumes()
    (ran,) = await drilled(stage, VOLUME, WEEKLY)
    assert ran.result is not None
    assert (ran.result.passed, ran.left) == (True, None)
    assert [(check.name, check.verdict) for check in ran.result.checks] == [
        ("ready", "passed"),
        ("size", "passed"),
        ("contents", "not configured"),
    ]
    assert "not verified" in ran.result.checks[-1].detail
    made = next(each["id"] for each in stage.volumes() if each["name"].startswith("drill-weekly-"))
    assert [request for request in stage.line.sent if request[0] != "GET"] == [
        ("POST", "/v1/apps/shop/volumes"),
        ("DELETE", f"/v1/apps/shop/volumes/{made}"),
    ]
    assert next(each for each in stage.volumes() if each["id"] == source["id"]) == source
    assert scratch(stage) == []


async def test_in_an_agents_run_nothing_is_restored_that_nobody_signed(stage: Stage) -> None:
    await of_volume(stage)
    rule = Rule.model_validate({"when": {"agent": "CLAUDECODE"}})
    authority = Authority(Said((rule,)), variables=frozenset({"CLAUDECODE"}))
    (ran,) = await drilled(stage, VOLUME, WEEKLY, project=project_of(stage, authority))
    assert "the rule {agent: CLAUDECODE} asks for the approval" in ran.why
    assert stage.line.mutations == []


async def test_a_cluster_is_restored_looked_at_and_deleted_again(stage: Stage) -> None:
    await of_cluster(stage)
    source = (await stage.record(ORDERS)).id
    (ran,) = await drilled(stage, CLUSTER, WEEKLY)
    assert ran.result is not None
    assert (ran.result.passed, ran.left, ran.result.lost_s) == (True, None, 3601.0)
    about = {request for request in stage.line.sent if request[1].startswith(f"/v1/postgres/{source}")}
    assert {request for request in about if request[0] != "GET"} == {
        ("POST", f"/v1/postgres/{source}/restore")
    }
    assert stage.line.mutations == ["POST", "DELETE"]
    assert scratch(stage) == []


async def test_each_object_of_a_selector_is_restored_by_itself(stage: Stage) -> None:
    manifests = volume() + volume("logs")
    await stage.apply(manifests)
    for each in stage.volumes():
        stage.call("POST", f"/v1/apps/shop/volumes/{each['id']}/snapshots", {})
    await stage.time.sleep(3600)
    ran = await drilled(stage, manifests + drill("{kind: Volume, app: shop}"), WEEKLY)
    assert [(str(one.of), one.result is not None and one.result.passed) for one in ran] == [
        ("Volume/shop/data", True),
        ("Volume/shop/logs", True),
    ]


async def test_a_change_that_waits_at_the_source_is_not_made(stage: Stage) -> None:
    await of_volume(stage)
    larger = volume(spec="region: ams, size_gb: 20")
    (ran,) = await drilled(stage, larger + drill(), WEEKLY)
    assert ran.result is not None
    assert ran.result.passed
    assert stage.line.mutations == ["POST", "DELETE"]
    assert (await stage.record()).applied["size_gb"] == 10


async def test_a_volume_without_a_snapshot_cannot_be_brought_back(stage: Stage) -> None:
    stage.switch(daily_snapshots="off")
    await stage.apply(volume())
    (ran,) = await drilled(stage, VOLUME, WEEKLY)
    assert ran.result is not None
    assert (ran.result.passed, ran.result.why) == (False, "there is no finished backup or snapshot of it")
    assert stage.line.mutations == ["POST"]  # of the apply


async def test_what_was_never_applied_is_not_drilled(stage: Stage) -> None:
    await stage.apply(volume("other"))
    (ran,) = await drilled(stage, VOLUME, WEEKLY)
    assert (ran.result, ran.why) == (None, "`Volume/shop/data` is not there: apply it first")


async def test_a_password_that_cannot_be_read_stops_it_before_the_restore(stage: Stage) -> None:
    await of_cluster(stage)
    connect = "connect: {user: drill, password_from: {env: NONE}, database: app}"
    (ran,) = await drilled(stage, cluster() + drill(ORDERS, connect), WEEKLY)
    assert ran.result is None
    assert "NONE" in ran.why
    assert stage.line.mutations == []


@pytest.mark.parametrize("trouble", ["in the clear", "no endpoint"])
async def test_a_look_that_cannot_begin_fails_it_once(
    stage: Stage, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing restores what is due again and again."""
    await of_cluster(stage)
    await stage.time.sleep(2 * 86400)
    connect = "connect: {user: drill, password_from: {env: PASSWORD}, database: app, sslmode: disable}"
    if trouble == "no endpoint":
        monkeypatch.setattr(type(find_kinds()["PostgresCluster"]), "endpoint", lambda *_: None)
    manifests = cluster() + drill(ORDERS, f"schedule: '0 3 * * *', {connect}")
    (ran,) = await drilled(stage, manifests)
    assert ran.result is not None
    assert (ran.result.passed, ran.left, scratch(stage)) == (False, None, [])
    assert ran.result.why.startswith("contents: could not verify: ")
    assert trouble in ran.result.why
    assert await drilled(stage, manifests) == []
    assert stage.line.mutations == ["POST", "DELETE"]


# --- what fails ---


@pytest.mark.parametrize("word", ["failed", "error"])
async def test_a_restore_that_ends_badly_fails_the_drill_and_leaves_nothing(stage: Stage, word: str) -> None:
    await of_cluster(stage)
    stage.switch(cluster_outcome=word)
    (ran,) = await drilled(stage, CLUSTER, WEEKLY)
    assert ran.result is not None
    assert (ran.result.passed, ran.left) == (False, None)
    assert word in ran.result.why
    assert stage.line.mutations == ["POST", "DELETE"]


async def test_a_refused_restore_fails_the_drill(stage: Stage) -> None:
    await of_cluster(stage)
    stage.fault(method="POST", path="/v1/postgres/*/restore", action="status", status=422)
    (ran,) = await drilled(stage, CLUSTER, WEEKLY)
    assert ran.result is not None
    assert ran.result.passed is False
    assert "422" in ran.result.why
    assert stage.line.mutations == ["POST"]
    assert (await drilled(stage, CLUSTER, WEEKLY))[0].left is None


@pytest.mark.parametrize("of", ["cluster", "volume"])
async def test_a_restore_whose_answer_is_lost_is_found_by_its_name(stage: Stage, of: str) -> None:
    await (of_cluster if of == "cluster" else of_volume)(stage)
    stage.limit(adopt_inferred=False)  # for a resource, a person would have to decide
    path = "/v1/postgres/*/restore" if of == "cluster" else "/v1/apps/shop/volumes"
    stage.fault(method="POST", path=path, action="drop_after")
    (ran,) = await drilled(stage, CLUSTER if of == "cluster" else VOLUME, WEEKLY)
    assert ran.left is None
    assert stage.line.mutations == ["POST", "DELETE"]
    assert scratch(stage) == []
    (again,) = await drilled(stage, CLUSTER if of == "cluster" else VOLUME, WEEKLY)
    assert again.result is not None
    assert again.result.passed


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("of", ["cluster", "volume"])
async def test_what_a_killed_drill_leaves_is_deleted_by_the_next(stage: Stage, of: str, method: str) -> None:
    await (of_cluster if of == "cluster" else of_volume)(stage)
    manifests = CLUSTER if of == "cluster" else VOLUME
    await killed(stage, manifests, method)
    await stage.time.sleep(3600)
    assert await drilled(stage, manifests) == []  # nothing is due
    assert scratch(stage) == []
    assert stage.line.mutations == ["POST", "DELETE"]
    assert [str(each) for each in (await stage.store.load()).records] == [
        ORDERS if of == "cluster" else str(DATA)
    ]


async def test_what_was_left_and_somebody_has_deleted_holds_up_no_drill(stage: Stage) -> None:
    address = await left(stage)
    (volume,) = (each for each in stage.volumes() if each["name"] == address.name)
    stage.call("PATCH", f"/_sandbox/world/volumes/{volume['id']}", {"state": "destroyed"})
    (again,) = await drilled(stage, VOLUME, WEEKLY)
    assert again.result is not None
    assert again.result.passed
    assert [str(each) for each in (await stage.store.load()).records] == [str(DATA)]


async def test_what_was_left_a_moment_ago_and_is_not_shown_holds_drills_up_in_these_words(
    stage: Stage,
) -> None:
    """Nobody has passed an approval that they could take out."""
    address = await left(stage)
    stage.fault(method="GET", path="/v1/apps/shop/volumes", action="status", status=200, body=[], times=1)
    with pytest.raises(Refused) as refused:
        await drilled(stage, VOLUME, WEEKLY)
    assert [(each.code, each.message) for each in refused.value.diagnostics] == [
        ("unreadable", f"cannot read `{address}`: created a moment ago, not visible yet")
    ]
    (ran,) = await drilled(stage, VOLUME, WEEKLY)
    assert (ran.left, scratch(stage)) == (None, [])


async def test_a_result_that_cannot_be_kept_leaves_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await of_volume(stage)

    async def held(*_: object) -> None:
        raise Locked("state", "another", 1.0)

    monkeypatch.setattr("reconciler.project.drill.remember_result", held)
    with pytest.raises(Locked):
        await drilled(stage, VOLUME, WEEKLY)
    assert (stage.line.mutations, scratch(stage)) == (["POST", "DELETE"], [])


async def test_none_runs_while_an_earlier_one_cannot_be_removed(stage: Stage) -> None:
    """Each would add one."""
    address = await left(stage)
    stage.fault(method="DELETE", path="/v1/apps/shop/volumes/*", action="status", status=403)
    with pytest.raises(ReconcilerError, match=address.name):
        await drilled(stage, VOLUME, WEEKLY)
    assert stage.line.mutations == ["DELETE"]
    (ran,) = await drilled(stage, VOLUME, WEEKLY)
    assert (ran.left, scratch(stage)) == (None, [])


@pytest.mark.parametrize(("is_left", "sent"), [(True, ["DELETE"]), (False, ["POST"])])
async def test_a_signal_after_the_last_step_begins_nothing_more(
    stage: Stage, is_left: bool, sent: list[str]
) -> None:
    """It is told to an executor that has no more to do, of a restore or of what removes an earlier one."""
    await (left(stage) if is_left else of_volume(stage))
    executors: list[Executor] = []

    def signalled_at_its_end(executor: Executor | None) -> None:
        if executor is None:
            executors.pop().stop()
        else:
            executors.append(executor)

    found = desired(stage, VOLUME)
    await run_drills(project_of(stage), found, [Address.parse(WEEKLY)], signalled_at_its_end)
    assert stage.line.mutations == sent


async def test_a_signal_while_it_looks_says_what_is_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await of_volume(stage)

    def looks_from_now_on(executor: Executor | None) -> None:
        if executor is None:
            stage.line.hangs.add("GET")

    notes: list[str] = []
    monkeypatch.setattr(stage.reporter, "note", notes.append)
    async with anyio.create_task_group() as group:
        wanted = [Address.parse(WEEKLY)]
        group.start_soon(run_drills, project_of(stage), desired(stage, VOLUME), wanted, looks_from_now_on)
        await stage.line.reached.wait()
        group.cancel_scope.cancel()
    (name,) = scratch(stage)
    assert notes == [f"Volume/shop/{name} is still there: the next drill deletes it"]


async def test_none_runs_after_one_that_cannot_be_removed(stage: Stage) -> None:
    await of_volume(stage)
    stage.fault(method="DELETE", path="/v1/apps/shop/volumes/*", action="status", status=403)
    ran = await drilled(stage, VOLUME + drill(name="daily"), WEEKLY, "RestoreDrill/daily")
    assert (len(ran), len(scratch(stage))) == (1, 1)


@pytest.mark.parametrize("of", ["cluster", "volume"])
async def test_what_somebody_else_has_deleted_holds_no_drill_up(stage: Stage, of: str) -> None:
    await (of_cluster if of == "cluster" else of_volume)(stage)
    manifests, path = (CLUSTER, "postgres") if of == "cluster" else (VOLUME, "apps/shop/volumes")
    stage.fault(method="DELETE", path=f"/v1/{path}/*", action="status", status=403)
    (ran,) = await drilled(stage, manifests, WEEKLY)
    assert ran.left is not None
    id = (await stage.record(str(ran.left))).id
    with suppress(ValueError):  # the answer about a cluster is empty
        stage.call("DELETE", f"/v1/{path}/{id}", {})
    await stage.time.sleep(3600)
    (ran,) = await drilled(stage, manifests, WEEKLY)
    assert (ran.why, ran.left) == ("", None)
    assert len((await stage.store.load()).records) == 1


async def test_what_the_token_may_not_see_any_more_is_not_forgotten(stage: Stage) -> None:
    """A GET of it finds nothing, as if it were gone; but neither does one of what it was restored from."""
    await of_cluster(stage)
    stage.fault(method="DELETE", path="/v1/postgres/*", action="status", status=403)
    (ran,) = await drilled(stage, CLUSTER, WEEKLY)
    await stage.time.sleep(3600)
    stage.fault(method="GET", path="/v1/postgres/*", action="status", status=404, times=2)
    with pytest.raises(Refused) as refused:
        await drilled(stage, CLUSTER, WEEKLY)
    assert [str(each) for each in refused.value.diagnostics[0].advice] == [
        f"reconcile state forget {ran.left}"
    ]
    (ran,) = await drilled(stage, CLUSTER, WEEKLY)
    assert (ran.why, ran.left, scratch(stage)) == ("", None, [])


# --- what others see ---


async def test_every_other_plan_names_what_was_left_and_leaves_it(stage: Stage) -> None:
    address = await left(stage)
    project, wanted = project_of(stage), desired(stage, VOLUME)
    plan = await make_plan(project, wanted)
    (change,) = plan.changes
    assert (change.address, change.action) == (address, "retain")
    assert change.reason == "a drill that did not end has left it; the next one deletes it: `reconcile drill`"
    assert plan.steps == ()
    aimed = await make_plan(project, wanted.with_targets([DATA]))
    assert [str(step.address) for step in aimed.steps] == []
    found = await find_drift(project, wanted)
    assert [change.address for change in found.plan.changes] == []
    await stage.apply(VOLUME)
    assert stage.line.mutations == []


async def test_it_is_not_taken_for_a_renamed_or_new_resource(stage: Stage) -> None:
    address = await left(stage)
    again = volume() + volume("copy") + drill()
    plan = await make_plan(project_of(stage), desired(stage, again))
    assert {str(change.address): change.action for change in plan.changes} == {
        "Volume/shop/copy": "create",
        str(address): "retain",
    }
    assert [each.code for each in plan.diagnostics if each.severity == "error"] == []


async def test_it_cannot_be_adopted_by_its_id(stage: Stage) -> None:
    address = await left(stage)
    id = (await stage.store.load()).records[address].id
    taking = volume() + volume("copy").replace("app: shop", f"app: shop, id: {id}") + drill()
    plan = await make_plan(project_of(stage), desired(stage, taking))
    assert [each.code for each in plan.diagnostics if each.severity == "error"] != []
    assert plan.steps == ()


async def test_a_person_may_approve_its_delete_in_an_apply(stage: Stage) -> None:
    address = await left(stage)
    await stage.apply(VOLUME, approved_deletes=[str(address)])
    assert stage.line.mutations == ["DELETE"]
    assert scratch(stage) == []


async def recorded(stage: Stage, address: Address, **as_: Any) -> None:
    """Record `address` as what a drill made, as a record of the volume `data` is, but for `as_`."""
    lease = await stage.store.lease(["shop"], "the test")
    record = replace(
        await stage.record(), address=address, lifecycle=Lifecycle(Deletion.SCRATCH, ()), serial=0
    )
    await stage.store.commit(lease, [], [replace(record, **as_)])
    await stage.store.release(lease)


@pytest.mark.parametrize("name", ["data", "drill-by-hand"])
async def test_what_has_another_name_on_the_platform_is_not_deleted(stage: Stage, name: str) -> None:
    await of_volume(stage)
    ids = {"data": (await stage.record()).id, "drill-by-hand": stage.make_volume("drill-by-hand")}
    await recorded(stage, DATA._replace(name="drill-weekly-1"), id=ids[name])
    with pytest.raises(Refused) as refused:
        await drilled(stage, VOLUME, WEEKLY)
    problem = refused.value.diagnostics[0]
    assert problem.code == "delete-inferred"
    assert f"is called {name} on the platform" in problem.message
    assert stage.line.mutations == []


async def test_a_record_that_says_scratch_at_another_address_deletes_nothing(stage: Stage) -> None:
    """Whoever edits a state cannot make a drill delete what is not its own."""
    await of_volume(stage)
    id = stage.make_volume("drill-by-hand")
    await recorded(stage, DATA._replace(name="logs"), id=id)
    with pytest.raises(ReconcilerError):
        await drilled(stage, VOLUME, WEEKLY)
    assert ("DELETE", f"/v1/apps/shop/volumes/{id}") not in stage.line.sent
    assert scratch(stage) == ["drill-by-hand"]


# --- rules, guardrails, windows and budgets ---

DELETES = Rule.model_validate({"when": {"action": "delete"}, "from": 2})
CREATES = Rule.model_validate({"when": {"action": "create"}, "from": 2})


async def test_nobody_has_to_approve_what_it_does(stage: Stage, ana: Person) -> None:
    await of_volume(stage)
    authority = Authority(Said((DELETES, CREATES), (signers([ana.line()]),)))
    (ran,) = await drilled(stage, VOLUME, WEEKLY, project=project_of(stage, authority))
    assert (ran.why, ran.left) == ("", None)
    assert stage.line.mutations == ["POST", "DELETE"]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Guardrail", {"actions": ["delete"], "require": "false", "message": "nothing goes"}),
        ("Budget", {"window": "24h", "most": {"deletes": 0}}),
    ],
)
async def test_it_may_always_remove_its_own(
    stage: Stage, tmp_path: Path, kind: str, spec: dict[str, Any]
) -> None:
    await of_volume(stage)
    authority = Authority(Said((limit(tmp_path, spec, kind=kind),)))
    (ran,) = await drilled(stage, VOLUME, WEEKLY, project=project_of(stage, authority))
    assert (ran.why, ran.left) == ("", None)
    assert scratch(stage) == []


async def test_a_freeze_holds_its_restore_and_not_its_delete(stage: Stage) -> None:
    address = await left(stage)
    now = stage.time.now()
    frozen = freeze("sale", f"{now:%Y-%m-%dT%H:%MZ}", f"{now + timedelta(days=1):%Y-%m-%dT%H:%MZ}")
    authority = Authority(Said((frozen,)))
    (ran,) = await drilled(stage, VOLUME, WEEKLY, project=project_of(stage, authority))
    assert ran.result is None
    assert "sale" in ran.why
    assert stage.line.mutations == ["DELETE"]
    assert address not in (await stage.store.load()).records


async def test_a_guardrail_that_forbids_its_restore_is_told(stage: Stage, tmp_path: Path) -> None:
    await of_volume(stage)
    spec = {"actions": ["create"], "require": "false", "message": "nothing new"}
    authority = Authority(Said((limit(tmp_path, spec),)))
    (ran,) = await drilled(stage, VOLUME, WEEKLY, project=project_of(stage, authority))
    assert ran.result is None
    assert "nothing new" in ran.why
    assert stage.line.mutations == []


async def test_a_budget_counts_drills(stage: Stage, tmp_path: Path) -> None:
    await of_volume(stage)
    long_ago = (stage.time.now() - timedelta(days=2)).isoformat()
    await remember(stage.store, stage.project().actor(), MADE, lambda known: {"at": long_ago})
    budget = limit(tmp_path, {"window": "24h", "most": {"drills": 1}}, kind="Budget")
    for mutations, told in ((["POST", "DELETE"], ""), ([], "`drills: 1`")):
        stage.line.sent.clear()
        (ran,) = await drilled(stage, VOLUME, WEEKLY, project=project_of(stage, Authority(Said((budget,)))))
        assert (stage.line.mutations, told in ran.why) == (mutations, True)


async def test_one_runs_at_a_time(stage: Stage) -> None:
    await of_volume(stage)
    project = project_of(stage)
    async with project.actor().leased(project.store, {ONE_AT_A_TIME}):
        with pytest.raises(Locked):
            await drilled(stage, VOLUME, WEEKLY)
    assert stage.line.sent == []


# --- when one is due ---


async def test_it_runs_when_its_schedule_says_and_not_again(stage: Stage) -> None:
    await of_volume(stage)
    manifests = volume() + drill(spec="schedule: '0 3 * * *'")
    assert await drilled(stage, manifests) == []
    await stage.time.sleep(2 * 3600)
    assert [str(one.of) for one in await drilled(stage, manifests)] == [str(DATA)]
    assert await drilled(stage, manifests) == []
    await stage.time.sleep(24 * 3600)
    assert len(await drilled(stage, manifests)) == 1
    state = await stage.store.load()
    wanted = desired(stage, manifests)
    (proof,) = proofs(wanted.policies, wanted.resources, state)
    assert [result.passed for result in proof.results] == [True, True]


def test_a_backup_that_failed_is_passed_over_for_the_one_before_it() -> None:
    backups = [
        ClusterBackup(id="good", status="completed", finished_at="2026-03-01T12:00:00Z"),
        ClusterBackup(id="failed", status="failed", finished_at="2026-03-01T13:00:00Z"),
    ]
    assert [each.id for each in backups if each.usable_from is not None] == ["good"]


async def test_a_cluster_that_was_restored_itself_can_be_drilled_without_an_approval(stage: Stage) -> None:
    """Only its own source, which the drill's plan is not about, would tell which list shows the copy."""
    await of_cluster(stage)
    (backup,) = stage.call("GET", f"/v1/postgres/{(await stage.record(ORDERS)).id}/backups", {})["data"]
    copy = (
        "---\napiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {name: copy}\n"
        f"spec: {{restore: {{from: orders, backup_id: {backup['id']}}}}}\n"
    )
    await stage.apply(cluster() + copy)
    await stage.time.sleep(3600)
    (ran,) = await drilled(stage, cluster() + copy + drill("PostgresCluster/copy"), WEEKLY)
    assert (ran.result is not None and ran.result.passed) is True, ran.why
