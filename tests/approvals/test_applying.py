"""Plans that run with approvals, and those that do not: on an emulated platform, with real signatures."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest

from reconciler.approvals.judging import Given
from reconciler.approvals.rules import Authority, Rule, Said
from reconciler.approvals.statement import Approval
from reconciler.core.errors import Refused
from reconciler.core.steps import Plan
from reconciler.planning.declared import Desired
from reconciler.planning.digest import plan_digest
from reconciler.project import apply as applying
from reconciler.project.apply import apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied, run_plan
from reconciler.rehearsal.results import Rehearsal
from reconciler.reports.verdict import approvals
from reconciler.state.runs import history_of
from reconciler.state.store import Event
from tests.approvals.people import ENV, SAID, Person, signers
from tests.execution.stage import Stage, cluster, loaded, outcomes, volume

DELETED = "lifecycle: {deletion: delete}\n"
TWO = Rule.model_validate({"when": {"action": "delete"}, "from": 2})
ONE = Rule.model_validate({"when": {"action": "delete"}})
REHEARSAL = Rehearsal((), 0, ())


async def planned(stage: Stage, project: Project) -> Plan:
    """That deletes the only volume."""
    await stage.apply(volume(rest=DELETED))
    return await make_plan(project, Desired(loaded(stage, "")))


def watched(stage: Stage, *people: Person, rules: tuple[Rule, ...] = (TWO,)) -> Project:
    authority = Authority(Said(rules, (signers(each.line() for each in people),)))
    return replace(stage.project(), authority=authority, variables=ENV)


async def approved(stage: Stage, to: Plan, person: Person, **said: Any) -> Approval:
    now = stage.time.now()
    about = {"plan": plan_digest(to), "rehearsal": REHEARSAL.digest, "at": now}
    about |= {"lineage": (await stage.store.load()).lineage, "expires": now.replace(year=now.year + 1)}
    return person.approves(SAID, **(about | said))


async def run(project: Project, plan: Plan, *approvals: Approval, deletes: Any = ()) -> Applied:
    given = Given(approvals, REHEARSAL.digest)
    return await run_saved(project, Desired(()), plan, deletes, given=given)


def codes(refused: Refused) -> list[str]:
    return [each.code for each in refused.diagnostics if each.severity == "error"]


async def test_approvals_cover_the_deletes_of_their_plan(stage: Stage, ana: Person, bob: Person) -> None:
    project = watched(stage, ana, bob)
    plan = await planned(stage, project)
    given = [await approved(stage, plan, each) for each in (ana, bob)]
    assert set(outcomes(await run(project, plan, *given)).values()) == {"done"}
    assert [each.split()[0] for each in stage.line.mutations] == ["POST", "POST", "DELETE"]
    again = await run(project, plan, *given)  # the job is run again
    assert [str(each.severity) for each in again.plan.diagnostics if each.code == "approval-dead"] == [
        "warning",
        "warning",
    ]
    assert outcomes(again) == {}


async def test_a_signed_approval_covers_the_creates_that_no_list_shows(stage: Stage, ana: Person) -> None:
    project, desired = watched(stage, ana, rules=()), Desired(loaded(stage, cluster()))
    plan = await make_plan(project, desired)
    with pytest.raises(Refused) as refused:
        await run_saved(project, desired, plan, ())
    assert codes(refused.value) == ["create-not-approved"]
    given = Given((await approved(stage, plan, ana),), REHEARSAL.digest)
    done = await run_saved(project, desired, plan, (), given=given)
    assert set(outcomes(done).values()) == {"done"}


async def test_a_signed_delete_says_that_what_came_is_another_object(stage: Stage, ana: Person) -> None:
    project = watched(stage, ana, rules=())
    await stage.apply(volume(rest=DELETED))
    desired = Desired(loaded(stage, volume("files")))
    plan = await make_plan(project, desired)
    assert [each.code for each in plan.diagnostics] == ["renamed"]
    assert list(map(str, plan.deletes)) == ["Volume/shop/data"]
    stage.line.sent.clear()
    for apply_it in (run_saved(project, desired, plan, ()), stage.apply(volume("files"))):
        with pytest.raises(Refused) as refused:
            await apply_it
        assert codes(refused.value)[-1] in ("delete-not-approved", "renamed")
    assert stage.line.mutations == []
    given = Given((await approved(stage, plan, ana),), REHEARSAL.digest)
    done = await run_saved(project, desired, plan, (), given=given)
    assert set(outcomes(done).values()) == {"done"}
    assert {"Volume/shop/files#create", "Volume/shop/data#delete"} < outcomes(done).keys()
    assert done.plan.diagnostics == ()


async def test_a_plan_says_which_approvals_its_apply_asks_for(stage: Stage, ana: Person, bob: Person) -> None:
    project = watched(stage, ana, bob)
    plan = await planned(stage, project)
    (told,) = [each for each in plan.diagnostics if each.code == "approval-needed"]
    assert told.severity == "warning"
    assert told.message == (
        "the rule {action: delete} asks for the approval of 2 different people for `Volume/shop/data`"
    )
    assert approvals(plan) == ["--approval FILE"]
    given = [await approved(stage, plan, each) for each in (ana, bob)]
    assert (await run(project, plan, *given)).plan.diagnostics == ()  # nothing is asked for any more


async def test_the_journal_has_them_whole_before_the_first_intent(
    stage: Stage, ana: Person, bob: Person
) -> None:
    project = watched(stage, ana, bob)
    plan = await planned(stage, project)
    given = [await approved(stage, plan, each) for each in (ana, bob)]
    await run(project, plan, *given)
    entries = [entry for _, entry in await stage.store.journal()]
    began = [entry for entry in entries if entry.event is Event.RUN_STARTED][-1]
    assert began.data["approvals"] == [each.to_json() for each in given]
    intents = [entry for entry in entries if entry.event is Event.INTENT and entry.run == began.run]
    assert entries.index(began) < min(map(entries.index, intents))
    assert {each.id for each in given} <= (await stage.store.load()).plans_run
    assert history_of(await stage.store.journal()).runs[-1].began.digest == plan_digest(plan)


APPROVED = ("Volume/shop/data",)


@pytest.mark.parametrize(
    ("rules", "signing", "approving", "deletes", "told"),
    [
        pytest.param([TWO], "ana bob", "ana", (), "approval-needed", id="one of two"),
        pytest.param([TWO], "ana bob", "ana", APPROVED, "approval-needed", id="an option beside one of two"),
        pytest.param([TWO], "ana", "", (), "approval-needed", id="no option is offered instead"),
        pytest.param([TWO], "", "ana", APPROVED, "approval-needed", id="nobody is known to sign"),
        pytest.param([], "", "ana", APPROVED, "approval-dead", id="nobody is known, and no rule asks"),
        pytest.param([], "ana", "bob", (), "approval-dead delete-not-approved", id="one that does not count"),
        pytest.param([], "", "", (), "delete-not-approved", id="no rule, as before"),
        pytest.param([], "", "", APPROVED, "", id="no rule, and an option, as before"),
        pytest.param([], "ana", "ana", (), "", id="one covers a delete that no rule is about"),
    ],
)
async def test_a_delete_runs_with_the_approvals_that_count(
    stage: Stage, ana: Person, bob: Person, rules: Any, signing: str, approving: str, deletes: Any, told: str
) -> None:
    people = {"ana": ana, "bob": bob}
    project = watched(stage, *map(people.__getitem__, signing.split()), rules=tuple(rules))
    plan = await planned(stage, project)
    given = [await approved(stage, plan, people[name]) for name in approving.split()]
    stage.line.sent.clear()
    if not told:
        assert set(outcomes(await run(project, plan, *given, deletes=deletes)).values()) == {"done"}
        return
    with pytest.raises(Refused) as refused:
        await run(project, plan, *given, deletes=deletes)
    assert codes(refused.value) == told.split()
    if signing == "ana bob":
        assert "1 of 2 people approved it" in refused.value.diagnostics[-1].message
    assert stage.line.mutations == []


async def test_where_a_rule_matches_no_apply_runs_without_a_saved_plan(stage: Stage, ana: Person) -> None:
    project = watched(stage, ana)
    await planned(stage, project)
    stage.line.sent.clear()
    asked: list[Plan] = []

    def approve(plan: Plan) -> bool:
        asked.append(plan)
        return True

    with pytest.raises(Refused) as refused:
        await apply(project, Desired(()), approve=approve, approved_deletes=APPROVED)
    (problem,) = [each for each in refused.value.diagnostics if each.code == "approval-needed"]
    assert asked == []
    for typed in (
        "reconcile plan --rehearse --out FILE",
        "reconcile approve FILE",
        "reconcile apply --plan FILE",
    ):
        assert typed in problem.help
    assert stage.line.mutations == []


async def test_what_does_not_count_is_told_where_others_are_enough(
    stage: Stage, ana: Person, bob: Person
) -> None:
    project = watched(stage, ana, bob, rules=(ONE,))
    plan = await planned(stage, project)
    late = await approved(stage, plan, bob, plan="c" * 64)
    applied = await run(project, plan, await approved(stage, plan, ana), late)
    assert [(each.code, str(each.severity)) for each in applied.plan.diagnostics] == [
        ("approval-dead", "warning")
    ]


async def test_a_moved_object_ends_it(stage: Stage, ana: Person, bob: Person) -> None:
    project = watched(stage, ana, bob)
    plan = await planned(stage, project)
    given = [await approved(stage, plan, each) for each in (ana, bob)]
    (held,) = stage.volumes()
    stage.call("POST", "/_sandbox/machines", {"app": "shop", "volumes": [held["id"]]})
    stage.line.sent.clear()
    with pytest.raises(Refused) as refused:
        await run(project, plan, *given)
    assert codes(refused.value) == ["volume-attached", "plan-moved"]
    assert stage.line.mutations == []
    assert not {each.id for each in given} & (await stage.store.load()).plans_run  # not used, either


async def test_an_approval_is_used_once_also_by_two_runners_at_once(
    stage: Stage, ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = watched(stage, ana, rules=())
    await stage.apply(volume())
    desired = Desired(loaded(stage, volume(spec="region: ams, size_gb: 20")))
    first, second = [await make_plan(project, desired) for _ in range(2)]
    assert plan_digest(first) == plan_digest(second)
    given = Given((await approved(stage, first, ana),), REHEARSAL.digest)
    stage.line.sent.clear()
    first_is_done, ended = anyio.Event(), dict[str, Any]()

    async def second_waits(project: Project, plan: Plan, **options: Any) -> Applied:
        if judged := waiting.pop() if waiting else None:
            judged.set()
            await first_is_done.wait()
        return await run_plan(project, plan, **options)

    second_has_judged = anyio.Event()
    waiting = [second_has_judged]
    monkeypatch.setattr(applying, "run_plan", second_waits)

    async def runner(plan: Plan) -> None:
        try:
            ended[plan.id] = outcomes(await run_saved(project, desired, plan, (), given=given))
        except Refused as refused:
            ended[plan.id] = codes(refused)

    async with anyio.create_task_group() as group:
        group.start_soon(runner, second)
        await second_has_judged.wait()
        await runner(first)
        first_is_done.set()
    assert ended == {first.id: {"Volume/shop/data#extend": "done"}, second.id: ["approval-dead"]}
    assert len(stage.line.mutations) == 1


async def test_it_must_still_hold_when_the_lock_is_free(stage: Stage, ana: Person, bob: Person) -> None:
    project = watched(stage, ana, bob)
    plan = await planned(stage, project)
    now = stage.time.now()
    ends = now + timedelta(seconds=30)
    approvals = [await approved(stage, plan, each, at=now, expires=ends) for each in (ana, bob)]

    def a_minute_passes(plan: Plan) -> None:
        stage.time.elapsed_s += 60

    given = Given(tuple(approvals), REHEARSAL.digest)
    with pytest.raises(Refused, match="does not count any more") as refused:
        await run_saved(project, Desired(()), plan, (), given=given, tell=a_minute_passes)
    assert codes(refused.value) == ["approval-needed", "approval-dead", "approval-dead"]
