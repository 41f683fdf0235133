"""A run is exported as a case whose replay has its own trace, or not at all."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.evidence.case import Case, differences, read_case, write_case
from reconciler.evidence.export import NotExportable, export
from reconciler.evidence.replay import replay
from reconciler.manifests.load import load
from reconciler.state.runs import history_of
from reconciler.state.store import Event, JournalEntry
from tests.execution.stage import Stage, volume
from tests.reliability.exports import judged, sent_twice

CANARY = "hunter2-canary"
SECRET = (
    "---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: PASSWORD, app: shop}\n"
    "spec: {value_from: {env: PASSWORD}}\n"
)
VOLUMES = "/v1/apps/shop/volumes"
Entries = Sequence[tuple[str, JournalEntry]]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def ran(stage: Stage, manifests: str) -> Entries:
    """The journal of the newest run."""
    anyio.run(stage.apply, manifests)
    journal = anyio.run(stage.store.journal)
    run = [entry.run for _, entry in journal if entry.event is Event.RUN_STARTED][-1]
    return [each for each in journal if each[1].run == run]


def case_of(stage: Stage, entries: Entries, manifests: str) -> Case:
    (run,) = history_of(entries).runs
    given = load(["-"], root=stage.root, stdin=manifests.encode, keep=True)
    of_settings: Any = {"capabilities": stage.capabilities, "limits": stage.limits, "rate_limit": None}
    return export(run, entries, given.effective, given.resources, **of_settings)


@pytest.fixture
def folder(stage: Stage) -> Path:
    """The case of a run whose create lost its answer."""
    write_case(case_of(stage, lost_create(stage), volume()), stage.root / "incident")
    return stage.root / "incident"


def lost_create(stage: Stage) -> Entries:
    stage.fault(action="drop_after", method="POST", path=VOLUMES)
    return ran(stage, volume())


def changed(entries: Entries, event: Event, **data: Any) -> Entries:
    return [
        (scope, replace(each, data={**each.data, **data}) if each.event is event else each)
        for scope, each in entries
    ]


@pytest.mark.parametrize("seed", [2, 6, 7, 11])
def test_a_random_faulty_run_is_played_again_with_its_own_trace(seed: int) -> None:
    """A sample of `python -m tests.reliability.exports`."""
    verdict = judged(seed)
    assert verdict.end
    assert verdict.wrong == []


def test_a_case_is_read_as_it_was_written_and_a_regression_turns_it_red(stage: Stage) -> None:
    case = case_of(stage, lost_create(stage), volume())
    assert case.faults == [{"action": "drop_after", "method": "POST", "path": VOLUMES}]
    write_case(case, stage.root / "incident")
    again = read_case(stage.root / "incident")
    assert again == case
    assert list(differences(again.trace, replay(again))) == []
    with sent_twice():
        (found, *_) = differences(again.trace, replay(again))
    assert found.startswith("Volume/shop/data#create, attempt 1: POST /v1/apps/shop/volumes done (answered")


def test_no_secret_is_in_a_case_and_a_changed_one_is_set_again(stage: Stage) -> None:
    manifests = volume() + SECRET
    stage.env["PASSWORD"] = f"{CANARY}-1"
    anyio.run(stage.apply, manifests)
    stage.env["PASSWORD"] = f"{CANARY}-2"
    entries = ran(stage, manifests)
    key = anyio.run(stage.store.fingerprint_key)
    record = anyio.run(partial(stage.record, "Secret/shop/PASSWORD"))
    case = case_of(stage, entries, manifests)
    assert [each["step"] for each in case.trace["calls"]] == ["Secret/shop/PASSWORD#set"]
    text = msgspec.json.encode(case).decode()
    assert CANARY not in text
    assert key.hex() not in text
    assert record.applied["fingerprint"] not in text


def test_what_the_run_made_is_named_by_its_address(stage: Stage) -> None:
    manifests = volume() + SECRET
    entries = ran(stage, manifests)
    assert all("vol_" not in each["path"] for each in case_of(stage, entries, manifests).trace["calls"])


def test_a_run_of_an_older_version_is_refused(stage: Stage) -> None:
    entries = [each for each in lost_create(stage) if each[1].event is not Event.RUN_OBSERVED]
    with pytest.raises(NotExportable, match="older version"):
        case_of(stage, entries, volume())


@pytest.mark.parametrize(
    ("event", "data", "why"),
    [
        (Event.RUN_OBSERVED, {"left_out": 7}, "7 of the objects that it saw had no room in the journal"),
        (Event.RUN_OBSERVED, {"reads": [{"service": "platform"}]}, "journaled by another version"),
        (Event.INTENT, {"service": "postgres"}, "the provider `postgres` has no twin"),
        (Event.RUN_FINISHED, {"interrupted": True}, "somebody interrupted it"),
        (Event.INTENT, {"path": "/v1/apps/other/volumes"}, "played again, it does something else"),
    ],
)
def test_what_cannot_be_played_again_is_refused_and_named(
    stage: Stage, event: Event, data: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotExportable, match=why):
        case_of(stage, changed(lost_create(stage), event, **data), volume())


def test_a_call_that_never_left_us_is_refused(stage: Stage) -> None:
    entries = [
        (scope, replace(each, event=Event.FAILED, data={"error": "no route", "status": 0}))
        if each.event is Event.UNKNOWN
        else (scope, each)
        for scope, each in lost_create(stage)
        if each.event is not Event.SETTLED
    ]
    with pytest.raises(NotExportable, match="refused before it was sent: no route"):
        case_of(stage, entries, volume())


def test_a_folder_that_is_there_is_left_alone(stage: Stage) -> None:
    case = case_of(stage, lost_create(stage), volume())
    (stage.root / "incident").mkdir()
    with pytest.raises(ReconcilerError, match="exists already"):
        write_case(case, stage.root / "incident")
    assert list((stage.root / "incident").iterdir()) == []


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("case.json", "[]", "is not a case"),
        ("case.json", "{", "is not JSON"),
        ("case.json", "{}", "is not a case of this version"),
        ("faults.json", '[{"action": "no such"}]', "not a fault script"),
        ("seed.json", '{"volumes": [{"id": 7}]}', "cannot hold"),
        ("manifests.yaml", "kind: Nothing\n", "manifests of the case have errors"),
        ("trace.json", "\xff", "is not JSON"),
    ],
)
def test_a_damaged_case_is_a_clear_error(folder: Path, file: str, text: str, why: str) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(ReconcilerError, match=why):
        replay(read_case(folder))


def test_a_case_of_another_version_or_with_bad_records_is_refused(folder: Path) -> None:
    document = json.loads((folder / "case.json").read_text())
    changes: list[dict[str, Any]] = [{"format": "reconcile-case-9"}, {"records": {"x": {}}}, {"unknown": 1}]
    changes += [{"limits": {**document["limits"], "more": 1}}, {"limits": {}}]
    for change in changes:
        (folder / "case.json").write_text(json.dumps({**document, **change}))
        with pytest.raises(ReconcilerError, match="not a case of this version"):
            read_case(folder)


def test_the_fixture_fails_with_what_is_different(folder: Path, reconcile_replay: Any) -> None:
    reconcile_replay(folder)
    (folder / "faults.json").write_text("[]")
    with pytest.raises(pytest.fail.Exception, match="#create, attempt 1"):
        reconcile_replay(folder)
