"""What the state remembers of the last apply: stricter counts at once, looser from the next run on."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.approvals.judging import Given
from reconciler.approvals.rules import Authority, Rule, Said, Signers
from reconciler.approvals.statement import Approval
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Address, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.execution.decisions import remember
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project import apply as applying
from reconciler.project.apply import apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied, run_plan
from tests.approvals.people import ENV, Person
from tests.approvals.test_applying import REHEARSAL, approved, codes, run
from tests.execution.stage import Stage, loaded, of_shop, outcomes, volume


def rule(people: int = 1, valid: str = "24h", **when: Any) -> Rule:
    return Rule.model_validate({"when": when or {"action": "delete"}, "from": people, "valid": valid})


TWO = (rule(2),)
AGES = (rule(lowers="snapshot_max_age_h"),)
GONE = "lifecycle: {deletion: delete}\n"
OLD, NEW = volume("old", rest=GONE), volume("new", "region: fra, size_gb: 30")
AGED = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
    "spec: {selector: {}, snapshot_max_age_h: %d}\n"
)
BLOG = volume("posts").replace("app: shop", "app: blog")


def of_blog(record: StateRecord) -> bool:
    return record.address.app == "blog"


DELETES = ("Volume/shop/old",)


def project(stage: Stage, rules: Sequence[Rule] = (), *people: Person, **authority: Any) -> Project:
    file = Signers("".join(each.line() for each in people), "`allowed_signers`")
    found = Authority(Said(tuple(rules), (file,)), **authority)
    return replace(stage.project(), authority=found, variables=ENV)


async def applied(at: Project, stage: Stage, manifests: str, **about: Any) -> Applied:
    desired = Desired(loaded(stage, manifests), **about)
    deletes = [*map(str, (await make_plan(at, desired)).deletes)]
    return await apply(at, desired, approve=lambda plan: True, approved_deletes=deletes)


async def refused(at: Project, stage: Stage, manifests: str, **about: Any) -> list[str]:
    stage.line.sent.clear()
    with pytest.raises(Refused) as found:
        await applied(at, stage, manifests, **about)
    assert stage.line.mutations == []
    return codes(found.value)


async def test_who_takes_a_rule_away_is_still_held_to_it_and_the_next_run_is_not(stage: Stage) -> None:
    await applied(project(stage, TWO), stage, volume() + OLD)
    for _ in range(2):  # a refused run remembers nothing
        assert await refused(project(stage), stage, volume()) == ["approval-needed"]
    told = (await applied(project(stage), stage, volume() + OLD)).plan.diagnostics  # which sends nothing
    assert [each.code for each in told] == ["rules-loosened"]
    assert "{action: delete} (from: 2, valid: 24h)" in told[0].message
    done = await applied(project(stage), stage, volume())
    assert outcomes(done)["Volume/shop/old#delete"] == "done"
    assert done.plan.diagnostics == ()


async def test_a_plan_tells_of_both_and_writes_nothing(stage: Stage) -> None:
    await applied(project(stage, TWO), stage, OLD)
    before = await stage.store.load()
    plan = await make_plan(project(stage), Desired(()))
    assert {each.code for each in plan.diagnostics} >= {"rules-loosened", "approval-needed"}
    assert (await stage.store.load()).version == before.version


@pytest.mark.parametrize(
    ("now", "loosened"),
    [
        ([rule(3)], False),
        ([rule(2, valid="1h")], False),
        ([rule(2, action="delete", environment="prod")], True),
        ([rule(1)], True),
        ([rule(2, valid="48h")], True),
        ([rule(2, impact="data_loss")], True),
    ],
)
async def test_only_what_asks_for_less_is_looser(stage: Stage, now: list[Rule], loosened: bool) -> None:
    await applied(project(stage, TWO), stage, OLD)
    told = (await applied(project(stage, now), stage, OLD)).plan.diagnostics
    assert ("rules-loosened" in {each.code for each in told}) is loosened


def test_a_rule_about_larger_objects_only_asks_for_less() -> None:
    small, large, all_ = rule(more_than_gb=10), rule(more_than_gb=20), rule()
    assert [small.covers(large), large.covers(small)] == [True, False]
    assert all_.covers(rule(action="delete", more_than_gb=1))
    assert not rule(environment="prod").covers(rule(environment="prod", lowers="snapshot_max_age_h"))


async def test_a_new_rule_counts_at_once_and_outlives_a_run_that_dies(stage: Stage) -> None:
    await applied(project(stage), stage, OLD)
    assert await refused(project(stage, TWO), stage, "") == ["approval-needed"]

    def dies(executor: Any) -> None:
        raise KeyboardInterrupt

    desired = Desired(loaded(stage, OLD + NEW))
    with pytest.raises(KeyboardInterrupt):
        await apply(project(stage, TWO), desired, approve=lambda plan: True, on_executor=dies)
    assert stage.line.mutations == []  # before the first call
    assert await refused(project(stage), stage, NEW) == ["approval-needed"]


async def test_a_run_of_which_something_failed_loosens_nothing(stage: Stage) -> None:
    await applied(project(stage, TWO), stage, OLD)
    stage.fault(method="POST", path="*", action="status", status=422, times=1)
    failed = await applied(project(stage), stage, OLD + NEW)
    assert set(outcomes(failed).values()) == {"failed"}
    assert await refused(project(stage), stage, NEW) == ["approval-needed"]
    await applied(project(stage), stage, OLD + NEW)
    assert set(outcomes(await applied(project(stage), stage, NEW)).values()) == {"done"}


@pytest.mark.parametrize(
    "part",
    [
        {"targets": (Address("Volume", "data", "shop"),)},
        {"focus": (Address("Volume", "data", "shop"),)},
        {"selected": lambda record: record.address.name != "old"},  # its manifest stands in a file not given
    ],
)
async def test_a_run_about_a_part_loosens_nothing(stage: Stage, part: Any) -> None:
    await applied(project(stage, TWO), stage, volume() + OLD)
    await applied(project(stage), stage, volume(), **part)
    assert await refused(project(stage), stage, volume()) == ["approval-needed"]


async def test_a_saved_plan_of_a_part_loosens_nothing(stage: Stage) -> None:
    await applied(project(stage, TWO), stage, OLD)
    plan = await make_plan(project(stage), Desired(loaded(stage, OLD + NEW)))
    done = await run_saved(project(stage), Desired(loaded(stage, OLD + NEW + volume())), plan, ())
    assert set(outcomes(done).values()) == {"done"}
    assert await refused(project(stage), stage, NEW) == ["approval-needed"]


async def test_another_apps_pipeline_neither_loosens_nor_is_held_to_what_counts_here(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/apps", {"name": "blog"})
    await applied(project(stage, TWO), stage, OLD, selected=of_shop)
    other = project(stage, [rule(action="extend")])
    await applied(other, stage, BLOG, selected=of_blog)
    done = await applied(other, stage, BLOG, selected=of_blog)
    assert "rules-loosened" not in {each.code for each in done.plan.diagnostics}
    assert await refused(project(stage), stage, NEW, selected=of_shop) == ["approval-needed"]
    grown = BLOG.replace("size_gb: 10", "size_gb: 20")
    assert await refused(project(stage), stage, grown, selected=of_blog) == ["approval-needed"]


async def test_an_app_that_the_state_does_not_know_yet_is_held_to_all_that_it_remembers(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/apps", {"name": "blog"})
    for rules in ((), [rule(action="create")]):
        await applied(project(stage, rules), stage, OLD, selected=of_shop)
    assert await refused(project(stage), stage, BLOG, selected=of_blog) == ["approval-needed"]


async def test_what_held_a_new_app_holds_it_until_a_run_went_through(stage: Stage) -> None:
    stage.call("POST", "/_sandbox/apps", {"name": "blog"})
    await applied(project(stage, TWO), stage, OLD, selected=of_shop)
    stage.fault(method="POST", path="*", action="status", status=422, times=1)
    both = "".join(volume(name, rest=GONE) for name in ("posts", "pages")).replace("app: shop", "app: blog")
    assert set(outcomes(await applied(project(stage), stage, both, selected=of_blog)).values()) == {
        "done",
        "failed",
    }
    assert await refused(project(stage), stage, "", selected=of_blog) == ["approval-needed"]


async def test_what_many_apps_are_held_to_is_remembered_once(stage: Stage, ana: Person) -> None:
    for app in (apps := [f"app{number}" for number in range(5)]):
        stage.call("POST", "/_sandbox/apps", {"name": app})
    manifests = "".join(volume().replace("app: shop", f"app: {app}") for app in apps)
    await applied(project(stage, TWO, ana), stage, manifests)
    remembered = str((await stage.store.load()).remembered["approvals"].applied)
    assert remembered.count(ana.line().split()[-1]) == 1


async def test_what_others_make_stricter_while_a_person_is_asked_counts(stage: Stage) -> None:
    await applied(project(stage), stage, OLD)
    plan = await make_plan(project(stage), Desired(()))
    await applied(project(stage, TWO), stage, OLD)
    with pytest.raises(Refused) as found:
        await run_plan(project(stage), plan, approved_deletes=DELETES)
    assert codes(found.value) == ["approval-needed"]


async def test_a_run_that_ends_late_does_not_loosen_what_others_made_stricter(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await applied(project(stage, TWO), stage, OLD)
    others = [rule(3)]

    async def and_others_meanwhile(at: Project, *about: Any, **options: Any) -> Applied:
        done = await run_plan(at, *about, **options)
        if others:
            await applied(project(stage, [*TWO, others.pop()]), stage, OLD + NEW)
        return done

    monkeypatch.setattr(applying, "run_plan", and_others_meanwhile)
    await applied(project(stage), stage, OLD + NEW)
    told = (await make_plan(project(stage), Desired(loaded(stage, OLD + NEW)))).diagnostics
    assert [each.message.partition("valid")[0] for each in told if each.code == "rules-loosened"] == [
        "the rule {action: delete} (from: 2, ",
        "the rule {action: delete} (from: 3, ",
    ]


async def test_signers_who_come_count_from_the_next_run_on_and_who_leave_at_once(
    stage: Stage, ana: Person, bob: Person
) -> None:
    one = [rule(1)]
    await applied(project(stage, one, ana), stage, OLD)
    plan = await make_plan(project(stage, one, ana), Desired(()))
    for people, signs, problem in (
        ((ana, bob), bob, "the `allowed_signers` of the last apply does not let `bob@example.com` sign"),
        ((bob,), ana, "`allowed_signers` does not let `ana@example.com` sign"),
        ((), ana, "`allowed_signers` names nobody"),
    ):
        with pytest.raises(Refused) as found:
            await run(project(stage, one, *people), plan, await approved(stage, plan, signs))
        assert problem in "".join(each.message for each in found.value.diagnostics)
    await applied(project(stage, one, ana, bob), stage, OLD)
    plan = await make_plan(project(stage, one, ana, bob), Desired(()))
    done = await run(project(stage, one, ana, bob), plan, await approved(stage, plan, bob))
    assert set(outcomes(done).values()) == {"done"}


async def test_the_signers_of_the_runner_win_and_those_of_the_base_count_too(
    stage: Stage, ana: Person, bob: Person
) -> None:
    one, file = [rule(1)], Signers(bob.line(), "the runner's")
    await applied(project(stage, one, ana), stage, OLD)
    plan = await make_plan(project(stage, one, ana), Desired(()))
    before = Said((rule(2),), (file,))
    with pytest.raises(Refused) as found:
        await run(project(stage, one, ana, before=before), plan, await approved(stage, plan, ana))
    assert codes(found.value)[:3] == ["approval-needed", "approval-needed", "approval-dead"]
    done = await run(project(stage, one, ana, outside=file), plan, await approved(stage, plan, bob))
    assert set(outcomes(done).values()) == {"done"}


def aged(age_h: int = 0) -> str:
    return volume() + (AGED % age_h if age_h else "")


async def test_an_objective_is_compared_with_that_of_the_last_apply(stage: Stage) -> None:
    ruled = project(stage, AGES)
    await applied(ruled, stage, aged(24))
    for weaker in (aged(48), aged()):
        assert await refused(ruled, stage, weaker) == ["approval-needed"]
    await applied(ruled, stage, aged(12))
    assert await refused(ruled, stage, aged(24)) == ["approval-needed"]
    moved = "---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {name: m}\n"
    moved += "spec: {from: Volume/shop/data, to: Volume/shop/late}\n"
    renamed = load(["-"], root=stage.root, stdin=(volume("late") + moved).encode)
    with pytest.raises(Refused) as found:
        await apply(ruled, Desired(renamed.resources, policies=renamed.policies), approve=lambda plan: True)
    assert codes(found.value) == ["approval-needed"]


async def test_an_objective_is_remembered_before_any_rule_asks_about_it(stage: Stage) -> None:
    await applied(project(stage), stage, aged(24))
    assert await refused(project(stage, AGES), stage, aged(48)) == ["approval-needed"]


async def test_an_apply_that_refuses_a_part_loosens_nothing(stage: Stage) -> None:
    await applied(project(stage, TWO), stage, OLD)
    unread = "---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: KEY, app: shop}\n"
    unread += "spec: {value_from: {env: MISSING}}\n"
    done = await applied(project(stage), stage, OLD + NEW + unread)
    assert {each.code for each in done.plan.diagnostics} == {"secret-source", "rules-loosened"}
    assert await refused(project(stage), stage, NEW) == ["approval-needed"]


async def test_an_approval_of_one_weaker_objective_is_none_of_another(stage: Stage, ana: Person) -> None:
    ruled = project(stage, AGES, ana)

    async def run_with(age_h: int, made: Plan, approval: Approval) -> list[str]:
        desired = Desired(loaded(stage, aged(age_h)))
        try:
            await run_saved(ruled, desired, made, (), given=Given((approval,), REHEARSAL.digest))
        except Refused as found:
            return codes(found)
        return []

    await applied(ruled, stage, aged(24))
    nothing, to_48, to_96, gone = [
        await make_plan(ruled, Desired(loaded(stage, aged(age_h)))) for age_h in (24, 48, 96, 0)
    ]
    approvals = {id(plan): await approved(stage, plan, ana) for plan in (nothing, to_48, to_96, gone)}
    for age_h, made in ((48, to_48), (0, gone)):
        for other in (nothing, to_96, to_48 if made is gone else gone):
            dead = await run_with(age_h, made, approvals[id(other)])
            assert dead == ["approval-needed", "approval-dead"]
    assert await run_with(48, nothing, approvals[id(to_48)]) == ["approval-dead"]
    assert await run_with(96, to_48, approvals[id(to_48)]) == ["plan-moved"]
    assert await refused(ruled, stage, aged(48)) == ["approval-needed"]
    assert await run_with(48, to_48, approvals[id(to_48)]) == []
    await applied(ruled, stage, aged(24))  # which an approval that was used does not take back
    assert await run_with(48, to_48, approvals[id(to_48)]) == ["approval-needed", "approval-dead"]


async def test_a_file_that_names_no_weaker_objective_weakens_none(stage: Stage) -> None:
    ruled = project(stage, AGES)
    await applied(ruled, stage, aged(24))
    plan = await make_plan(ruled, Desired(loaded(stage, aged(24))))
    done = await run_saved(ruled, Desired(loaded(stage, aged(48))), plan, ())
    (told,) = done.plan.diagnostics
    assert told.code == "not-in-plan"
    assert told.message.endswith("left as it is: snapshot_max_age_h 24 -> 48")
    assert await refused(ruled, stage, aged(48)) == ["approval-needed"]


async def test_a_part_of_the_manifests_forgets_no_objective_of_the_others(stage: Stage) -> None:
    ruled = project(stage, AGES)
    other = volume("other").replace("app: shop", "app: shop, labels: {tier: prod}")
    both = AGED % 24
    await applied(ruled, stage, volume() + other + both)
    weaker = volume() + other + (AGED % 24).replace("{}", "{labels: {tier: prod}}")
    for part in (
        {"selected": lambda record: record.address.name == "other"},
        {"targets": (Address("Volume", "other", "shop"),)},
        {},  # the manifest left, its volume is retained
    ):
        await applied(ruled, stage, other + both, **part)
        assert await refused(ruled, stage, weaker) == ["approval-needed"]


async def test_a_run_about_a_part_is_held_to_the_objectives_of_that_part(stage: Stage) -> None:
    ruled = project(stage, AGES)
    await applied(ruled, stage, volume() + volume("other") + AGED % 24)
    weaker = volume() + volume("other", "region: ams, size_gb: 30")
    data, other = (Address("Volume", name, "shop") for name in ("data", "other"))
    for part in ({}, {"targets": (data,)}, {"targets": (other,)}):
        assert await refused(ruled, stage, weaker, **part) == ["approval-needed"]
    kept = weaker.replace("name: other", "name: other, labels: {tier: prod}")
    kept += (AGED % 24).replace("{}", "{labels: {tier: prod}}")
    done = await applied(ruled, stage, kept, targets=(other,))
    assert outcomes(done) == {"Volume/shop/other#extend": "done"}
    assert await refused(ruled, stage, kept) == ["approval-needed"]


async def test_a_state_that_remembers_nothing_says_so_once(stage: Stage, ana: Person) -> None:
    class Notes(Reporter):
        def note(self, message: str) -> None:
            notes.append(message)

    notes: list[str] = []
    stage.reporter = Notes()
    await applied(project(stage), stage, OLD)
    assert notes == []
    before = Said(TWO, (Signers(ana.line(), "`allowed_signers` at main"),))
    assert await refused(project(stage, before=before), stage, NEW) == ["approval-needed"]
    for _ in range(2):
        await applied(project(stage, [rule(1)], ana), stage, OLD)
    assert [each for each in notes if "remembered no approval rules" in each] == notes
    assert len(notes) == 1


async def test_a_rule_of_a_newer_version_is_not_left_out(stage: Stage) -> None:
    moon = json.dumps({"rules": [{"when": {"moon": "full"}}], "signers": []})
    written = {"rules": {moon: ["shop"]}}
    await applied(project(stage), stage, OLD)
    await remember(stage.store, project(stage).actor(), "approvals", lambda before: written)
    with pytest.raises(ReconcilerError, match="rule that this version does not know"):
        await applied(project(stage), stage, OLD)
