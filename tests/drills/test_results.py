"""What results of drills prove, and what they refuse: values in, values out."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.model import (
    Action,
    Address,
    Change,
    Effect,
    FieldChange,
    Impact,
    Lifecycle,
    Resource,
    StateRecord,
)
from reconciler.core.steps import Call, Plan, Step
from reconciler.drills.checks.model import Checked, Facts
from reconciler.drills.results import (
    Proof,
    Result,
    findings,
    proofs,
    remember_result,
    shown_drills,
    unproven,
    with_proofs,
)
from reconciler.execution.decisions import Actor
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HoldsData
from reconciler.manifests.load import load
from reconciler.policies.drill import RestoreDrillSpec
from reconciler.services.machines.wire.cluster import ClusterBackup
from reconciler.state.store import State
from tests.contexts import NOW, context
from tests.drills.stage import DATA, drill
from tests.execution.stage import START, Time, volume
from tests.state.doubles import made

WEEKLY = Address("RestoreDrill", "weekly")
DAY = timedelta(days=1)
SEEN = Checked("contents", "passed", "3 looked at")


def passed(at: datetime = NOW - DAY, **more: Any) -> Result:
    return Result(at, True, id="vol_1", copy="vs_1", recovery_s=720.0, lost_s=240.0, **more)


def failed(at: datetime = NOW) -> Result:
    return Result(at, False, "rows: failed: table app.orders is empty", "vol_1")


def proof(*results: Result, **more: Any) -> Proof:
    declared = RestoreDrillSpec(of=str(DATA))
    given: dict[str, Any] = {"since": NOW - 30 * DAY, "max_age": 8 * DAY, "declared": declared}
    return Proof(WEEKLY, DATA, results, **{**given, **more})


# --- one proof ---


@pytest.mark.parametrize(
    ("schedule", "results", "due"),
    [
        (None, (), False),
        ("0 3 * * *", (), True),  # never run, recorded long ago
        ("0 3 * * *", (passed(NOW - timedelta(hours=8)),), False),  # at 4 o'clock
        ("0 3 * * *", (failed(NOW - timedelta(hours=10)),), True),  # at 2 o'clock
        ("0 3 1 1 *", (passed(NOW - 5 * DAY),), False),
        ("0 12 * * *", (passed(NOW - DAY),), True),  # the minute itself
        ("0 3 * * *", (passed(NOW + 5 * DAY),), True),  # the clock was wrong
    ],
)
def test_it_is_due_once_its_schedule_came_since_the_last(
    schedule: str | None, results: tuple[Result, ...], due: bool
) -> None:
    assert proof(*results, declared=RestoreDrillSpec(of=str(DATA), schedule=schedule)).due(NOW) is due


@pytest.mark.parametrize(
    ("results", "since", "missing"),
    [
        ((passed(),), NOW - 30 * DAY, ""),
        ((passed(NOW - 8 * DAY),), NOW - 30 * DAY, ""),
        (
            (passed(NOW - 9 * DAY),),
            NOW - 30 * DAY,
            "its drill is overdue: last proven restore 9 days ago, took 12 min, up to 240 s of data lost",
        ),
        ((), NOW - 7 * DAY, ""),  # it had no time yet
        ((), NOW - 9 * DAY, "its drill is overdue: no restore of it was ever proven"),
        (
            (failed(), passed()),
            NOW - 30 * DAY,
            "its last drill failed: rows: failed: table app.orders is empty",
        ),
        ((passed(), failed(NOW - 2 * DAY)), NOW - 30 * DAY, ""),
        (
            (passed(NOW + DAY), passed()),
            NOW - 30 * DAY,
            "its drill is overdue: the last good drill is dated 2026-06-02 12:00 UTC, which is still to come",
        ),
        ((passed(), passed(NOW - 7 * DAY, checks=(SEEN,))), NOW - 30 * DAY, ""),
        (
            (passed(), passed(NOW - 9 * DAY, checks=(SEEN,))),
            NOW - 30 * DAY,
            "its drill is overdue: last proven restore 9 days ago, took 12 min, up to 240 s of data lost; "
            "later ones did not look inside",
        ),
    ],
)
def test_what_is_missing_for_a_proof(results: tuple[Result, ...], since: datetime, missing: str) -> None:
    assert proof(*results, since=since).missing(NOW) == missing


def test_drift_names_what_failed_what_is_overdue_and_what_took_too_long() -> None:
    def codes(*proofs: Proof) -> list[str]:
        return [found.code for found in findings(proofs, NOW)]

    assert codes(proof(passed())) == []
    assert codes(proof(failed(), passed())) == ["drill-failed"]
    assert codes(proof(failed(), passed(NOW - 9 * DAY))) == ["drill-failed", "drill-overdue"]
    assert codes(proof()) == ["drill-overdue"]
    assert codes(proof(passed(), declared=RestoreDrillSpec(of=str(DATA), recover_within="10m"))) == [
        "recovery-slower"
    ]
    assert codes(proof(failed(), declared=None)) == []  # no manifest asks for it any more


# --- what the state keeps ---


async def remembered(*results: Result, spec: str = "") -> State:
    """The state after these results, the oldest first. Each has facts of its own size, by its number."""
    store = made(Time())
    ((policy,), _) = loaded(volume() + drill(spec=spec))
    for number, result in enumerate(results):
        await remember_result(store, Actor(Time(), "test"), policy, DATA, result, Facts(size_bytes=number))
    state = await store.load()
    record = StateRecord(DATA, "vol_1", "shop", {}, Lifecycle(), START, "main.yaml")
    return dataclasses.replace(state, records={DATA: record})


def loaded(manifests: str) -> tuple[Sequence[Resource], Sequence[Resource]]:
    """Its policies, and its resources."""
    found = load(["-"], root=Path(), stdin=manifests.encode)
    return found.policies, found.resources


async def test_results_are_kept_newest_first_and_only_some() -> None:
    state = await remembered(*(passed(START + n * DAY) for n in range(25)))
    (found,) = proofs(*loaded(volume() + drill()), state)
    assert [result.at for result in found.results] == [START + n * DAY for n in range(24, 4, -1)]


async def test_the_last_good_result_outlives_many_failed_ones() -> None:
    good = passed(START)
    state = await remembered(good, *(failed(START + n * DAY) for n in range(1, 30)))
    (found,) = proofs(*loaded(volume() + drill()), state)
    assert (len(found.results), found.good) == (20, good)


async def test_facts_of_the_last_good_result_are_kept() -> None:
    """One that did not look inside, since its drill has no `connect` any more, is not good enough."""
    results = [passed(START + n * DAY, checks=(SEEN,)) for n in range(3)]
    more = (failed(START + 4 * DAY), *(passed(START + (5 + n) * DAY) for n in range(30)))
    state = await remembered(*results, *more)
    (found,) = proofs(*loaded(volume() + drill()), state)
    assert (found.facts, found.good) == (Facts(size_bytes=2), results[-1])


async def test_a_drill_without_a_manifest_still_proves_and_a_shorter_age_counts() -> None:
    state = await remembered(passed(), spec="max_age: 3d")
    (left,) = proofs(*loaded(volume()), state)
    assert (left.declared, left.max_age) == (None, 3 * DAY)
    (longer,) = proofs(*loaded(volume() + drill(spec="max_age: 90d")), state)
    assert longer.max_age == 3 * DAY
    (shorter,) = proofs(*loaded(volume() + drill(spec="max_age: 1d")), state)
    assert shorter.max_age == DAY


async def test_results_of_an_older_object_at_the_address_prove_nothing() -> None:
    state = await remembered(replace(passed(), id="vol_0"))
    (found,) = proofs(*loaded(volume() + drill()), state)
    assert (found.results, found.good) == ((), None)


async def test_what_is_not_recorded_has_no_proof() -> None:
    state = await remembered(passed())
    manifests = loaded(volume() + drill())
    assert proofs(*manifests, dataclasses.replace(state, records={})) == []
    assert list(proofs((), (), dataclasses.replace(state, remembered={}))) == []


async def test_show_says_the_last_proof_and_the_results_without_their_facts() -> None:
    state = await remembered(passed(NOW - 3 * DAY))
    (shown,) = shown_drills(state, DATA, NOW)
    assert shown["proven"] == "last proven restore 3 days ago, took 12 min, up to 240 s of data lost"
    assert [result["copy"] for result in shown["results"]] == ["vs_1"]
    assert "facts" not in shown["results"][0]
    assert shown_drills(state, DATA._replace(name="other"), NOW) == []


# --- the gate ---


def plan(*changes: Change, deletes: bool = False) -> Plan:
    step = Step("Volume/shop/data#delete", DATA, Call("DELETE", "/v1/apps/shop/volumes/vol_1"))
    step = replace(step, uses={"deletes": 1, "gb_deleted": 10})
    return Plan("p", context(), changes, (step,) if deletes else (), (), (), (), ())


def changed(path: str, before: object, after: object) -> Plan:
    field = FieldChange(path, before, after, Effect.IN_PLACE)
    return plan(Change(DATA, Action.UPDATE, (field,)))


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (plan(), False),
        (plan(deletes=True), True),
        (changed("snapshot_retention", 14, 7), True),
        (changed("snapshot_retention", 7, 14), False),
        (changed("snapshot_retention", None, 7), False),
        (changed("auto_backup_enabled", True, False), True),
        (changed("auto_backup_enabled", False, True), False),
        (changed("size_gb", 10, 20), False),
    ],
)
def test_what_goes_needs_a_proof(given: Plan, refused: bool) -> None:
    assert unproven(given, [proof(passed())]) == []
    assert bool(unproven(given, [proof(failed(), passed())])) is refused
    assert bool(unproven(given, [proof(passed(NOW - 9 * DAY))])) is refused


def test_a_plan_says_how_much_goes_and_what_was_proven() -> None:
    gone = Change(DATA, Action.DELETE, impact=Impact.DATA_LOSS, reason="its manifest is gone")
    (change,) = with_proofs(plan(gone, deletes=True), [proof(passed(NOW - 3 * DAY))], NOW).changes
    assert change.reason == (
        "its manifest is gone; 10 GB; last proven restore 3 days ago, took 12 min, up to 240 s of data lost"
    )
    (change,) = with_proofs(plan(gone, deletes=True), [], NOW).changes
    assert change.reason == "its manifest is gone; 10 GB"


@pytest.mark.parametrize(
    ("status", "finished_at", "usable"),
    [
        ("completed", "2026-01-01T00:00:00Z", True),
        (None, "2026-01-01T00:00:00Z", True),
        ("failed", "2026-01-01T00:00:00Z", False),
        ("error", "2026-01-01T00:00:00Z", False),
        ("running", None, False),
    ],
)
def test_a_backup_that_failed_is_none(status: str | None, finished_at: str | None, usable: bool) -> None:
    kind = find_kinds()["PostgresCluster"].role(HoldsData)
    assert kind is not None
    copy = ClusterBackup(id="b", status=status, finished_at=finished_at)
    assert (kind.copied(copy) is not None) == usable
