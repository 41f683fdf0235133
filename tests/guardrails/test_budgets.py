"""Budgets over time: what counts, what is refused before the first call, and what people may sign."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from reconciler.approvals.in_force import Terms
from reconciler.approvals.judging import Given, Judged
from reconciler.approvals.reserving import reserved
from reconciler.approvals.rules import Authority, Said
from reconciler.approvals.spent import BUDGETS, past_uses
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Refused
from reconciler.core.model import Address
from reconciler.execution.decisions import MADE, recall, remember
from reconciler.guardrails.limit import Limit
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply, run_saved
from reconciler.project.copies import restored_note
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry
from tests.approvals.conftest import ana, keys
from tests.approvals.people import ENV, Person, signers
from tests.approvals.test_applying import REHEARSAL, approved
from tests.execution.conftest import stage
from tests.execution.stage import START, Stage, left_open, loaded, outcomes, volume

__all__ = ["ana", "keys", "stage"]

GONE = "lifecycle: {deletion: delete, snapshot_before: []}\n"
HOUR = 3600


def budget(name: str = "a-day", window: str = "24h", environment: str = "", **most: int) -> Limit:
    spec: dict[str, Any] = {"window": window, "most": most}
    spec |= {"environment": environment} if environment else {}
    return Limit("Budget", name, json.dumps(spec), "guardrails/limits.yaml:4:12")


def project(stage: Stage, *budgets: Limit, people: Sequence[Person] = ()) -> Project:
    authority = Authority(Said(budgets, (signers(person.line() for person in people),)))
    return replace(stage.project(), authority=authority, variables=ENV)


async def aged(stage: Stage) -> Stage:
    """A state that was made a month ago."""
    long_ago = (stage.time.now() - timedelta(days=31)).isoformat()
    await remember(stage.store, stage.project().actor(), MADE, lambda known: {"at": long_ago})
    return stage


async def applied(at: Project, stage: Stage, manifests: str, **given: Any) -> Applied:
    desired = Desired(loaded(stage, manifests))
    deletes = [*map(str, (await make_plan(at, desired)).deletes)]
    return await apply(at, desired, approve=lambda plan: True, approved_deletes=deletes, **given)


async def refused(at: Project, stage: Stage, manifests: str) -> list[Diagnostic]:
    sent = len(stage.line.mutations)
    with pytest.raises(Refused) as found:
        await applied(at, stage, manifests)
    assert len(stage.line.mutations) == sent
    return [each for each in found.value.diagnostics if each.severity == "error"]


def volumes(*names: str, size_gb: int = 10, rest: str = GONE) -> str:
    return "".join(volume(name, f"region: ams, size_gb: {size_gb}", rest) for name in names)


async def test_small_runs_together_do_not_do_what_one_big_run_may_not(stage: Stage) -> None:
    at = project(await aged(stage), budget(deletes=1))
    await applied(at, stage, volumes("a", "b", "c"))
    (problem,) = await refused(at, stage, volumes("a"))
    assert problem.code == "over-budget"
    assert problem.message == ("`Budget/a-day` allows `deletes: 1` in 24h: 0 used, and this plan needs 2")
    assert problem.help.startswith("split the plan: it alone needs more")
    await applied(at, stage, volumes("a", "b"))
    await stage.time.sleep(HOUR)
    (problem,) = await refused(at, stage, volumes("a"))
    assert problem.addresses == ("Volume/shop/b",)
    assert problem.message == "`Budget/a-day` allows `deletes: 1` in 24h: 1 used, and this plan needs 1"
    assert "Volume/shop/c" in problem.notes[0]
    assert problem.help.startswith("enough is free again at 2026-01-02 00:")
    await stage.time.sleep(23 * HOUR)
    assert set(outcomes(await applied(at, stage, volumes("a"))).values()) == {"done"}


async def messages(at: Project, stage: Stage, manifests: str) -> list[str]:
    return [each.message for each in await refused(at, stage, manifests)]


async def test_a_plan_tells_the_same_and_a_larger_budget_of_this_change_does_not_count_yet(
    stage: Stage,
) -> None:
    await applied(project(await aged(stage), budget(creates=1)), stage, volumes("a"))
    looser = project(stage, budget(creates=9))
    told = (await make_plan(looser, Desired(loaded(stage, volumes("a", "b"))))).diagnostics
    assert [(each.code, str(each.severity)) for each in told] == [
        ("rules-loosened", "warning"),
        ("over-budget", "error"),
    ]
    assert "over-budget" in {each.code for each in await refused(looser, stage, volumes("a", "b"))}
    await stage.time.sleep(24 * HOUR)
    await applied(looser, stage, volumes("a", "b"))
    await applied(looser, stage, volumes("a", "b", "c", "d"))


async def test_each_line_counts_what_it_says(stage: Stage) -> None:
    at = project(await aged(stage), budget(gb_added=25, gb_deleted=15))
    assert await messages(at, stage, volumes("a", "b", "c")) == [
        "`Budget/a-day` allows `gb_added: 25` in 24h: 0 used, and this plan needs 30"
    ]
    await applied(at, stage, volumes("a") + volumes("b", size_gb=4))
    assert await messages(at, stage, volumes("a", size_gb=22) + volumes("b", size_gb=4)) == [
        "`Budget/a-day` allows `gb_added: 25` in 24h: 14 used, and this plan needs 12"
    ]
    await applied(at, stage, volumes("a", size_gb=20) + volumes("b", size_gb=4))
    assert await messages(at, stage, volumes("b", size_gb=4)) == [
        "`Budget/a-day` allows `gb_deleted: 15` in 24h: 0 used, and this plan needs 20"
    ]
    await applied(at, stage, volumes("a", size_gb=20))


async def test_a_no_counts_nothing_and_an_unknown_outcome_counts(stage: Stage) -> None:
    at = project(await aged(stage), budget(creates=1))
    stage.fault(method="POST", path="*", action="status", status=422, times=1)
    assert set(outcomes(await applied(at, stage, volumes("a"))).values()) == {"failed"}
    stage.fault(method="POST", path="*", action="drop_after", times=1)
    stage.fault(method="GET", path="*", action="status", status=503, times=None)
    with pytest.raises(Refused):  # its plan cannot be read
        await applied(at, stage, volumes("a"))
    stage.call("DELETE", "/_sandbox/faults", {})
    await left_open_with(stage, at, volumes("b"))
    assert await messages(at, stage, volumes("a", "b")) == [
        "`Budget/a-day` allows `creates: 1` in 24h: 1 used, and this plan needs 1"
    ]


async def left_open_with(stage: Stage, at: Project, manifests: str) -> None:
    """As `left_open`, under the project's budgets."""
    stage.project = lambda: replace(at, store=stage.store)  # type: ignore[method-assign]
    await left_open(stage, manifests, "POST")
    del stage.project


