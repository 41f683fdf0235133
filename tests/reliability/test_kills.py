"""Kill enumeration: a sample of it, the defects that it must find, and the verdict on hand-made worlds."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.sandbox.parts.secret import fingerprint
from tests.cli.harness import Ran
from tests.reliability.kills import scenario
from tests.reliability.kills.case import SIGNALS
from tests.reliability.kills.planted import DEFECTS
from tests.reliability.kills.sample import class_of, every_case, sampled, step_of
from tests.reliability.kills.verdict import Ending, Kind, judge_process, judge_victim, judge_world
from tests.reliability.proof import run_proof

_KEY = bytes(32)
ENOUGH_POINTS = 150
REQUEST = ("before", "sent", "headers", "body", "after")
OPERATIONS = {
    "",  # of the whole run: adopting and forgetting too, which send nothing
    "Volume/shop/data#create",
    "Volume/shop/data[1]#create",
    "Volume/shop/copy#create",
    "Volume/shop/restored#create",
    "Volume/shop/tuned#update",
    "Volume/shop/grow#snapshot",
    "Volume/shop/grow#extend",
    "Volume/shop/aged#snapshot",
    "Volume/shop/old#snapshot",
    "Volume/shop/old#delete",
    "PostgresCluster/fresh#create",
    "PostgresCluster/orders-copy#restore",
    "Machine/shop/naps#suspend",
    "Machine/shop/wakes#start",
    "Secret/shop/PASSWORD#set",
    "Secret/shop/ROTATED#set",
    "Secret/shop/DSN#set",
}


def kills(*options: str) -> Ran:
    """Run the enumeration. What it prints names the point and the signal of each failure."""
    ran = run_proof("kills", "--jobs", "2", *options)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def figure(ran: Ran, name: str) -> int:
    """The number in the line of the table that `name` begins."""
    found = re.search(rf"^ *{name} +(\d+)$", ran.out, re.MULTILINE)
    assert found is not None, ran.out
    return int(found[1])


# --- real processes ---


@pytest.fixture(scope="module")
def sample() -> Ran:
    """What a sample prints after all points that there are; it has each kind of boundary."""
    return kills("--list", "--sample", "52")


def points(ran: Ran) -> list[str]:
    return [line for line in ran.out.splitlines() if re.search(r"@\d+$", line)]


def test_an_apply_is_cut_at_every_kind_of_boundary_of_every_operation(sample: Ran) -> None:
    listed = points(sample)
    classes = {class_of(point) for point in listed}
    around = ("before", "after")
    assert classes >= {
        "lock:taken",
        *(f"{what}:{when}" for what in ("lease", "check", "release", "connect", "sleep") for when in around),
        *(f"commit:run.{event}:{when}" for event in ("started", "finished") for when in around),
        *(f"commit:step.{event}:{when}" for event in ("intent", "done") for when in around),
        *(f"{method}:{when}" for method in ("POST", "PUT", "DELETE") for when in (*REQUEST, "effect")),
        *(f"{what}:{when}" for what in ("GET", "poll") for when in REQUEST),
    }
    assert {step_of(point) for point in listed} == OPERATIONS
    assert len(listed) >= ENOUGH_POINTS
    assert {class_of(case.point) for case in sampled(every_case(listed), 52, seed=1)} == classes


def test_an_apply_that_is_killed_at_any_of_fifty_two_points_is_finished_by_the_next_ones(sample: Ran) -> None:
    assert sample.code == 0, f"{sample.out}\n{sample.err}"
    assert figure(sample, "cases") == 52
    assert all(figure(sample, f"by {name}") >= 12 for name in SIGNALS)


def test_a_run_that_settles_what_a_killed_one_left_may_be_killed_too() -> None:
    ran = kills("--sample", "8", "--second")
    assert ran.code == 0, f"{ran.out}\n{ran.err}"
    assert figure(ran, "decisions by a person") > 0


def test_a_platform_that_stops_machines_is_cut_there_too_and_with_its_lists_of_clusters_asks_nobody() -> None:
    ran = kills("--list", "--sample", "4", "--extended")
    assert ran.code == 0, f"{ran.out}\n{ran.err}"
    assert "Machine/shop/halts#stop" in {step_of(point) for point in points(ran)}
    assert figure(ran, "decisions by a person") == 0


def test_with_its_state_in_postgresql_an_apply_that_is_killed_is_finished_by_the_next_ones() -> None:
    ran = kills("--sample", "6", "--state", "postgresql:")
    assert ran.code == 0, f"{ran.out}\n{ran.err}"
    assert figure(ran, "cases") == 6
    assert figure(ran, "manual unlocks") == 0


def test_with_its_state_in_an_object_store_a_killed_apply_is_finished_by_the_next_ones() -> None:
    ran = kills("--sample", "4", "--signal", "KILL", "--state", "s3:")
    assert ran.code == 0, f"{ran.out}\n{ran.err}"
    assert figure(ran, "cases") == 4


def test_every_planted_defect_is_found() -> None:
    ran = kills("--defects")
    assert ran.code == 0, f"{ran.out}\n{ran.err}"
    assert len(ran.out.splitlines()) == len(DEFECTS)


# --- the sample ---

POINTS = [
    "lock:taken@1",
    *(
        f"{boundary.replace('STEP', step)}@{number}"
        for step in ("Volume/shop/data#create", "Volume/shop/data[1]#create", "PostgresCluster/fresh#create")
        for boundary in ("POST STEP:sent", "GET STEP:sent", "commit:step.intent STEP:before")
        for number in (1, 2)
    ),
    "GET /v1/apps/shop/volumes:sent@1",
]
CASES = every_case(POINTS)


def test_a_point_has_a_class_and_a_step() -> None:
    assert {class_of(point) for point in POINTS} == {
        "lock:taken",
        "POST:sent",
        "poll:sent",
        "GET:sent",
        "commit:step.intent:before",
    }
    assert {step_of(point) for point in POINTS} == {
        "",
        "Volume/shop/data#create",
        "Volume/shop/data[1]#create",
        "PostgresCluster/fresh#create",
    }


def test_a_sample_has_every_class_every_step_and_every_signal() -> None:
    chosen = sampled(CASES, 6, seed=1)
    assert {class_of(case.point) for case in chosen} == {class_of(point) for point in POINTS}
    assert {step_of(case.point) for case in chosen} == {step_of(point) for point in POINTS}
    assert {case.signal for case in chosen} == set(SIGNALS)


def test_the_seed_decides_about_the_sample() -> None:
    assert sampled(CASES, 10, seed=1) == sampled(CASES, 10, seed=1)
    assert sampled(CASES, 10, seed=1) != sampled(CASES, 10, seed=2)


def test_a_sample_larger_than_everything_is_everything_once() -> None:
    assert sorted(map(str, sampled(CASES, 1000, seed=1))) == sorted(map(str, CASES))


# --- the verdict ---

AT = "2026-01-01T10:00:00.500Z"
EARLIER = "2026-01-01T10:00:00Z"
UNFINISHED = "0001-01-01T00:00:00Z"
LATER = "2026-01-01T10:00:01Z"


def a_volume(name: str, number: int = 0) -> dict[str, Any]:
    fields = {"size_gb": 3, "snapshot_retention": 5, **scenario.FIELDS.get(name, {})}
    return {"id": f"vol_{name}{number}", "name": name, "state": "created", **fields}


def a_cluster(name: str, number: int = 0) -> dict[str, Any]:
    endpoints = {"primary": {"pooler": {"host": f"{name}.internal", "port": 5432}}}
    return {"id": f"pg_{name}{number}", "name": name, "status": "ready", "endpoints": endpoints}


def good_ending() -> Ending:
    """Everything as it must be: other tests spoil one thing."""
    first = ("grow", "tuned", "aged", "old", "found", "foreign")
    volumes = [a_volume(name, number) for name, count in scenario.VOLUMES.items() for number in range(count)]
    clusters = [a_cluster(name) for name in scenario.CLUSTERS]
    after: dict[str, Any] = {
        "volumes": [*volumes, {**a_volume("old"), "state": "pending_destroy"}],
        "clusters": clusters,
        "secrets": [],
        "machines": [
            {"id": "m1", "state": "started", "pending_restart": []},
            *(
                {"id": id, "state": wanted, "pending_restart": []}
                for id, (_, wanted, _) in scenario.machines(extended=True).items()
            ),
        ],
        "snapshots": [
            {"volume_id": f"vol_{name}0", "created_at": EARLIER} for name in (*scenario.SNAPSHOTS, "foreign")
        ],
    }
    after["secrets"] = [
        {"name": name, "fingerprint": fingerprint(value, _KEY)}
        for name, value in scenario.wanted_secrets(after).items()
    ]
    ours = [*(each for each in volumes if each["name"] != "foreign"), *clusters]
    return Ending(
        before={"volumes": [a_volume(name) for name in first], "clusters": [a_cluster("orders")]},
        after=after,
        log=[
            call("PUT", "vol_grow0/extend"),
            call("DELETE", "vol_old0"),
            power_call("naps", "suspend"),
            power_call("wakes", "start"),
        ],
        records=[{"address": f"Kind/{each['id']}", "id": each["id"]} for each in ours]
        + [{"address": "Secret/shop/DSN", "id": "DSN"}, {"address": "Machine/shop/naps", "id": "naps"}],
        owed=[{"address": scenario.OWES_A_RESTART, "work": "restart"}],
        later=[call("GET", "vol_grow0")],
    )


def call(method: str, path: str) -> dict[str, Any]:
    return {"method": method, "path": f"/v1/apps/{scenario.APP}/volumes/{path}", "effect": True, "at": AT}


def power_call(id: str, verb: str, *, effect: bool = True) -> dict[str, Any]:
    path = f"/v1/apps/{scenario.APP}/machines/{id}/{verb}"
    return {"method": "POST", "path": path, "effect": effect, "at": AT}


def item(things: Any, name: str) -> Any:
    return next(each for each in things if each["name"] == name)


def drop(things: Any, **fields: Any) -> None:
    things[:] = [each for each in things if any(each.get(name) != fields[name] for name in fields)]


def second_cluster(ending: Any) -> None:
    ending.after["clusters"].append(a_cluster("fresh", 1))
    ending.records.append({"address": "PostgresCluster/fresh[1]", "id": "pg_fresh1"})


def second_volume(ending: Any) -> None:
    ending.after["volumes"].append(a_volume("restored", 1))
    ending.records.append({"address": "Volume/shop/restored[1]", "id": "vol_restored1"})


def unknown_name(ending: Any) -> None:
    ending.after["volumes"].append(a_volume("surprise"))
    ending.records.append({"address": "Volume/shop/surprise", "id": "vol_surprise0"})


def delete_and_make_again(ending: Any) -> None:
    """Deleted within the case, so that no world shows it."""
    ending.log.append(call("DELETE", "vol_restored9"))


SPOILED: dict[str, tuple[Kind, str, Callable[[Any], Any]]] = {
    "a second cluster": ("duplicate", "2 clusters `fresh`", second_cluster),
    "a second volume": ("duplicate", "2 volumes `restored`", second_volume),
    "a volume nobody asked for": ("duplicate", "1 volumes `surprise`", unknown_name),
    "a second snapshot": (
        "duplicate",
        "2 snapshots of `aged`",
        lambda ending: ending.after["snapshots"].append({"volume_id": "vol_aged0", "created_at": EARLIER}),
    ),
    "a second snapshot that never finished": (
        "duplicate",
        "2 snapshots of `aged`",
        lambda ending: ending.after["snapshots"].append({"volume_id": "vol_aged0", "created_at": UNFINISHED}),
    ),
    "a missing volume": (
        "not converged",
        "1 volumes `data`, not 2",
        lambda ending: drop(ending.after["volumes"], id="vol_data1"),
    ),
    "an approved delete undone": (
        "duplicate",
        "1 volumes `old`, not 0",
        lambda ending: item(ending.after["volumes"], "old").update(state="created"),
    ),
    "a new volume without a record": (
        "orphan",
        "copy (vol_copy0) is not recorded",
        lambda ending: drop(ending.records, id="vol_copy0"),
    ),
    "a new cluster without a record": (
        "orphan",
        "orders-copy (pg_orders-copy0) is not recorded",
        lambda ending: drop(ending.records, id="pg_orders-copy0"),
    ),
    "an adopted volume without a record": (
        "orphan",
        "found (vol_found0) is not recorded",
        lambda ending: drop(ending.records, id="vol_found0"),
    ),
    "a record of nothing": (
        "orphan",
        "old (vol_old0) is recorded and not there",
        lambda ending: ending.records.append({"address": "Volume/shop/old", "id": "vol_old0"}),
    ),
    "two records of one object": (
        "orphan",
        "data (vol_data0) is recorded under 2 addresses",
        lambda ending: ending.records.append({"address": "Volume/shop/other", "id": "vol_data0"}),
    ),
    "somebody else's volume taken": (
        "orphan",
        "foreign (vol_foreign0) belongs to others",
        lambda ending: ending.records.append({"address": "Volume/shop/foreign", "id": "vol_foreign0"}),
    ),
    "another volume deleted": (
        "unapproved delete",
        "foreign (vol_foreign0) is gone",
        lambda ending: item(ending.after["volumes"], "foreign").update(state="pending_destroy"),
    ),
    "another volume gone from the list": (
        "unapproved delete",
        "tuned (vol_tuned0) is gone",
        lambda ending: drop(ending.after["volumes"], name="tuned"),
    ),
    "a cluster being deleted": (
        "unapproved delete",
        "orders (pg_orders0) is gone",
        lambda ending: item(ending.after["clusters"], "orders").update(status="deleting"),
    ),
    "a new volume deleted at once": ("unapproved delete", "(vol_restored9) is gone", delete_and_make_again),
    "a volume that did not grow": (
        "not converged",
        "`grow` has size_gb 10",
        lambda ending: item(ending.after["volumes"], "grow").update(size_gb=10),
    ),
    "a secret with another value": (
        "not converged",
        "secret `DSN`",
        lambda ending: item(ending.after["secrets"], "DSN").update(fingerprint=fingerprint("", _KEY)),
    ),
    "a secret that was not set": (
        "not converged",
        "secret `PASSWORD`",
        lambda ending: drop(ending.after["secrets"], name="PASSWORD"),
    ),
    "no snapshot before the delete": (
        "broken promise",
        "volume `old` has no snapshot",
        lambda ending: drop(ending.after["snapshots"], volume_id="vol_old0"),
    ),
    "a snapshot finished after the delete": (
        "broken promise",
        "DELETE of `old` came before its snapshot",
        lambda ending: [
            each.update(created_at=LATER)
            for each in ending.after["snapshots"]
            if each["volume_id"] == "vol_old0"
        ],
    ),
    "a snapshot that never finished before the extend": (
        "broken promise",
        "PUT of `grow` came before its snapshot",
        lambda ending: [
            each.update(created_at=UNFINISHED)
            for each in ending.after["snapshots"]
            if each["volume_id"] == "vol_grow0"
        ],
    ),
    "a restart owed no more": ("broken promise", "Volume/shop/grow", lambda ending: ending.owed.clear()),
    "a machine that is not suspended": (
        "not converged",
        "machine naps is suspending",
        lambda ending: ending.after["machines"][1].update(state="suspending"),
    ),
    "a machine that is to stay suspended started": (
        "broken promise",
        "machine naps was sent",
        lambda ending: ending.log.append(power_call("naps", "start", effect=False)),
    ),
    "a machine started, suspended by others and started again": (
        "duplicate",
        "2 calls changed machine wakes",
        lambda ending: ending.log.append(power_call("wakes", "start")),
    ),
    "a call of the last apply": (
        "not converged",
        "the last apply sent PUT",
        lambda ending: ending.later.append(call("PUT", "vol_tuned0")),
    ),
}


def test_a_good_ending_is_not_complained_about() -> None:
    assert judge_world(good_ending()) == []


def test_a_second_snapshot_after_the_first_has_served_its_time_is_none_too_many() -> None:
    ending = good_ending()
    ending.after["snapshots"].append({"volume_id": "vol_aged0", "created_at": "2026-01-01T11:00:00Z"})
    assert judge_world(ending) == []


def test_a_call_repeated_without_effect_is_none_too_many() -> None:
    ending = good_ending()
    repeated = power_call("naps", "suspend", effect=False)
    assert judge_world(replace(ending, log=[*ending.log, repeated])) == []


def restarting(ending: Ending) -> Ending:
    """The same where the machine is restarted."""
    return replace(ending, owed=[], restarts=True)


def test_where_machines_are_restarted_nothing_may_be_owed_in_the_end() -> None:
    ending = restarting(good_ending())
    assert judge_world(ending) == []
    (finding,) = judge_world(replace(ending, owed=good_ending().owed))
    assert "is still owed" in finding.text
    ending.after["machines"][0]["pending_restart"].append("vol_grow0")
    (finding,) = judge_world(ending)
    assert "was not restarted" in finding.text


@pytest.mark.parametrize("what", SPOILED)
def test_one_thing_wrong_in_the_end_is_found(what: str) -> None:
    kind, text, spoil = SPOILED[what]
    ending = copy.deepcopy(good_ending())
    spoil(ending)
    found = judge_world(ending)
    assert [each for each in found if each.kind == kind and text in each.text], found


@pytest.mark.parametrize(
    ("ran", "kind"),
    [
        (None, "broken promise"),
        (Ran(0, "", "Traceback (most recent call last):\n"), "broken promise"),
        (Ran(5, "", "error: locked"), "manual unlock"),
        (Ran(1, "", "error: refused"), "not converged"),
        (Ran(3, "", "error: decide"), "not converged"),
    ],
    ids=["hung", "traceback", "locked", "refused", "undecided"],
)
def test_a_run_that_ends_otherwise_than_it_may_is_found(ran: Ran | None, kind: Kind) -> None:
    (finding,) = judge_process("the last apply", ran, [0])
    assert finding.kind == kind


@pytest.mark.parametrize(
    ("ran", "trace"),
    [
        (None, []),
        (Ran(0, "", ""), []),
        (Ran(-15, "", ""), []),
        (Ran(130, "", ""), []),
        (Ran(143, "", "Traceback (most recent call last):\n"), []),
        (Ran(143, "", ""), ["started after the signal: Volume/shop/data#create"]),
    ],
    ids=["hung", "ignored", "by-the-signal", "wrong-signal", "traceback", "went-on"],
)
def test_a_process_that_takes_a_signal_badly_is_found(ran: Ran | None, trace: list[str]) -> None:
    (finding,) = judge_victim(ran, SIGNALS["TERM"], trace)
    assert finding.kind == "broken promise"


def test_a_process_that_ends_with_the_code_of_its_signal_is_well() -> None:
    assert judge_victim(Ran(143, "", ""), SIGNALS["TERM"], ["lease:before@1"]) == []
    assert judge_victim(Ran(130, "", ""), SIGNALS["INT"], []) == []
    assert judge_victim(Ran(-9, "", ""), SIGNALS["KILL"], []) == []
