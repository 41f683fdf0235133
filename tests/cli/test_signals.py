"""Signals and locks: calls under way end, no new ones start, and nobody applies beside somebody else."""

import ctypes
import operator
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated

import pytest
from pydantic import ConfigDict, Field, TypeAdapter

from reconciler.cli.event_loop import Watch, run_watched
from reconciler.cli.signals import Interrupted, blocking, until_interrupted
from reconciler.core.errors import ReconcilerError
from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, only, volume

INTERRUPTED = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
ANY = [*INTERRUPTED, (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), INTERRUPTED, ids=["int", "term"])
def test_the_first_signal_lets_the_call_under_way_end_and_starts_no_other(
    project: Project, sandbox: Sandbox, app: str, number: int, code: int
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 10, count: 2"))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=1)
    with project.started_apply() as running:
        running.until(sandbox.fault_taken)
        running.signal(number)
        ended = running.ended()
    assert ended.code == code, ended.err
    assert ended.outcomes() == {
        f"Volume/{app}/data#create": "done",
        f"Volume/{app}/data[1]#create": "skipped",
    }
    assert sandbox.mutations_of(app) == [("POST", "volumes")]
    (run,) = project.json("history").json["runs"]
    assert (run["outcome"], run["outcomes"]) == ("interrupted", {"done": 1, "skipped": 1})
    project.apply()
    assert len(sandbox.volumes(app)) == 2


def test_the_second_signal_ends_at_once_and_the_next_run_settles(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=600)
    with project.started_apply() as running:
        running.until(sandbox.fault_taken)
        running.signal(signal.SIGINT)
        running.until_told("interrupted")
        running.signal(signal.SIGINT)
        ended = running.ended()
    assert ended.code == 130
    assert ended.out == ""  # it did not wait for the outcome
    project.apply()
    assert len(sandbox.volumes(app)) == 1
    assert sandbox.mutations_of(app) == [("POST", "volumes")]


def test_a_signal_while_waiting_leaves_it_to_the_next_run(still_project: Project, still: Sandbox) -> None:
    still_project.write(cluster("interrupted"))
    still_project.approve("PostgresCluster/interrupted")
    with still_project.started_apply() as running:
        running.until(lambda: bool(still.clusters("interrupted")) and still.seen("GET", "/v1/postgres/"))
        running.signal(signal.SIGTERM)
        ended = running.ended()
    assert ended.code == 143
    assert ended.outcomes() == {"PostgresCluster/interrupted#create": "pending"}
    still.advance(3600)
    still_project.apply()
    assert len(still.clusters("interrupted")) == 1


@pytest.mark.parametrize(("number", "code"), INTERRUPTED, ids=["int", "term"])
def test_a_signal_before_the_first_call_changes_nothing(
    project: Project, sandbox: Sandbox, app: str, number: int, code: int
) -> None:
    project.write(volume(app))
    sandbox.fault("GET", f"/v1/apps/{app}/volumes", "delay", delay_s=30)
    with project.started_apply() as running:
        running.until(sandbox.fault_taken)
        running.signal(number)
        ended = running.ended()
    assert ended.code == code
    assert "nothing was changed" in ended.err
    assert only(ended.json["diagnostics"])["code"] == "interrupted"
    assert sandbox.mutations_of(app) == []


@pytest.mark.parametrize(
    ("verb", "number", "code"),
    [("plan", signal.SIGTERM, 143), ("drift", signal.SIGHUP, 129), ("drift", signal.SIGINT, 130)],
    ids=["plan-term", "drift-hup", "drift-int"],
)
def test_a_signal_ends_a_verb_that_only_reads_with_a_word_and_its_code(
    project: Project, sandbox: Sandbox, app: str, verb: str, number: int, code: int
) -> None:
    project.write(volume(app))
    if verb == "drift":
        project.apply()
    sandbox.fault("GET", f"/v1/apps/{app}/volumes", "delay", delay_s=600)
    with project.started(verb, "--output", "json") as running:
        running.until(sandbox.fault_taken)
        running.signal(number)
        ended = running.ended()
    assert (ended.code, ended.err) == (code, "interrupted\n")
    assert only(ended.json["diagnostics"])["code"] == "interrupted"


@pytest.mark.parametrize(("number", "code"), ANY, ids=["int", "term", "hup"])
def test_a_signal_inside_a_callback_is_not_lost_and_changes_no_result(number: int, code: int) -> None:
    """A handler's exception would be dropped there, and the pattern would count as not matched."""
    name = TypeAdapter(
        Annotated[str, Field(pattern="^(?:a(?!b))+$")], config=ConfigDict(regex_engine="python-re")
    ).validator
    # Called from C, one after the other: the interpreter looks for signals first while it matches.
    kill_itself = partial(getattr(ctypes.CDLL(None), "raise"), number)
    validated: list[object] = []

    def work() -> int:
        validated.extend(map(operator.call, [kill_itself, partial(name.validate_python, "a" * 100_000)]))
        return 0

    before = [signal.getsignal(each) for each, _ in ANY]
    assert until_interrupted(work) == code
    assert len(validated) == 2
    assert [signal.getsignal(each) for each, _ in ANY] == before


@pytest.mark.parametrize(("verb", "number", "code"), [("plan", 15, 143), ("apply", 2, 130)])
def test_a_signal_while_manifests_are_read_ends_the_verb_before_it_sends_anything(
    project: Project, sandbox: Sandbox, app: str, verb: str, number: int, code: int
) -> None:
    os.mkfifo(project.root / "pipe.yaml")
    more = ["--auto-approve"] if verb == "apply" else []
    with sandbox.recording() as requests, project.started(verb, "pipe.yaml", *more) as running:
        with (project.root / "pipe.yaml").open("w") as pipe:  # once it is read
            running.signal(number)
            pipe.write(volume(app))
        ended = running.ended()
    assert ended.code == code
    assert ended.err.startswith("interrupted")
    assert "not a valid" not in ended.out + ended.err
    assert not requests


def test_a_second_signal_ends_at_once_what_waits_for_a_manifest(project: Project) -> None:
    os.mkfifo(project.root / "pipe.yaml")
    with project.started("plan", "pipe.yaml") as running, (project.root / "pipe.yaml").open("w"):
        while running.process.poll() is None:
            running.signal(signal.SIGINT)
        assert running.ended().code == 130


def test_a_hangup_that_nohup_has_ignored_stays_ignored() -> None:
    def work() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        return 7

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert until_interrupted(work) == 7
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_apply_of_a_scope_is_told_who_holds_it(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=600)
    with project.started_apply() as running:
        running.until(sandbox.fault_taken)
        locked = project.apply(code=5)
        assert running.process.poll() is None
        message = only(locked.json["diagnostics"])["message"]
        assert f"`{app}`" in message
        assert f"(pid {running.process.pid})" in message
        with sandbox.recording() as requests:
            project.run("apply", "--auto-approve", code=5)
        assert not [request for request in requests if request[0] in MUTATIONS]


def test_with_a_lock_timeout_the_second_apply_waits_its_turn(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=1)
    with project.started_apply() as running:
        running.until(sandbox.fault_taken)
        second = project.apply("--lock-timeout", "30")
        assert running.ended().code == 0
    told = only([line for line in second.err.splitlines() if line.startswith("waiting for the lock")])
    assert f"of `{app}`: " in told
    assert f"(pid {running.process.pid}) has held it for" in told
    assert sandbox.mutations_of(app) == [("POST", "volumes")]


def test_a_record_that_a_run_works_on_is_locked_and_moves_once_it_is_done(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    move = ("state", "mv", f"Volume/{app}/data", f"Volume/{app}/files")
    applied.write(volume(app, spec="region: ams, size_gb: 20"))
    sandbox.fault("PUT", f"/v1/apps/{app}/*", "delay", delay_s=3)
    with applied.started_apply() as running:
        running.until(sandbox.fault_taken)
        assert "has been locked by" in applied.run(*move, code=5).err
        applied.run(*move, "--lock-timeout", "30")
        assert running.ended().code == 0


def test_another_app_is_applied_side_by_side(project: Project, sandbox: Sandbox, app: str) -> None:
    other = sandbox.app(f"{app}-other")
    project.write(volume(app), "one/main.yaml")
    project.write(volume(other), "two/main.yaml")
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=600)
    with project.started("apply", "one", "--auto-approve") as running:
        running.until(sandbox.fault_taken)
        project.apply("two")
        assert running.process.poll() is None
    assert len(sandbox.volumes(other)) == 1


@pytest.mark.parametrize(("number", "code"), INTERRUPTED, ids=["int", "term"])
def test_a_signal_wins_over_what_else_ended_the_run(number: int, code: int) -> None:
    """It comes when nothing is left to interrupt: the failure is told, and the code is the signal's."""

    async def main(watch: Watch) -> None:
        os.kill(os.getpid(), number)
        raise ReconcilerError("it failed all the same")

    def work() -> int:
        with pytest.raises(ReconcilerError):
            run_watched(main)
        return 1

    assert until_interrupted(work) == code


def test_signals_are_handled_as_before_once_a_run_is_over() -> None:
    before = [signal.getsignal(number) for number, _ in INTERRUPTED]

    async def main(watch: Watch) -> str:
        return "done"

    assert run_watched(main) == "done"
    assert [signal.getsignal(number) for number, _ in INTERRUPTED] == before


def test_no_text_is_made_of_a_result_which_may_be_a_large_plan() -> None:
    spelled = []

    class Plan:
        def __repr__(self) -> str:
            spelled.append(self)
            return "all of it"

    async def main(watch: Watch) -> Plan:
        return Plan()

    assert isinstance(run_watched(main), Plan)
    assert not spelled


@pytest.fixture
def reading() -> Iterator[int]:
    """Where an answer is read that comes only once the test has waited too long for a signal."""
    reading, writing = os.pipe()
    give_up = threading.Timer(20, os.write, (writing, b"never asked for"))
    give_up.start()
    yield reading
    assert not give_up.finished.is_set()
    give_up.cancel()
    os.close(reading)
    os.close(writing)


def test_a_signal_that_comes_just_before_the_answer_is_read_ends_the_question_too(reading: int) -> None:
    # Called from C, one after the other: the interpreter does not look for signals in between.
    kill_itself = partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGTERM)

    def ask() -> int:
        with pytest.raises(Interrupted), blocking():
            list(map(operator.call, [kill_itself, partial(os.read, reading, 1)]))
        return 0

    assert until_interrupted(ask) == 143


def test_a_signal_that_is_passed_over_before_the_answer_is_read_ends_the_question_too(reading: int) -> None:
    """`input` drops what is raised while it flushes the streams."""

    def ask() -> int:
        with blocking():
            with suppress(Interrupted):
                os.kill(os.getpid(), signal.SIGTERM)
            os.read(reading, 1)
        return 0

    assert until_interrupted(ask) == 143