async def test_an_environment_of_its_own_is_not_limited_by_another_one(stage: Stage) -> None:
    at = project(await aged(stage), budget(environment="prod", creates=0))
    await applied(at, stage, volumes("a"))
    at = project(stage, budget(environment="base", creates=0))
    assert "this plan needs 1" in (await messages(at, stage, volumes("a", "b")))[0]


# --- what is not known ---


async def test_a_state_that_is_younger_than_the_window_asks_for_a_signature(
    stage: Stage, ana: Person
) -> None:
    at, wanted = project(stage, budget(creates=5), people=[ana]), volumes("a")
    (problem,) = await refused(at, stage, wanted)
    assert problem.code == "budget-unknown"
    assert problem.addresses == ("Volume/shop/a",)
    assert problem.notes == (
        "the state was made at 2026-01-01 00:00 UTC: nobody knows all that was sent in the last 24h",
    )
    plan = await make_plan(at, Desired(loaded(stage, wanted)))
    assert [(each.code, str(each.severity)) for each in plan.diagnostics] == [("budget-unknown", "warning")]
    assert "reconcile approve FILE --override a-day --reason TEXT" in plan.diagnostics[0].help
    for overrides in ("", "another"):
        given = Given((await approved(stage, plan, ana, overrides=overrides),), REHEARSAL.digest)
        with pytest.raises(Refused) as found:
            await run_saved(at, Desired(loaded(stage, wanted)), plan, (), given=given)
        assert "budget-unknown" in {each.code for each in found.value.diagnostics}
    given = Given((await approved(stage, plan, ana, overrides="a-day"),), REHEARSAL.digest)
    await run_saved(at, Desired(loaded(stage, wanted)), plan, (), given=given)
    assert [each["name"] for each in stage.volumes()] == ["a"]


