"""A sample of the simulation, its regression cases, and the harness's own promises.

Some seeds change with each commit: `simulation.seeds`.
The whole run: `python -m tests.reliability.simulation --histories 10000 --jobs 2`.
"""

import asyncio
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.execution import settling
from reconciler.rehearsal.twin import Standstill, Timeline
from reconciler.state.log.changes import Change
from tests.reliability.simulation import campaign
from tests.reliability.simulation.campaign import Summary, play_seed
from tests.reliability.simulation.database import serving
from tests.reliability.simulation.draw import draw
from tests.reliability.simulation.history import play
from tests.reliability.simulation.regression import CASES, read_case, write_case
from tests.reliability.simulation.scenario import (
    Edit,
    Fault,
    Moment,
    Pause,
    Round,
    Run,
    Scenario,
    Spell,
    from_plain,
    to_plain,
)
from tests.reliability.simulation.seeds import CHANGING, ELSEWHERE, changing, commit_here, of_commit

HISTORIES = 250  # with 219, whose person has a machine restarted: what else there is happens earlier
SHARED_HISTORIES = 30
SERVED_HISTORIES = 10
TWICE = 10  # seeds that are played two times, by new processes
VOLUME = {
    "apiVersion": "reconciler/v1",
    "kind": "Volume",
    "metadata": {"name": "data", "app": "shop"},
    "spec": {"region": "ams", "size_gb": 10},
}


