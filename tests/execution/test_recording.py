"""Intent before the call, outcome after it, whatever happens to the store or to the task."""

import anyio
import pytest

from reconciler.core.diagnostics import UNKNOWN_OUTCOME
from reconciler.core.errors import Refused, StoreError
from reconciler.core.model import Action
from reconciler.execution import executor as executor_module
from reconciler.execution.decisions import Actor
from reconciler.execution.executor import Executor
from reconciler.project.apply import PlanRefused
from reconciler.project.records import forget
from reconciler.state.store import Event, Lease, Store
from tests.execution.stage import Stage, cluster, outcomes, plan, secret, volume
from tests.state.doubles import made, spooling

CREATE = "Volume/shop/data#create"


async def test_a_platform_that_cannot_be_read_shows_nothing_absent(stage: Stage) -> None:
    await stage.apply(volume())
    stage.fault(method="GET", path="*", action="status", status=403, times=None)
    with pytest.raises(PlanRefused) as refused:
        await stage.apply(volume())
    assert [change.action for change in refused.value.plan.changes] == [Action.REFUSED]
    assert stage.line.mutations == ["POST"]


async def test_a_platform_that_is_down_shows_nothing_absent(stage: Stage) -> None:
    await stage.apply(volume())
    record = await stage.record()
    stage.fault(method="GET", path="*", action="drop_before", times=None)
    with pytest.raises(Refused) as refused:
        await stage.apply(volume())
    assert [problem.code for problem in refused.value.diagnostics] == ["platform-down"]
    assert stage.line.mutations == ["POST"]
    assert await stage.record() == record


async def test_when_the_intent_cannot_be_stored_nothing_is_sent(stage: Stage) -> None:
    stage.fail_at(Event.INTENT)
    applied = await stage.apply(volume() + volume("more"))
    assert stage.line.mutations == []
    assert set(outcomes(applied).values()) <= {"failed", "skipped"}
    assert any("the disk is full" in result.error for result in applied.results)


async def test_when_the_run_cannot_be_begun_nothing_is_sent(stage: Stage) -> None:
    stage.fail_at(Event.RUN_STARTED)
    with pytest.raises(StoreError, match="the disk is full"):
        await stage.apply(volume())
    assert stage.line.mutations == []


async def test_an_outcome_that_cannot_be_stored_is_spooled_and_read_by_the_next_run(
    stage: Stage,
) -> None:
    stage.fail_at(Event.DONE)
    applied = await stage.apply(volume())
    (result,) = applied.results
    assert (result.outcome, stage.line.mutations) == ("failed", ["POST"])
    assert stage.volumes()[0]["id"] in result.error
    assert "the next run reads it from there" in result.error
    stage.mend()
    assert await stage.open_steps() == []
    assert (await plan(stage, volume())).steps == ()
    again = await stage.apply(volume())
    assert (again.results, stage.line.mutations) == ((), ["POST"])
    record = await stage.record()
    assert (record.id, record.inferred) == (stage.volumes()[0]["id"], False)
    assert (await stage.store.load()).spooled == frozenset()


async def test_an_outcome_that_can_be_kept_nowhere_is_unknown_and_found_by_the_next_run(stage: Stage) -> None:
    stage.fail_at(Event.DONE, spools=False)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    assert "no other disk either" in applied.results[0].error
    stage.mend()
    assert await stage.open_steps() == [CREATE]
    await stage.apply(volume())
    assert stage.line.mutations == ["POST"]
    assert (await stage.record()).id == stage.volumes()[0]["id"]


async def test_a_cluster_whose_id_was_kept_aside_asks_nobody(stage: Stage) -> None:
    stage.fail_at(Event.DONE)
    await stage.apply(cluster())
    stage.mend()
    await stage.apply(cluster())
    assert stage.line.mutations == ["POST"]
    assert (await stage.record("PostgresCluster/orders")).id


async def test_an_unknown_outcome_that_cannot_be_stored_is_still_unknown(stage: Stage) -> None:
    stage.fail_at(Event.UNKNOWN)
    stage.fault(method="POST", path="*", action="drop_after")
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    assert applied.notices == ()  # nobody has looked for it yet, and the next run does
    stage.mend()
    await stage.apply(volume())
    assert stage.line.mutations == ["POST"]
    assert (await stage.record()).inferred


@pytest.mark.parametrize("spools", [True, False])
async def test_after_a_store_failure_no_further_step_is_sent(stage: Stage, spools: bool) -> None:
    stage.limit(concurrency=1)
    stage.fail_at(Event.DONE, spools=spools)
    applied = await stage.apply(volume() + volume("more"))
    assert sorted(outcomes(applied).values()) == [
        "failed" if spools else "skipped",
        "skipped" if spools else "unknown",
    ]
    assert stage.line.mutations == ["POST"]


async def test_a_run_whose_end_cannot_be_recorded_has_done_what_it_did(stage: Stage) -> None:
    stage.fail_at(Event.RUN_FINISHED)
    assert outcomes(await stage.apply(volume())) == {CREATE: "done"}
    stage.mend()
    assert (await stage.apply(volume())).plan.steps == ()