async def test_a_restore_that_lost_rows_asks_for_a_signature_until_the_window_is_over(stage: Stage) -> None:
    at = project(await aged(stage), budget(creates=5))
    await applied(at, stage, volumes("a"))
    lease = await stage.store.lease([WHOLE_STATE], "test")
    await stage.store.inner.commit(lease, [restored_note("rows are lost", "ana", "backup", stage.time.now())])
    await stage.store.release(lease)
    (problem,) = await refused(at, stage, volumes("a", "b"))
    assert problem.code == "budget-unknown"
    assert "restored at 2026-01-01 00:00 UTC, and lacks rows" in problem.notes[0]
    await stage.time.sleep(24 * HOUR)
    await applied(at, stage, volumes("a", "b"))


async def test_a_size_that_nobody_knows_asks_for_a_signature(stage: Stage) -> None:
    at = project(await aged(stage), budget(gb_added=50))
    both = volumes("a") + volume("copy", "from: {volume: a}", GONE)
    (problem,) = await refused(at, stage, both)
    assert problem.notes == ("`gb_added` of Volume/shop/copy is not known (Volume/shop/copy#create)",)
    await applied(at, stage, volumes("a"))
    assert set(outcomes(await applied(at, stage, both)).values()) == {"done"}
    assert await messages(at, stage, both + volumes("b", size_gb=31)) == [
        "`Budget/a-day` allows `gb_added: 50` in 24h: 20 used, and this plan needs 31"
    ]


def entry(event: Event, hour: float, run: str = "r1", step: str = "V#delete", **data: Any) -> Any:
    at = START + timedelta(hours=hour)
    address = Address("Volume", "a", "shop") if event is not Event.RUN_STARTED else None
    return "shop", JournalEntry(run, event, at, address, step if address else "", data=data)


LATE = timedelta(minutes=3)
INTENT = {"method": "DELETE", "path": "/v1/apps/shop/volumes/vol_1", "if_unknown": "repeat"}


def test_a_call_counts_when_it_was_sent_and_not_when_its_run_began() -> None:
    began = entry(Event.RUN_STARTED, 0, actor="ana")
    (use,) = past_uses([began, entry(Event.INTENT, 23, **INTENT), entry(Event.DONE, 23.5)], LATE)
    assert (use.at, use.by) == (START + timedelta(hours=23.5), "ana")
    assert use.uses == {"calls": 1, "deletes": 1, "gb_deleted": None, "names": ["Volume/shop/a"]}


@pytest.mark.parametrize(
    ("later", "counts"),
    [
        ([], True),
        ([entry(Event.UNKNOWN, 2)], True),
        ([entry(Event.FAILED, 2)], False),
        ([entry(Event.FAILED, 2), entry(Event.DONE, 3)], True),  # another read showed that it was done
        ([entry(Event.UNKNOWN, 2), entry(Event.SETTLED, 3, absolute=True)], True),
        ([entry(Event.UNKNOWN, 2), entry(Event.SETTLED, 3, landed=False)], True),  # it may only be repeated
    ],
)
def test_only_a_no_frees_what_an_absolute_call_used(later: list[Any], counts: bool) -> None:
    assert bool(past_uses([entry(Event.INTENT, 1, **INTENT), *later], LATE)) is counts


