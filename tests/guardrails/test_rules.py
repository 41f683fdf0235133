"""Rules over real plans: what they select, what they see, and what they say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.approvals.judging import Given
from reconciler.approvals.rules import Authority, Said
from reconciler.core.errors import Refused
from reconciler.core.steps import Plan
from reconciler.guardrails.limit import Limit
from reconciler.planning.declared import Desired
from reconciler.planning.digest import plan_digest
from reconciler.project.apply import apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from tests.approvals.people import ENV, SAID, Person, signers
from tests.execution.stage import Stage, cluster, loaded, outcomes, volume
from tests.guardrails.limits import GROWTH, limit

GROWN, DOUBLED = volume(spec="region: ams, size_gb: 30"), volume(spec="region: ams, size_gb: 20")


def guarded(stage: Stage, *limits: Limit, people: tuple[Person, ...] = (), **authority: Any) -> Project:
    found = Authority(Said(limits, (signers(each.line() for each in people),)), **authority)
    return replace(stage.project(), authority=found, variables=ENV)


async def plan(stage: Stage, manifests: str, *limits: Limit) -> Plan:
    return await make_plan(guarded(stage, *limits), Desired(loaded(stage, manifests)))


def codes(found: Plan) -> list[tuple[str, str]]:
    return [(each.code, str(each.severity)) for each in found.diagnostics]


async def run(project: Project, stage: Stage, manifests: str, deletes: tuple[str, ...] = ()) -> Any:
    desired = Desired(loaded(stage, manifests))
    return await apply(project, desired, approve=lambda plan: True, approved_deletes=deletes)


async def refused(project: Project, stage: Stage, manifests: str) -> list[str]:
    stage.line.sent.clear()
    with pytest.raises(Refused) as found:
        await run(project, stage, manifests)
    assert stage.line.mutations == []
    return [each.code for each in found.value.diagnostics if each.severity == "error"]


async def test_a_mandatory_rule_refuses_before_the_first_call(stage: Stage, tmp_path: Path) -> None:
    rule = limit(tmp_path, GROWTH)
    await stage.apply(volume())
    found = await plan(stage, GROWN, rule)
    assert codes(found) == [("refused-by-guardrail", "error")]
    (problem,) = found.diagnostics
    assert problem.addresses == ("Volume/shop/data",)
    assert problem.notes == (
        "it requires change.after.size_gb <= 2 * change.before.size_gb",
        "change.after.size_gb = 30",
        "change.before.size_gb = 10",
    )
    assert "guardrails/some.yaml:5" in problem.message
    assert await refused(guarded(stage, rule), stage, GROWN) == ["refused-by-guardrail"]
    assert codes(await plan(stage, DOUBLED, rule)) == []
    assert outcomes(await run(guarded(stage, rule), stage, DOUBLED)) == {"Volume/shop/data#extend": "done"}


async def test_an_advisory_rule_warns(stage: Stage, tmp_path: Path) -> None:
    rule = limit(tmp_path, GROWTH | {"level": "advisory"})
    await stage.apply(volume())
    assert codes(await plan(stage, GROWN, rule)) == [("guardrail-advised", "warning")]
    assert outcomes(await run(guarded(stage, rule), stage, GROWN)) == {"Volume/shop/data#extend": "done"}


async def signed(stage: Stage, to: Plan, person: Person, overrides: str) -> Given:
    now, lineage = stage.time.now(), (await stage.store.load()).lineage
    said = {"plan": plan_digest(to), "rehearsal": "", "at": now, "lineage": lineage}
    approval = person.approves(SAID, **said, expires=now.replace(year=now.year + 1), overrides=overrides)
    return Given((approval,))


async def test_people_may_sign_an_overridable_rule(stage: Stage, tmp_path: Path, ana: Person) -> None:
    rule = limit(tmp_path, GROWTH | {"level": "overridable"}, "growth")
    await stage.apply(volume())
    project, desired = guarded(stage, rule, people=(ana,)), Desired(loaded(stage, GROWN))
    found = await make_plan(project, desired)
    assert codes(found) == [("refused-by-guardrail", "warning")]
    assert "reconcile approve FILE --override growth --reason TEXT" in found.diagnostics[0].help
    for overrides in ("", "another"):
        given = await signed(stage, found, ana, overrides)
        with pytest.raises(Refused) as failure:
            await run_saved(project, desired, found, (), given=given)
        assert [each.code for each in failure.value.diagnostics] == ["refused-by-guardrail"]
    done = await run_saved(project, desired, found, (), given=await signed(stage, found, ana, "growth"))
    assert outcomes(done) == {"Volume/shop/data#extend": "done"}


async def test_a_signature_helps_against_no_mandatory_rule(stage: Stage, tmp_path: Path, ana: Person) -> None:
    rule = limit(tmp_path, GROWTH, "growth")
    await stage.apply(volume())
    project, desired = guarded(stage, rule, people=(ana,)), Desired(loaded(stage, GROWN))
    found = await make_plan(stage.project(), desired)  # a plan that was saved before the rule existed
    with pytest.raises(Refused) as failure:
        await run_saved(project, desired, found, (), given=await signed(stage, found, ana, "growth"))
    assert "refused-by-guardrail" in [each.code for each in failure.value.diagnostics]


@pytest.mark.parametrize("level", ["mandatory", "overridable", "advisory"])
async def test_what_is_not_known_is_not_allowed(stage: Stage, tmp_path: Path, level: str) -> None:
    spec = GROWTH | {"level": level, "actions": ["create"]}  # nothing was before
    found = await plan(stage, volume(), limit(tmp_path, spec))
    refuses = level != "advisory"
    expected = ("guardrail-undecided", "error") if refuses else ("guardrail-advised", "warning")
    assert codes(found) == [expected]
    assert "`change.before.size_gb` is not known" in found.diagnostics[0].message


async def test_an_output_of_an_earlier_call_is_not_known(stage: Stage, tmp_path: Path) -> None:
    spec = {"require": "change.steps.all(call, call.body.x != 1)", "message": "no"}
    manifests = volume() + volume("copy", "region: ams, from: {volume: data}")
    found = await plan(stage, manifests, limit(tmp_path, spec))
    undecided = [each.addresses for each in found.diagnostics if each.code == "guardrail-undecided"]
    assert ("Volume/shop/copy",) in undecided


async def test_a_condition_on_the_whole_plan_is_told_once(stage: Stage, tmp_path: Path) -> None:
    spec = {"require": "plan.gb_added <= 25", "message": "at most 25 GB at a time"}
    three = volume() + volume("b") + volume("c")
    assert codes(await plan(stage, three, limit(tmp_path, spec))) == [("refused-by-guardrail", "error")]
    assert codes(await plan(stage, volume() + volume("b"), limit(tmp_path, spec))) == []


async def test_deletes_and_what_is_at_risk(stage: Stage, tmp_path: Path) -> None:
    await stage.apply(volume(rest="lifecycle: {deletion: delete}\n"))
    spec = {
        "actions": ["delete"],
        "require": "plan.gb_at_risk < 10 && plan.summary.delete == 1",
        "message": "x",
    }
    assert codes(await plan(stage, "", limit(tmp_path, spec))) == [("refused-by-guardrail", "error")]
    by_before = {
        "kinds": ["Volume"],
        "actions": ["delete"],
        "require": "change.before.size_gb < 11",
        "message": "x",
    }
    assert codes(await plan(stage, "", limit(tmp_path, by_before))) == []


async def test_filters_select(stage: Stage, tmp_path: Path) -> None:
    no = {"require": "false", "message": "no"}
    manifests = volume() + cluster()
    for spec, hits in (
        ({}, 2),
        ({"kinds": ["Volume"]}, 1),
        ({"actions": ["extend"]}, 0),
        ({"when": "change.app == 'shop'"}, 1),
        ({"kinds": ["Volume"], "when": "change.after.size_gb > 10"}, 0),
        ({"when": "environment == 'base' && change.impact == 'online'"}, 2),
    ):
        found = await plan(stage, manifests, limit(tmp_path, no | spec))
        assert len(found.diagnostics) == (1 if not spec else hits), spec


async def test_declared_resources_are_judged_whether_they_change_or_not(stage: Stage, tmp_path: Path) -> None:
    spec = {"judges": "resources", "kinds": ["Volume"], "message": "encrypt it"}
    rule = limit(tmp_path, spec | {"require": "resource.spec.encrypted != false"})
    plain = volume(spec="region: ams, size_gb: 10, encrypted: false")
    await stage.apply(plain)
    assert codes(await plan(stage, plain, rule)) == [("refused-by-guardrail", "error")]
    from reconciler.drift.find import find_drift

    drift = await find_drift(guarded(stage, rule), Desired(loaded(stage, plain)))
    assert codes(drift.plan) == [("refused-by-guardrail", "warning")]


async def test_a_delete_that_no_rule_mentions_needs_its_approval_as_before(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.apply(volume(rest="lifecycle: {deletion: delete}\n"))
    rule = limit(tmp_path, GROWTH)
    assert await refused(guarded(stage, rule), stage, "") == ["delete-not-approved"]


# --- the union: a change does not take its own limits away ---


async def test_the_state_remembers_a_rule_that_a_change_removes(stage: Stage, tmp_path: Path) -> None:
    rule = limit(tmp_path, GROWTH)
    await run(guarded(stage, rule), stage, volume())
    for project in (guarded(stage), guarded(stage, limit(tmp_path, GROWTH | {"level": "advisory"}))):
        assert await refused(project, stage, GROWN) == ["refused-by-guardrail"]
    told = (await run(guarded(stage), stage, volume())).plan.diagnostics  # from the next run on
    assert [each.code for each in told] == ["rules-loosened"]
    assert outcomes(await run(guarded(stage), stage, GROWN)) == {"Volume/shop/data#extend": "done"}


async def test_a_remembered_rule_that_this_version_cannot_read_refuses(stage: Stage) -> None:
    spec = {"kinds": ["Volume"], "require": "change.after.of_a_newer_version > 3", "message": "x"}
    await stage.apply(volume())
    project = guarded(stage, before=Said((Limit("Guardrail", "newer", json.dumps(spec)),)))
    assert await refused(project, stage, GROWN) == ["guardrail-undecided"]


async def test_a_new_name_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    await run(guarded(stage, limit(tmp_path, GROWTH, "old")), stage, volume())
    found = await run(guarded(stage, limit(tmp_path, GROWTH, "new")), stage, volume())
    assert found.plan.diagnostics == ()


async def test_the_base_counts_too(stage: Stage, tmp_path: Path) -> None:
    await stage.apply(volume())
    project = guarded(stage, before=Said((limit(tmp_path, GROWTH),)))
    assert await refused(project, stage, GROWN) == ["refused-by-guardrail"]


async def test_targets_step_around_nothing(stage: Stage, tmp_path: Path) -> None:
    await stage.apply(volume())
    (resource,) = loaded(stage, GROWN)
    desired = Desired([resource]).with_targets([resource.address])
    with pytest.raises(Refused):
        await apply(
            guarded(stage, limit(tmp_path, GROWTH)), desired, approve=lambda plan: True, approved_deletes=()
        )


@pytest.mark.parametrize(
    ("mine", "its", "covers"),
    [
        ({}, {}, True),
        ({"message": "other words"}, {}, True),
        ({"level": "advisory"}, {}, False),
        ({}, {"level": "advisory"}, True),
        ({"kinds": ["Volume", "Machine"]}, {}, True),
        ({}, {"kinds": ["Volume", "Machine"]}, False),
        ({"actions": []}, {}, True),
        ({}, {"actions": []}, False),
        ({"require": "true"}, {}, False),
        ({"when": "change.app != 'lab'"}, {}, False),
    ],
)
def test_who_covers_whom(tmp_path: Path, mine: dict[str, Any], its: dict[str, Any], covers: bool) -> None:
    simple = {"kinds": ["Volume"], "actions": ["extend"], "require": "change.app == 'shop'", "message": "x"}
    assert limit(tmp_path, simple | mine).covers(limit(tmp_path, simple | its)) is covers


def test_what_is_remembered_reads_back_the_same(tmp_path: Path) -> None:
    rule = limit(tmp_path, GROWTH)
    again = Limit.from_json(rule.to_json()["guardrail"])
    assert again.covers(rule)
    assert rule.covers(again)
