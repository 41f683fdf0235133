"""A baseline of known drift: only what is new is reported, and nothing else is hidden."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Action, Address, Change, Effect, FieldChange
from reconciler.drift.baseline import load_baseline, only_new, save_baseline
from tests.drift.stage import VOLUME, Stage
from tests.kinds.case import play, read_case
from tests.reports.plans import EMPTY

MOVED = {"Volume/shop/data": {"size_gb": 20, "snapshot_retention": 5}}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path, dict(MOVED))
    stage.write(VOLUME)
    return stage


def saved(stage: Stage) -> Path:
    file = stage.root / ".reconcile/drift-baseline.json"
    assert save_baseline(file, stage.drift().plan) == 2
    return file


def new_since(stage: Stage, file: Path) -> tuple[list[tuple[str, object]], int]:
    """What is new as (path, after), and how many values are known."""
    drift = stage.drift()
    baseline = load_baseline(file, drift.plan.context.lineage)
    assert baseline is not None
    plan, known = only_new(drift, baseline)
    assert plan.unchanged + len(plan.changes) == 1
    return [(field.path, field.after) for change in plan.changes for field in change.fields], known


def test_what_the_baseline_knows_is_not_new(stage: Stage) -> None:
    assert new_since(stage, saved(stage)) == ([], 2)


def test_a_value_that_moves_further_is_new_and_the_other_stays_known(stage: Stage) -> None:
    file = saved(stage)
    stage.moved = {"Volume/shop/data": {"size_gb": 21, "snapshot_retention": 5}}
    assert new_since(stage, file) == ([("size_gb", 21)], 1)


def test_an_object_that_goes_missing_is_new(stage: Stage) -> None:
    file = saved(stage)
    stage.moved = {"Volume/shop/data": None}
    assert new_since(stage, file) == ([("id", None)], 0)


def test_an_object_that_is_renamed_stays_known(stage: Stage) -> None:
    file = saved(stage)
    moved = "apiVersion: reconciler/v1\nkind: Moved\nmetadata: {name: m}\n"
    moved += "spec: {from: Volume/shop/data, to: Volume/shop/logs}\n"
    spec = "spec: {name: data, "  # what the platform calls it stays
    stage.write(VOLUME.replace("name: data", "name: logs").replace("spec: {", spec) + "---\n" + moved)
    assert [str(change.address) for change in stage.drift().plan.changes] == ["Volume/shop/logs"]
    assert new_since(stage, file) == ([], 2)


def test_a_baseline_that_is_a_folder_is_named_in_the_error(stage: Stage) -> None:
    file = stage.root / "baseline.json"
    file.mkdir()
    with pytest.raises(ReconcilerError) as raised:
        save_baseline(file, stage.drift().plan)
    assert raised.value.message == f"cannot write {file}: Is a directory"
    assert [each.name for each in file.parent.glob("*baseline*")] == ["baseline.json"]


def test_what_is_left_of_a_change_is_put_back_by_what_it_needs(stage: Stage) -> None:
    stage.moved = {"Volume/shop/data": {"size_gb": 20}}
    file = stage.root / "baseline.json"
    assert save_baseline(file, stage.drift().plan) == 1
    stage.moved = dict(MOVED)
    drift = stage.drift()
    assert drift.plan.changes[0].action is Action.REFUSED
    baseline = load_baseline(file, "")
    assert baseline is not None
    (change,) = only_new(drift, baseline)[0].changes
    assert change.action is Action.UPDATE


def test_the_file_is_for_its_owner_only_and_replaced_whole(stage: Stage) -> None:
    file = saved(stage)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.chmod(0o644)
    saved(stage)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["drift-baseline.json"]


def test_no_digest_of_a_secret_is_kept(tmp_path: Path) -> None:
    field = FieldChange("digest", "digest-one", "digest-two", Effect.WRITE_ONLY)
    change = Change(Address("Secret", "API_KEY", "shop"), Action.SET, (field,), id="API_KEY")
    file = tmp_path / "baseline.json"
    save_baseline(file, replace(EMPTY, changes=(change,)))
    assert "digest-" not in file.read_text()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"format_version": "1"}',
        b'{"format_version": "1", "lineage": "l", "saved_at": "yesterday", "drift": []}',
        b'{"format_version": "1", "lineage": "l", "saved_at": "2026-01-01T00:00:00+00:00", "drift": [1]}',
        b'{"format_version": "1", "lineage": "l", "saved_at": "2026-01-01T00:00:00+00:00", "drift": [{}]}',
        b'{"format_version": "1", "lineage": "l", "saved_at": "2026-01-01T00:00:00+00:00", "drift": 3}',
        b'{"format_version": "1", "lineage": "l", "saved_at": 5, "drift": []}',
    ],
    ids=range(12),
)
def test_a_damaged_baseline_is_an_error_and_hides_nothing(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "baseline.json"
    file.write_bytes(text)
    with pytest.raises(ReconcilerError, match="is damaged") as raised:
        load_baseline(file, "lineage-1")
    assert "--save-baseline" in raised.value.help


def test_a_baseline_of_another_state_or_version_is_an_error(stage: Stage) -> None:
    file = saved(stage)
    with pytest.raises(ReconcilerError, match="made with another state"):
        load_baseline(file, "lineage-2")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format_version": "2"}))
    with pytest.raises(ReconcilerError, match="another version"):
        load_baseline(file, "lineage-1")


def test_no_baseline_is_none(tmp_path: Path) -> None:
    assert load_baseline(tmp_path / "baseline.json", "lineage-1") is None


def test_nothing_is_saved_while_not_all_can_be_seen(tmp_path: Path) -> None:
    """A wave of missing objects would be known from then on."""
    case = read_case(Path(__file__).parent.parent / "planning/drift/many_missing_at_once.yaml")
    plan = play(case, tmp_path).plan
    assert plan is not None
    with pytest.raises(Refused) as raised:
        save_baseline(tmp_path / "baseline.json", plan)
    assert raised.value.diagnostics
    assert not (tmp_path / "baseline.json").exists()