def test_evidence_that_a_create_had_no_effect_frees_it() -> None:
    create: dict[str, Any] = {
        "method": "POST",
        "path": "/v1/apps/shop/volumes",
        "if_unknown": "find",
        "creates": True,
    }
    sent, unknown = entry(Event.INTENT, 1, **create), entry(Event.UNKNOWN, 1)
    assert past_uses([sent, unknown, entry(Event.SETTLED, 2, landed=False)], LATE) == []
    assert past_uses([sent, unknown], LATE)[0].at == START + timedelta(hours=1) + LATE


# --- what goes together with its copy ---


async def test_a_volume_and_its_fork_do_not_go_in_one_window_unless_both_are_signed(
    stage: Stage, ana: Person
) -> None:
    at = project(await aged(stage), budget(deletes=5), people=[ana])
    fork = volume("copy", "from: {volume: a}", GONE)
    await applied(at, stage, volumes("a", "b") + fork)
    await applied(at, stage, volumes("a", "b"))  # the copy goes
    await stage.time.sleep(HOUR)
    (problem,) = await refused(at, stage, volumes("b"))
    assert problem.code == "unprotected-delete"
    assert problem.message == (
        "`Volume/shop/a` and its copy `Volume/shop/copy` would both be deleted within 24h"
    )
    assert problem.addresses == ("Volume/shop/a", "Volume/shop/copy")
    await applied(at, stage, volumes("a"))  # another one may
    plan = await make_plan(at, Desired(loaded(stage, "")))
    (told,) = [each for each in plan.diagnostics if each.code == "unprotected-delete"]
    (word,) = [part for part in told.help.split() if part.startswith("both-")]
    given = Given((await approved(stage, plan, ana, overrides=word),), REHEARSAL.digest)
    done = await run_saved(at, Desired(()), plan, (), given=given)
    assert outcomes(done) == {"Volume/shop/a#delete": "done"}


async def test_a_volume_made_of_a_snapshot_is_a_copy_of_the_volume_that_lists_it(stage: Stage) -> None:
    at = project(await aged(stage), budget(deletes=5))
    await applied(at, stage, volumes("a"))
    id = stage.volumes()[0]["id"]
    stage.call("POST", f"/v1/apps/shop/volumes/{id}/snapshots", {})
    await stage.time.sleep(HOUR)
    (snapshot,) = stage.call("GET", f"/v1/apps/shop/volumes/{id}/snapshots", {})
    made = volume("copy", f"region: ams, size_gb: 10, snapshot_id: {snapshot['id']}", GONE)
    await applied(at, stage, volumes("a") + made)
    assert [each.code for each in await refused(at, stage, "")] == ["unprotected-delete"]
    await applied(at, stage, made)
    assert [each.code for each in await refused(at, stage, "")] == ["unprotected-delete"]
    await stage.time.sleep(24 * HOUR)
    await applied(at, stage, "")


@pytest.mark.parametrize("lowered", ["snapshot_retention: 2", "auto_backup_enabled: false"])
async def test_less_is_kept_in_no_window_in_which_the_volume_goes(stage: Stage, lowered: str) -> None:
    at = project(await aged(stage), budget(deletes=5))
    before = "region: ams, size_gb: 10, snapshot_retention: 5, auto_backup_enabled: true"
    field = lowered.partition(":")[0]
    after = ", ".join(lowered if part.startswith(field) else part for part in before.split(", "))
    await applied(at, stage, volume("a", before, GONE))
    await applied(at, stage, volume("a", after, GONE))
    (problem,) = await refused(at, stage, "")
    told = f"`Volume/shop/a` would be deleted, and its {field} be lowered before, within 24h"
    assert problem.message == told
    await stage.time.sleep(24 * HOUR)
    await applied(at, stage, "")


