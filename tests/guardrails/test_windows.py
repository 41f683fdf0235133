"""Runs and windows: on an emulated platform, with the real executor, in simulated time."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.json import encode

from reconciler.approvals.creates import Everything
from reconciler.approvals.judging import Given
from reconciler.approvals.rules import Authority, Said
from reconciler.core.errors import Refused
from reconciler.core.model import Waits
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.execution.executor import Executor
from reconciler.guardrails.limit import Limit
from reconciler.planning.declared import Desired
from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import dump_plan, load_saved
from reconciler.project.apply import apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied, run_plan
from reconciler.reports.documents import document_of, read_report
from reconciler.reports.formats import find_formats
from reconciler.reports.report import PlanReport
from tests.approvals.people import ENV, Person, signers
from tests.approvals.test_applying import REHEARSAL, approved, codes
from tests.execution.stage import START, Stage, loaded, outcomes, volume
from tests.execution.test_extensions import MANIFESTS, PROVISION, Acme, project_with
from tests.guardrails.times import freeze, window

NIGHTS = window("nights", "0 22 * * *", "2h", "UTC", "restart", "downtime", "data_loss")
ALWAYS = window("always", "* * * * *", "1h", "UTC", "restart", "downtime", "data_loss")
FREEZE = freeze("sale", "2026-01-01T00:00Z", "2026-01-02T22:30Z", "snapshot")
OPEN_S = 22 * 3600.0  # from START to the first opening of NIGHTS
GROWN = volume(spec="region: ams, size_gb: 20")
NEW = volume("new")
EXTEND, CREATE = "Volume/shop/data#extend", "Volume/shop/new#create"
DATA = "Volume/shop/data"


def held_to(
    stage: Stage, *limits: Limit, before: Sequence[Limit] = (), people: Sequence[Person] = ()
) -> Project:
    file = (signers(each.line() for each in people),)
    authority = Authority(Said(limits, file), Said(tuple(before)))
    return replace(stage.project(), authority=authority, variables=ENV)


async def run(project: Project, stage: Stage, manifests: str, *deletes: str, **about: Any) -> Applied:
    given = about.pop("given", Given())
    on_executor = about.pop("on_executor", lambda executor: None)
    desired = Desired(loaded(stage, manifests), **about)
    return await apply(
        project,
        desired,
        approve=lambda plan: True,
        approved_deletes=deletes,
        given=given,
        on_executor=on_executor,
    )


async def held_volume(stage: Stage, manifests: str = "") -> None:
    """A volume that a running machine holds: an extend may interrupt it."""
    await stage.apply(manifests or volume())
    stage.hold()
    stage.line.sent.clear()


async def test_what_a_window_covers_waits_and_the_rest_goes_on(stage: Stage) -> None:
    await held_volume(stage)
    done = await run(held_to(stage, NIGHTS), stage, GROWN + NEW)
    assert outcomes(done) == {EXTEND: "pending", CREATE: "done"}
    assert stage.line.mutations == ["POST"]
    (waiting,) = [result for result in done.results if result.outcome == "pending"]
    assert waiting.error == "waits for nights, next open Thu 22:00 UTC"
    assert await stage.open_steps() == []
    await stage.time.sleep(OPEN_S)
    assert outcomes(await run(held_to(stage, NIGHTS), stage, GROWN + NEW)) == {EXTEND: "done"}


async def test_where_everything_waits_nobody_is_asked_and_nothing_is_written(stage: Stage) -> None:
    await held_volume(stage)
    before, told = await stage.store.load(), list[Plan]()

    def asked(plan: Plan) -> bool:
        raise AssertionError("nobody has to decide anything")

    desired = Desired(loaded(stage, GROWN))
    done = await apply(held_to(stage, NIGHTS), desired, approve=asked, tell=told.append)
    assert outcomes(done) == {EXTEND: "pending"}
    assert [change.waits for change in told[0].changes] == [Waits("nights", START + timedelta(hours=22))]
    after = await stage.store.load()  # which also holds what was seen
    assert (after.records, after.plans_run, after.open_intents) == (before.records, before.plans_run, ())


async def test_a_change_pushed_during_a_freeze_goes_out_at_the_first_open_minute(stage: Stage) -> None:
    await held_volume(stage)
    project = held_to(stage, NIGHTS, FREEZE)
    while outcomes(done := await run(project, stage, GROWN)) == {EXTEND: "pending"}:
        assert stage.line.mutations == []
        await stage.time.sleep(60 * 10)
    assert done.plan.context.at == datetime.fromisoformat("2026-01-02T22:30Z")
    assert stage.line.mutations == ["PUT"]


async def test_a_freeze_holds_creates_too_but_not_what_it_exempts(stage: Stage) -> None:
    assert outcomes(await run(held_to(stage, FREEZE), stage, NEW)) == {CREATE: "pending"}
    await stage.apply(volume())
    await stage.time.sleep(30 * 3600)
    aged = volume() + (
        "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
        "spec: {selector: {}, snapshot_max_age_h: 1}\n"
    )
    assert outcomes(await run(held_to(stage, FREEZE), stage, aged)) == {f"{DATA}#snapshot": "done"}


async def test_a_run_that_reaches_the_end_of_a_window_starts_nothing_more(stage: Stage) -> None:
    """The snapshot before the extend takes a while; it ends, and the extend does not start."""
    rest = "lifecycle: {snapshot_before: [extend]}\n"
    await held_volume(stage, volume(rest=rest))
    await stage.time.sleep(OPEN_S + 2 * 3600 - 1)
    done = await run(held_to(stage, NIGHTS), stage, volume(spec="region: ams, size_gb: 20", rest=rest))
    assert outcomes(done) == {f"{DATA}#snapshot": "done", EXTEND: "pending"}
    assert stage.line.mutations == ["POST"]


async def test_a_clock_that_steps_back_before_the_window_starts_nothing_more(stage: Stage) -> None:
    rest = "lifecycle: {snapshot_before: [extend]}\n"
    await held_volume(stage, volume(rest=rest))
    await stage.time.sleep(OPEN_S + 60)
    now = stage.time.now
    back = lambda: now() - timedelta(hours=1)  # noqa: E731

    def step_back(executor: Executor) -> None:
        stage.time.at(stage.time.elapsed_s, lambda: setattr(stage.time, "now", back))

    project = held_to(stage, NIGHTS)
    done = await run(
        project, stage, volume(spec="region: ams, size_gb: 20", rest=rest), on_executor=step_back
    )
    assert outcomes(done) == {f"{DATA}#snapshot": "done", EXTEND: "pending"}


async def test_a_step_whose_turn_comes_after_the_end_is_not_sent(stage: Stage, monkeypatch: Any) -> None:
    """Both are ready while the window is open; one call takes longer than that."""
    await stage.apply(volume() + volume("logs"))
    for each in stage.volumes():
        stage.call("POST", "/_sandbox/machines", {"app": "shop", "volumes": [each["id"]]})
    await stage.time.sleep(OPEN_S + 2 * 3600 - 30)
    stage.limit(concurrency=1)
    request = stage.line.request

    async def slow(method: str, url: str, **more: Any) -> Any:
        answer = await request(method, url, **more)
        if method == "PUT":
            await stage.time.sleep(60)
        return answer

    monkeypatch.setattr(stage.line, "request", slow)
    both = GROWN + volume("logs", "region: ams, size_gb: 20")
    done = await run(held_to(stage, NIGHTS), stage, both)
    assert sorted(outcomes(done).values()) == ["done", "pending"]
    assert stage.line.mutations.count("PUT") == 1


async def test_a_call_that_was_refused_for_its_rate_is_not_sent_again_after_the_end(stage: Stage) -> None:
    await held_volume(stage)
    await stage.time.sleep(OPEN_S + 2 * 3600 - 5)
    stage.fault(
        method="PUT", path="*/extend", action="status", status=429, headers={"retry-after": "10"}, times=1
    )
    assert outcomes(await run(held_to(stage, NIGHTS), stage, GROWN)) == {EXTEND: "pending"}
    assert stage.line.mutations == ["PUT"]
    assert await stage.open_steps() == []


async def test_calls_for_each_key_do_not_start_in_a_freeze_that_began_meanwhile(stage: Stage) -> None:
    acme = Acme(stage.time, ready_after=5)  # looks, two seconds apart
    began = freeze("sale", "2026-01-01T00:00:05Z", "2026-01-02T00:00Z")
    authority = Authority(Said((began,)))
    project = replace(project_with(stage, acme), authority=authority)
    desired = Desired(loaded(stage, MANIFESTS))
    done = await apply(project, desired, approve=lambda plan: True, approved_creates=Everything())
    assert outcomes(done) == {PROVISION: "done", "Extension/shop/db#secrets": "pending"}
    assert stage.line.mutations == []


AUTO = "lifecycle: {restart: auto, restart_within: 14d}\n"
STOPS = frozenset({"machine.stop", "machine.get"})


async def test_an_owed_restart_obeys_the_window_and_has_three_dates(stage: Stage) -> None:
    await held_volume(stage, volume(rest=AUTO.replace("auto", "ask")))
    grown = volume(spec="region: ams, size_gb: 20", rest=AUTO)
    await stage.apply(grown)  # nothing can restart it yet
    stage.capabilities = STOPS
    stage.line.sent.clear()
    project = held_to(stage, NIGHTS)
    done = await run(project, stage, grown)
    assert outcomes(done) == {f"{DATA}#stop": "pending", f"{DATA}#start": "skipped"}
    assert stage.line.mutations == []
    (owed,) = done.owed
    assert owed.earliest == START + timedelta(hours=22)
    assert owed.forced is not None
    assert timedelta(0) <= stage.time.now() + timedelta(days=14) - owed.forced < timedelta(minutes=5)
    await stage.time.sleep(OPEN_S)
    (owed,) = (await make_plan(project, Desired(loaded(stage, grown)))).owed
    assert owed.earliest == stage.time.now()
    assert set(outcomes(await run(project, stage, grown)).values()) == {"done"}
    assert (await make_plan(project, Desired(loaded(stage, grown)))).owed == ()


async def test_a_machine_that_was_stopped_is_started_after_the_end(stage: Stage) -> None:
    stage.capabilities = STOPS
    await held_volume(stage, volume(rest=AUTO))
    await stage.time.sleep(OPEN_S + 2 * 3600 - 1)
    done = await run(held_to(stage, NIGHTS), stage, volume(spec="region: ams, size_gb: 20", rest=AUTO))
    assert outcomes(done) == {EXTEND: "done", f"{DATA}#stop": "done", f"{DATA}#start": "done"}
    assert stage.time.now() > START + timedelta(hours=24)


async def test_what_is_overdue_is_a_warning_of_plan_and_drift(stage: Stage) -> None:
    rest = "lifecycle: {restart_within: 14d}\n"
    await held_volume(stage, volume(rest=rest))
    grown = volume(spec="region: ams, size_gb: 20", rest=rest)
    await stage.apply(grown)
    desired = Desired(loaded(stage, grown))
    await stage.time.sleep(14 * 86400 - 3600)
    assert "owed-overdue" not in {
        each.code for each in (await make_plan(stage.project(), desired)).diagnostics
    }
    await stage.time.sleep(3600)
    project = held_to(stage, NIGHTS)
    plan, drift = await make_plan(project, desired), (await find_drift(project, desired)).plan
    for found in (plan, drift):
        (told,) = [each for each in found.diagnostics if each.code == "owed-overdue"]
        assert told.severity == "warning"
        assert told.addresses == (DATA,)
        assert found.owed[0].earliest is not None


async def test_the_digest_of_a_plan_does_not_change_with_the_hour(stage: Stage) -> None:
    await held_volume(stage)
    project, desired = held_to(stage, NIGHTS), Desired(loaded(stage, GROWN))
    closed = await make_plan(project, desired)
    await stage.time.sleep(OPEN_S)
    opened = await make_plan(project, desired)
    assert [plan.changes[0].waits is None for plan in (closed, opened)] == [False, True]
    assert plan_digest(closed) == plan_digest(opened)
    assert load_saved(dump_plan(closed)).plan.changes == closed.changes
    assert outcomes(await run_saved(project, desired, closed, ())) == {EXTEND: "done"}


async def test_every_format_says_what_waits(stage: Stage) -> None:
    await held_volume(stage)
    berlin = window("nights", "0 22 * * *", "2h", "Europe/Berlin", "restart")
    plan = await make_plan(held_to(stage, berlin), Desired(loaded(stage, GROWN + NEW)))
    report = PlanReport(plan=plan, diagnostics=plan.diagnostics)
    for name in ("text", "markdown", "html"):
        text = find_formats()[name].render(report)
        assert "waits for nights, next open Thu 22:00 Europe/Berlin" in text.replace("&#58;", ":")
        assert "1 of them waiting" in text
    document: Any = document_of(report)
    found = encode(document)
    again = read_report("plan.json", found)
    assert isinstance(again, PlanReport)
    assert [change.waits for change in again.plan.changes] == [change.waits for change in plan.changes]
    assert document.summary.waits == 1
    assert b'"waits":{"window":"nights","until":"2026-01-01T21:00:00Z","timezone":"Europe/Berlin"}' in found


# --- nothing gets around ---


async def test_a_plan_from_before_the_window_waits_for_it(stage: Stage) -> None:
    await held_volume(stage)
    desired = Desired(loaded(stage, GROWN))
    plan = await make_plan(stage.project(), desired)
    assert outcomes(await run_saved(held_to(stage, NIGHTS), desired, plan, ())) == {EXTEND: "pending"}
    assert stage.line.mutations == []


async def test_a_run_about_a_target_waits(stage: Stage) -> None:
    await held_volume(stage)
    desired = Desired(loaded(stage, GROWN + NEW)).with_targets([loaded(stage, GROWN)[0].address])
    done = await apply(held_to(stage, NIGHTS), desired, approve=lambda plan: True)
    assert outcomes(done) == {EXTEND: "pending"}


RENAMED = window("renamed", "0 22 * * *", "2h", "UTC", "restart", "downtime", "data_loss")
LONGER = window("nights", "0 22 * * *", "24h", "UTC", "restart", "downtime", "data_loss")
NARROWER = window("nights", "0 22 * * *", "2h", "UTC", "data_loss")
ALWAYS_LATE = window("late", "0 23 * * *", "2h", "UTC", "restart", "downtime", "data_loss")
LATER = freeze("sale", "2026-01-01T12:00Z", "2026-01-02T22:30Z", "snapshot")
EXEMPTS = freeze("sale", "2026-01-01T00:00Z", "2026-01-02T22:30Z", "snapshot", "extend")


@pytest.mark.parametrize("remembered", [True, False], ids=["by the state", "by the base"])
@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        pytest.param((NIGHTS,), (), True, id="a window deleted"),
        pytest.param((NIGHTS,), (RENAMED,), False, id="a window renamed"),
        pytest.param((NIGHTS,), (LONGER,), True, id="a window made longer"),
        pytest.param((NIGHTS,), (NARROWER,), True, id="a window for fewer impacts"),
        pytest.param((NIGHTS,), (NIGHTS, ALWAYS), True, id="another window next to it"),
        pytest.param((NIGHTS, ALWAYS_LATE), (NIGHTS,), False, id="one of two windows deleted: stricter"),
        pytest.param((FREEZE,), (), True, id="a freeze deleted"),
        pytest.param((FREEZE,), (LATER,), True, id="a freeze made shorter"),
        pytest.param((FREEZE,), (EXEMPTS,), True, id="a freeze that exempts more"),
    ],
)
async def test_who_loosens_a_limit_is_still_held_to_it_and_told(
    stage: Stage, before: Collection[Limit], now: Collection[Limit], told: bool, remembered: bool
) -> None:
    await stage.apply(volume())
    stage.hold()
    if remembered:
        await run(held_to(stage, *before), stage, volume())
        project = held_to(stage, *now)
    else:
        project = held_to(stage, *now, before=tuple(before))
    stage.line.sent.clear()
    done = await run(project, stage, GROWN)
    assert outcomes(done) == {EXTEND: "pending"}
    assert stage.line.mutations == []
    assert ("rules-loosened" in {each.code for each in done.plan.diagnostics}) is told


async def test_what_was_loosened_counts_from_the_next_run_on(stage: Stage) -> None:
    await held_volume(stage)
    await run(held_to(stage, NIGHTS), stage, volume())
    await run(held_to(stage, NIGHTS, ALWAYS), stage, volume())
    assert outcomes(await run(held_to(stage, NIGHTS, ALWAYS), stage, GROWN)) == {EXTEND: "done"}


async def test_a_run_that_dies_leaves_no_window_open(stage: Stage) -> None:
    await held_volume(stage)

    def dies(executor: Executor) -> None:
        raise KeyboardInterrupt

    project = held_to(stage, NIGHTS, ALWAYS, before=(NIGHTS,))
    with pytest.raises(KeyboardInterrupt):
        await run(project, stage, GROWN + NEW, on_executor=dies)
    assert outcomes(await run(held_to(stage, NIGHTS, ALWAYS), stage, GROWN)) == {EXTEND: "pending"}


# --- apply --now ---


async def test_who_signed_for_an_address_steps_over_its_window(stage: Stage, ana: Person) -> None:
    await held_volume(stage)
    project, desired = held_to(stage, NIGHTS, people=(ana,)), Desired(loaded(stage, GROWN + NEW))
    plan = await make_plan(project, desired)
    given = Given((await approved(stage, plan, ana, overrides=DATA),), REHEARSAL.digest)
    done = await run_saved(project, desired, plan, (), given=given)  # who does not ask for now gets none
    assert outcomes(done) == {EXTEND: "pending", CREATE: "done"}
    plan = await make_plan(project, desired)
    signed = await approved(stage, plan, ana, overrides=DATA)
    asks = Given((signed,), REHEARSAL.digest)
    assert outcomes(await run_saved(project, desired, plan, (), given=asks)) == {EXTEND: "pending"}
    stage.line.sent.clear()
    other = Given((await approved(stage, plan, ana),), REHEARSAL.digest, now=(DATA,))
    with pytest.raises(Refused) as refused:
        await run_saved(project, desired, plan, (), given=other)
    assert codes(refused.value) == ["window-closed"]
    assert "nobody signed for now" in refused.value.diagnostics[-1].message
    assert stage.line.mutations == []
    demands = Given((signed,), REHEARSAL.digest, now=(DATA,))
    assert outcomes(await run_saved(project, desired, plan, (), given=demands)) == {EXTEND: "done"}


async def test_without_a_signature_now_is_refused_with_what_to_type(stage: Stage) -> None:
    await held_volume(stage)
    with pytest.raises(Refused) as refused:
        await run(held_to(stage, NIGHTS), stage, GROWN + NEW, given=Given(now=(DATA,)))
    (problem,) = [each for each in refused.value.diagnostics if each.severity == "error"]
    assert problem.code == "window-closed"
    assert f"approve FILE --override {DATA} --reason TEXT" in problem.help
    assert stage.line.mutations == []


async def test_a_run_whose_approval_ended_meanwhile_waits(stage: Stage) -> None:
    await held_volume(stage)
    project, desired = held_to(stage, NIGHTS), Desired(loaded(stage, GROWN))
    plan, given = await make_plan(project, desired), Given(now=(DATA,))
    done = await run_plan(project, plan, approved_deletes=(), given=given, resources=desired.by_address)
    assert outcomes(done) == {EXTEND: "pending"}
    assert stage.line.mutations == []


async def test_nobody_steps_over_a_freeze(stage: Stage, ana: Person) -> None:
    await held_volume(stage)
    project = held_to(stage, NIGHTS, FREEZE, people=(ana,))
    desired = Desired(loaded(stage, GROWN))
    plan = await make_plan(project, desired)
    given = Given((await approved(stage, plan, ana, overrides=DATA),), REHEARSAL.digest, now=(DATA,))
    with pytest.raises(Refused) as refused:
        await run_saved(project, desired, plan, (), given=given)
    assert codes(refused.value) == ["window-closed"]
    assert "a freeze" in refused.value.diagnostics[-1].help
    project = held_to(stage, NIGHTS, EXEMPTS, people=(ana,))
    plan = await make_plan(project, desired)
    given = Given((await approved(stage, plan, ana, overrides=DATA),), REHEARSAL.digest, now=(DATA,))
    assert outcomes(await run_saved(project, desired, plan, (), given=given)) == {EXTEND: "done"}