@pytest.fixture(scope="module")
def apart() -> Iterator[Executor]:
    """A new process, in which no other test has left anything."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def summary() -> Summary:
    return campaign.run(range(HISTORIES), jobs=2)


def test_two_hundred_and_fifty_histories_break_no_invariant(summary: Summary) -> None:
    assert summary.violations == []
    assert summary.histories == HISTORIES


def test_histories_that_change_with_each_commit_break_no_invariant() -> None:
    seeds = changing()
    assert campaign.run(seeds, jobs=2).violations == [], f"seeds {seeds[0]} to {seeds[-1]}"


def test_runners_that_share_an_object_store_break_no_invariant() -> None:
    shared = campaign.run(range(SHARED_HISTORIES), 2, "objects")
    assert shared.violations == []
    assert {"taken over", "late sender", "pause stopped", "store write late"} <= set(shared.tally)


def test_runners_that_share_a_postgresql_server_break_no_invariant() -> None:
    with serving("postgresql"):
        served = campaign.run(range(SERVED_HISTORIES), 2, "postgresql")
        once, again = (play_seed(2, "postgresql").hash for _ in range(2))
    assert served.violations == []
    assert {"taken over", "store write late", "store write restarted"} <= set(served.tally)
    assert once == again


def test_each_commit_has_seeds_of_its_own(tmp_path: Path) -> None:
    assert of_commit("0000000a" + "0" * 32) == range(10, 10 + CHANGING)
    assert of_commit("") == range(ELSEWHERE, ELSEWHERE + CHANGING)
    assert commit_here({"GITHUB_SHA": "c0ffee00"}, tmp_path) == "c0ffee00"
    assert commit_here({"CI_COMMIT_SHA": "not a commit"}, tmp_path) == ""


def test_the_schedule_reaches_every_kind_of_event(summary: Summary) -> None:
    assert summary.missed == []


def test_the_same_seed_gives_the_same_trace_in_any_process() -> None:
    assert campaign.differing_hashes(range(TWICE), jobs=2) == []


def test_the_same_seed_gives_the_same_trace_of_threads() -> None:
    once, again = ([play_seed(seed, "objects").hash for seed in range(5)] for _ in range(2))
    assert once == again


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_failure_that_was_found_once_does_not_come_back(case: Path, apart: Executor) -> None:
    report = apart.submit(play, read_case(case), keep_trace=True).result()
    assert report.violation is None, "\n".join(report.trace)


def test_a_failure_is_shrunk_to_a_case_that_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Run(mutation_faults={0: Fault("late", after_s=90.0)}, read_faults={0: Fault("delay", after_s=2.0)})
    scenario = Scenario(7, [Round([VOLUME], runs=[late]), Round([VOLUME], pause_s=20.0, runs=[Run()])])
    assert play(scenario).violation is None
    with monkeypatch.context() as planted:
        planted.setattr(settling, "left_of_window", lambda *details: 0.0)
        found = play(scenario).violation
        assert found is not None
        case = read_case(write_case(scenario, found.invariant, tmp_path))
        assert play(case).violation is not None
    assert [len(each.runs) for each in case.rounds] == [1]
    assert case.rounds[0].runs[0].read_faults == {}
    assert play(case).violation is None


def test_a_scenario_survives_being_written_down() -> None:
    moment = Moment("commit:after", 2)
    run = Run("save", crash=moment, commit_faults={1: "before"}, read_faults={3: Fault("delay", after_s=2.0)})
    run.spell = Spell(Moment("mutation:sent"), Fault("not_sent"), 250.0)
    scenario = Scenario(1, [Round([VOLUME], edits=[Edit("twin", "data", "shop")], runs=[run])], {}, [])
    assert from_plain(to_plain(scenario)) == scenario
    assert from_plain(to_plain(draw(3))) == draw(3)
    assert from_plain(to_plain(draw(3, "objects"))) == draw(3, "objects")
    assert from_plain(to_plain(draw(3, "postgresql"))) == draw(3, "postgresql")


def test_a_dead_process_sends_and_writes_nothing_more() -> None:
    run = Run(crash=Moment("mutation:sent"))
    report = play(Scenario(3, [Round([VOLUME], runs=[run])]), keep_trace=True)
    assert report.violation is None
    after = report.trace[next(at for at, line in enumerate(report.trace) if "p0.0 is dead" in line) + 1 :]
    assert [line.split(" ", 1)[1] for line in after if " p0.0 " in line] == [
        # What was on its way already arrives all the same.
        line.split(" ", 1)[1]
        for line in after
        if " p0.0 carried POST /v1/apps/shop/volumes 200 effect" in line
    ]


def test_what_a_stopped_runner_sends_too_late_is_told() -> None:
    stopped = Run(pause=Pause(Moment("mutation:before"), 400.0))
    rival = Run(after_s=70.0, lock_timeout_s=200.0)
    scenario = Scenario(3, [Round([VOLUME], runs=[stopped, rival])], state="objects")
    report = play(scenario, keep_trace=True)
    assert report.violation is None
    assert report.tally["late sender beyond the settle window"] == 1
    assert report.tally["late object told"] == 1
    (sent,) = [line for line in report.trace if "p0.0 sends POST" in line]
    (taken,) = [line for line in report.trace if "p0.1 takes shop 2" in line]
    assert 60 < float(taken.split()[0]) < 180 < 400 < float(sent.split()[0])


def test_a_state_that_does_not_follow_from_its_journal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Change.to_line

    def altered(change: Change) -> str:
        put = [replace(record, body=f"{record.body} ") for record in change.put]
        return written(replace(change, put=put))

    monkeypatch.setattr(Change, "to_line", altered)
    violation = play(Scenario(3, [Round([VOLUME], runs=[Run()])])).violation
    assert violation is not None
    assert violation.invariant == "state-loads"


def test_a_suspend_takes_its_time_and_is_waited_for_in_slices(apart: Executor) -> None:
    machine = {
        "apiVersion": "reconciler/v1",
        "kind": "Machine",
        "metadata": {"name": "m1", "app": "shop"},
        "spec": {"id": "m1", "power": "suspended"},
    }
    scenario = Scenario(5, [Round([machine], runs=[Run()])], {"suspending_s": 13}, [], ["m1"])
    report = apart.submit(play, scenario, keep_trace=True).result()
    assert report.violation is None
    (sent,) = [line for line in report.trace if "p0.0 sends POST" in line]
    (ended,) = [line for line in report.trace if "p0.0 ends" in line]
    assert ended.endswith("Machine/shop/m1#suspend=done")
    assert 13 < float(ended.split()[0]) - float(sent.split()[0]) < 15


def test_time_passes_only_where_somebody_waits() -> None:
    timeline = Timeline()
    try:
        timeline.run_until_complete(asyncio.sleep(86400))
        assert timeline.time() == 86400
    finally:
        timeline.close()


def test_a_standstill_is_an_error_and_not_a_hang() -> None:
    timeline = Timeline()
    try:
        with pytest.raises(Standstill):
            timeline.run_until_complete(timeline.create_future())
    finally:
        timeline.close()