# --- reservations ---


async def test_a_run_leaves_no_reservation_and_a_killed_one_does_until_its_scope_is_taken(
    stage: Stage,
) -> None:
    at = project(await aged(stage), budget(creates=3))
    await applied(at, stage, volumes("a"))
    await stage.time.sleep(24 * HOUR)
    assert recall(await stage.store.load(), BUDGETS) == {}
    dead = {"run": "dead", "step": "x", "scope": "blog", "address": "Volume/blog/x", "path": "/"}
    dead |= {"uses": {"creates": 3, "calls": 1}}  # type: ignore[dict-item]
    own = {**dead, "scope": "shop", "run": "own"}

    def reserve(*uses: Any) -> Any:
        return remember(stage.store, stage.project().actor(), BUDGETS, lambda known: {"reserved": [*uses]})

    await reserve(dead)
    (problem,) = await refused(at, stage, volumes("a", "b"))
    assert problem.help.startswith(
        "enough is free again when run dead has ended, or an apply in `blog` begins"
    )
    await reserve(own)
    await applied(at, stage, volumes("a", "b"))  # nobody but this run can send anything in `shop`
    assert recall(await stage.store.load(), BUDGETS) == {}
    await reserve({**dead, "uses": {"creates": 1, "calls": 1}})
    await applied(at, stage, volumes("a", "b", "c"))
    assert [each["run"] for each in recall(await stage.store.load(), BUDGETS)["reserved"]] == ["dead"]


async def test_the_calls_that_an_answer_brings_are_reserved_before_they_are_sent(stage: Stage) -> None:
    """A provider's configuration becomes secrets, and no plan knows how many."""
    at, desired = project(await aged(stage), budget(calls=3)), Desired(loaded(stage, volumes("a")))
    plan = await make_plan(at, desired)
    state = await stage.store.load()
    terms = Terms(at.authority, desired.by_address, state, plan)
    async with at.actor().leased(stage.store, {"shop"}) as lease:
        judged = Judged((), (), at.authority.now.limits)  # type: ignore[arg-type]
        async with reserved(at, terms, lease, "r1", judged) as reserve:
            (step,) = plan.steps
            await reserve(step, {**step.uses, "calls": 1})
            for key in ("A", "B"):
                await reserve(structs.replace(step, id=f"{step.id}-secrets[{key}]"), {"calls": 1})
            held = recall(await stage.store.load(), BUDGETS)["reserved"]
            assert sum(use["uses"]["calls"] for use in held) == 3
            with pytest.raises(Refused) as found:
                await reserve(structs.replace(step, id=f"{step.id}-secrets[C]"), {"calls": 1})
            assert [each.code for each in found.value.diagnostics] == ["over-budget"]
    assert recall(await stage.store.load(), BUDGETS) == {}


async def test_what_no_budget_limits_reserves_nothing_and_reads_no_journal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("reconciler.approvals.spent.read_spent", read)
    await applied(project(stage), stage, volumes("a"))
    entries = [entry for _, entry in await stage.store.journal()]
    assert not any(entry.data.get("remembered") == BUDGETS for entry in entries)
    (intent,) = [entry for entry in entries if entry.event is Event.INTENT]
    assert intent.data["uses"] == {"creates": 1, "gb_added": 10, "calls": 1}


# --- files ---


@pytest.mark.parametrize(
    ("looser", "stricter"),
    [
        (budget(deletes=2), budget(deletes=1)),
        (budget(deletes=1), budget(deletes=1, creates=3)),
        (budget(deletes=1, window="1h"), budget(deletes=1, window="24h")),
        (budget(deletes=1, environment="prod"), budget(deletes=1)),
    ],
)
def test_a_stricter_budget_covers_a_looser_one_and_not_the_other_way_round(
    looser: Limit, stricter: Limit
) -> None:
    assert stricter.covers(looser)
    assert not looser.covers(stricter)
