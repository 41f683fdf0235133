"""What goes although no drill proves that it could come back: refused unless people sign exactly that."""

import pytest
from msgspec.structs import replace

from reconciler.approvals.judging import Given
from reconciler.core.errors import Refused
from reconciler.core.model import Address
from reconciler.drills.results import Result, proofs, remember_result
from reconciler.project.apply import apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.records import move
from reconciler.state.store import Event
from tests.approvals.people import Person
from tests.approvals.test_applying import REHEARSAL, approved, codes, watched
from tests.drills.stage import DATA, desired, drill
from tests.execution.stage import Stage, cluster, outcomes, volume

GONE = "lifecycle: {deletion: delete, snapshot_before: []}\n"
KEPT = "region: ams, size_gb: 10, snapshot_retention: 14"
WEEKLY = drill("Volume/shop/data")
ORDERS = drill("PostgresCluster/orders")


async def tried(stage: Stage, of: str, *, passed: bool = True) -> None:
    """The result of a drill of `of`, now."""
    (policy,) = desired(stage, volume() + cluster() + drill(of)).policies
    why = "" if passed else "rows: failed: table app.orders is empty"
    await remember_result(
        stage.store,
        stage.project().actor(),
        policy,
        Address.parse(of),
        Result(stage.time.now(), passed, why, (await stage.record(of)).id, "vs_1"),
    )