async def test_a_lease_that_is_not_ours_sends_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def taken(lease: object, for_s: float) -> None:
        raise StoreError("the lease of `shop` is no longer ours")

    monkeypatch.setattr(stage.store, "check", taken)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "failed"}
    assert stage.line.mutations == []


@pytest.mark.parametrize(("deadline_s", "sent"), [(29, ["POST"]), (30, [])])
async def test_a_call_that_may_outlast_the_lease_is_not_sent(
    stage: Stage, deadline_s: float, sent: list[str]
) -> None:
    """A successor may settle the intent as soon as the lease has ended: the call must be over by then."""
    stage.store = spooling(made(stage.time, lease_s=30), stage.time, stage.root)
    stage.limit(deadline_s=deadline_s)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "done" if sent else "failed"}
    assert stage.line.mutations == sent
    if not sent:
        assert "ends before a call that may take 30 s" in applied.results[0].error


async def test_a_cancelled_call_is_recorded_as_unknown(stage: Stage) -> None:
    stage.line.hangs.add("POST")
    async with anyio.create_task_group() as group:
        group.start_soon(stage.apply, volume())
        await stage.line.reached.wait()
        group.cancel_scope.cancel()
    assert await stage.open_steps() == [CREATE]
    stage.line.hangs.clear()
    await stage.apply(volume())
    assert stage.line.mutations == ["POST"]
    assert (await stage.record()).inferred


async def test_a_call_after_the_grace_is_unknown(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "GRACE_S", 0)
    stage.line.hangs.add("POST")
    executors: list[Executor] = []
    applied = []

    async def run() -> None:
        applied.append(await stage.apply(volume() + volume("later", rest=""), executors.append))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await stage.line.reached.wait()
        executors[0].stop()
    assert outcomes(applied[0])[CREATE] == "unknown"
    assert applied[0].interrupted
    assert CREATE in await stage.open_steps()


async def test_the_journal_tells_intent_before_outcome_and_holds_no_secret(stage: Stage) -> None:
    committed: list[tuple[Event, str]] = []
    commit = stage.store.commit

    async def watching(lease: object, entries: object, *rest: object) -> object:
        committed.extend((entry.event, repr(entry.data)) for entry in entries)  # type: ignore[attr-defined]
        return await commit(lease, entries, *rest)  # type: ignore[arg-type]

    stage.store.commit = watching  # type: ignore[method-assign,assignment]
    await stage.apply(secret())
    assert [event for event, _ in committed] == [
        Event.RUN_STARTED,
        Event.RUN_OBSERVED,
        Event.INTENT,
        Event.DONE,
        Event.RUN_FINISHED,
    ]
    assert not any("'value'" in data for _, data in committed)


async def test_what_a_template_read_is_recorded_with_its_fingerprint(stage: Stage) -> None:
    wanted = cluster() + secret(
        "HOST", '{template: "${PostgresCluster/orders:endpoints.primary.pooler.host}"}'
    )
    await stage.apply(wanted)
    known = await stage.record("PostgresCluster/orders")
    assert (await stage.record("Secret/shop/HOST")).applied["reads PostgresCluster/orders"] == known.id
    assert (await stage.apply(wanted)).plan.steps == ()
    await forget(stage.store, known.address, Actor(stage.time, "the test", run="run"))
    change = next(each for each in (await plan(stage, wanted)).changes if each.address.app)
    assert (change.impact, change.fields[-1].before, change.fields[-1].after) == (
        "repoint",
        known.id,
        "(new)",
    )


async def test_what_a_template_no_longer_reads_is_not_recorded_any_more(stage: Stage) -> None:
    def wanted(read: str) -> str:
        return (
            cluster()
            + cluster(name="copy")
            + secret("HOST", f'{{template: "${{PostgresCluster/{read}:id}}"}}')
        )

    await stage.apply(wanted("orders"))
    (change,) = (await stage.apply(wanted("copy"))).plan.changes
    assert "it will no longer name PostgresCluster/orders" in change.reason
    applied = (await stage.record("Secret/shop/HOST")).applied
    copy = await stage.record("PostgresCluster/copy")
    assert applied["reads PostgresCluster/copy"] == copy.id
    assert applied["reads PostgresCluster/orders"] is None
    (change,) = (await stage.apply(wanted("orders"))).plan.changes
    assert "it will no longer name PostgresCluster/copy" in change.reason


async def test_a_lost_call_that_no_list_shows_is_a_question_at_once(stage: Stage) -> None:
    stage.fault(method="POST", path="/v1/postgres", action="drop_after")
    stage.fail_at(Event.UNKNOWN)
    (question,) = (await stage.apply(cluster())).notices
    assert question.code == UNKNOWN_OUTCOME


class LostBefore(Store):
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
    stage.fault(method="POST", path="/v1/apps/shop/volumes", action="drop_before")
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "failed"}
    assert "somebody else's" in applied.results[0].error
    assert stage.line.mutations == ["POST"]
    assert stage.volumes() == []