CHANGES = {
    "the volume goes": (volume(rest=GONE) + WEEKLY, volume("other") + drill("{kind: Volume, app: shop}")),
    "the volume and its drill go": (volume(rest=GONE) + WEEKLY, volume("other")),
    "fewer snapshots": (volume(spec=KEPT) + WEEKLY, volume(spec=KEPT.replace("14", "7")) + WEEKLY),
    "fewer snapshots and no drill": (volume(spec=KEPT) + WEEKLY, volume(spec=KEPT.replace("14", "7"))),
    "no snapshots": (
        volume(spec=f"{KEPT}, auto_backup_enabled: true") + WEEKLY,
        volume(spec=f"{KEPT}, auto_backup_enabled: false") + WEEKLY,
    ),
    "the cluster goes": (cluster("lifecycle: {deletion: delete}\n") + ORDERS, volume("other")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("proof", ["good", "failed", "old"])
async def test_what_goes_needs_a_good_drill(stage: Stage, change: str, proof: str) -> None:
    before, after = CHANGES[change]
    of = "PostgresCluster/orders" if "cluster" in change else str(DATA)
    stage.capabilities = frozenset({"postgres.delete", "postgres.list", "postgres.backups"})
    other = volume("other") if after.startswith(volume("other")) else ""
    await stage.apply("".join([desired_resources(before), other]))
    await tried(stage, of, passed=proof != "failed")
    await stage.time.sleep(9 * 86400 if proof == "old" else 3600)
    stage.line.sent.clear()
    plan = await make_plan(stage.project(), desired(stage, after))
    told = [(each.code, str(each.severity)) for each in plan.diagnostics if each.code == "not-recoverable"]
    assert told == ([] if proof == "good" else [("not-recoverable", "warning")])

    async def run() -> dict[str, str]:
        deletes, wanted = [*map(str, plan.deletes)], desired(stage, after)
        project = stage.project()
        return outcomes(await apply(project, wanted, approve=lambda plan: True, approved_deletes=deletes))

    if proof == "good":
        assert set((await run()).values()) == {"done"}
        return
    with pytest.raises(Refused) as refused:
        await run()
    assert codes(refused.value) == ["not-recoverable"]
    assert stage.line.mutations == []


def desired_resources(manifests: str) -> str:
    """Without the drills."""
    return "---\n".join(part for part in manifests.split("---\n") if "RestoreDrill" not in part)


@pytest.mark.parametrize("days", [1, 9])
async def test_a_drill_that_never_ran_holds_what_leaves_with_it(stage: Stage, days: int) -> None:
    wanted = desired(stage, volume(rest=GONE) + WEEKLY)
    await apply(stage.project(), wanted, approve=lambda plan: True)
    await stage.time.sleep(days * 86400)
    plan = await make_plan(stage.project(), desired(stage, volume("other")))
    told = [each.message for each in plan.diagnostics if each.code == "not-recoverable"]
    why = "its drill is overdue: no restore of it was ever proven"
    assert told == ([f"`{DATA}` could perhaps not be brought back: {why}"] if days == 9 else [])


def moved(old: str, new: str) -> str:
    entry = f"{{from: Volume/shop/{old}, to: Volume/shop/{new}}}"
    return f"---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {{name: {new}}}\nspec: {entry}\n"


async def test_another_name_does_not_open_it(stage: Stage) -> None:
    """Neither together with the change, nor before."""
    await stage.apply(volume(spec=KEPT))
    await tried(stage, str(DATA), passed=False)
    fewer = KEPT.replace("14", "7")
    renamed = volume("logs", spec=fewer) + moved("data", "logs")
    plan = await make_plan(stage.project(), desired(stage, renamed))
    assert "not-recoverable" in {each.code for each in plan.diagnostics}
    logs = Address.parse("Volume/shop/logs")
    await move(stage.store, DATA, logs, stage.project().actor())
    of_logs = volume("logs", spec=fewer) + drill(logs)
    for manifests in (renamed, of_logs):
        plan = await make_plan(stage.project(), desired(stage, manifests))
        assert "not-recoverable" in {each.code for each in plan.diagnostics}
    await stage.time.sleep(60)
    found = desired(stage, of_logs)
    (policy,) = found.policies
    result = Result(stage.time.now(), True, "", (await stage.record(str(logs))).id, "vs_1")
    await remember_result(stage.store, stage.project().actor(), policy, logs, result)
    (proof,) = proofs(found.policies, found.resources, await stage.store.load())
    assert [one.passed for one in proof.results] == [True, False]
    plan = await make_plan(stage.project(), found)
    assert "not-recoverable" not in {each.code for each in plan.diagnostics}


async def test_a_drill_that_nobody_declares_is_to_be_declared_again(stage: Stage) -> None:
    """`reconcile drill` knows none without a manifest."""
    await stage.apply(volume(spec=KEPT))
    await tried(stage, str(DATA), passed=False)
    helps = []
    for drills in (WEEKLY, drill(DATA, name="daily")):
        plan = await make_plan(stage.project(), desired(stage, volume(spec=KEPT.replace("14", "7")) + drills))
        (help,) = [each.help for each in plan.diagnostics if each.code == "not-recoverable"]
        helps.append(help.startswith("declare `RestoreDrill/weekly` again; "))
    assert helps == [False, True]


async def test_people_may_sign_exactly_that(stage: Stage, ana: Person) -> None:
    await stage.apply(volume(rest=GONE))
    await tried(stage, str(DATA), passed=False)
    project = watched(stage, ana, rules=())
    wanted = desired(stage, "")
    plan = await make_plan(project, wanted)
    with pytest.raises(Refused) as refused:
        await run_saved(project, wanted, plan, [str(DATA)])
    assert codes(refused.value) == ["not-recoverable"]
    signed = await approved(stage, plan, ana)
    other = await approved(stage, plan, ana, plan="0" * 64)
    with pytest.raises(Refused):
        await run_saved(project, wanted, plan, (), given=Given((other,), REHEARSAL.digest))
    done = await run_saved(project, wanted, plan, (), given=Given((signed,), REHEARSAL.digest))
    assert set(outcomes(done).values()) == {"done"}


async def test_who_signed_before_the_drill_failed_has_not_signed_that(stage: Stage, ana: Person) -> None:
    await stage.apply(volume(rest=GONE))
    await tried(stage, str(DATA))
    project, wanted = watched(stage, ana, rules=()), desired(stage, "")
    plan = await make_plan(project, wanted)
    signed = await approved(stage, plan, ana)
    await tried(stage, str(DATA), passed=False)
    told = (await make_plan(project, wanted)).diagnostics
    for file in (plan, replace(plan, diagnostics=told)):  # nor does an edited file say so
        with pytest.raises(Refused) as refused:
            await run_saved(project, wanted, file, (), given=Given((signed,), REHEARSAL.digest))
        assert "not-recoverable" in codes(refused.value)
    assert stage.line.mutations == ["POST"]


async def test_a_plan_of_a_delete_says_what_was_proven(stage: Stage) -> None:
    await stage.apply(volume(rest=GONE))
    await tried(stage, str(DATA))
    await stage.time.sleep(3 * 86400)
    (change,) = (await make_plan(stage.project(), desired(stage, ""))).changes
    assert "; 10 GB; last proven restore 3 days ago" in change.reason
    await stage.apply("", approved_deletes=[str(DATA)])
    started = [entry.data for _, entry in await stage.store.journal() if entry.event is Event.RUN_STARTED]
    assert started[-1]["losses"] == {str(DATA): change.reason}  # a bundle of the run has this row


async def applied(stage: Stage, manifests: str, *deletes: str, **about: object) -> dict[str, str]:
    wanted = replace(desired(stage, manifests), **about)
    found = await apply(stage.project(), wanted, approve=lambda plan: True, approved_deletes=deletes)
    return outcomes(found)


async def test_a_drill_that_never_ran_counts_in_the_change_that_takes_it_away(stage: Stage) -> None:
    await applied(stage, volume(rest=GONE) + volume("other") + WEEKLY)
    await stage.time.sleep(9 * 86400)
    with pytest.raises(Refused) as refused:
        await applied(stage, volume("other"), str(DATA))
    assert codes(refused.value) == ["not-recoverable"]


async def test_a_drill_that_was_taken_away_before_counts_no_more(stage: Stage) -> None:
    await applied(stage, volume(rest=GONE) + volume("other") + WEEKLY)
    await stage.time.sleep(9 * 86400)
    await applied(stage, volume(rest=GONE) + volume("other"), focus={DATA})  # not all of the manifests
    with pytest.raises(Refused):
        await applied(stage, volume("other"), str(DATA))
    await applied(stage, volume(rest=GONE) + volume("other"))
    assert set((await applied(stage, volume("other"), str(DATA))).values()) == {"done"}
