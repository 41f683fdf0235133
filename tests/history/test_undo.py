"""`reconcile undo`: what would take a run back, by the calls that it would send, and why the rest stays."""

import json
from typing import Any

import pytest

from tests.demo.project import empty, shop
from tests.inprocess import Command

__all__ = ["empty", "shop"]


@pytest.fixture
def reconcile(shop: Command) -> Command:
    return shop


def apply(reconcile: Command, **values: int) -> str:
    """Apply the volume with these values; the id of the run."""
    data = reconcile.root / "manifests/data.yaml"
    lines = data.read_text().splitlines()
    edited = [
        next((f"  {name}: {value}" for name, value in values.items() if line.strip().startswith(name)), line)
        for line in lines
    ]
    data.write_text("\n".join(edited) + "\n")
    reconcile("apply --auto-approve")
    run: str = json.loads(reconcile("history -o json").out)["runs"][0]["id"]
    return run


def undo(reconcile: Command, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reconcile(f"undo {run} -o json").out)["undo"]
    return found


def test_what_can_go_back_is_planned_and_what_cannot_says_why(reconcile: Command) -> None:
    data = reconcile.root / "manifests/data.yaml"
    data.write_text(f"{data.read_text()}  auto_backup_enabled: false\n")
    run = apply(reconcile, size_gb=20, snapshot_retention=7)
    found = undo(reconcile, run)
    fields = {field["field"]: field for field in found["fields"]}
    assert (fields["snapshot_retention"]["before"], fields["snapshot_retention"]["stays"]) == (14, None)
    assert "cannot shrink from 20 GB to 10 GB" in fields["size_gb"]["stays"]
    assert [call["method"] for call in found["calls"]] == ["PUT"]
    shown = reconcile(f"undo {run[:8]}").out
    assert "snapshot_retention: 7 -> 14" in shown
    assert "auto_backup_enabled: false -> true" in shown  # as a manifest has it
    assert "stays: Volume/shop/data  size_gb: 20" in shown


def test_written_into_the_manifest_it_is_the_plan_that_was_shown(reconcile: Command) -> None:
    run = apply(reconcile, snapshot_retention=7)
    found = undo(reconcile, run)
    back = apply(reconcile, snapshot_retention=14)
    shown = json.loads(reconcile(f"history show {back} -o json").out)["run"]["calls"]
    assert [(call["method"], call["path"]) for call in shown] == [
        (call["method"], call["path"]) for call in found["calls"]
    ]
    assert undo(reconcile, run)["fields"][0]["stays"] == "another run changed it again"


def test_creates_and_secrets_stay(reconcile: Command) -> None:
    (first,) = json.loads(reconcile("history -o json").out)["runs"]
    found = undo(reconcile, first["id"])
    assert (found["fields"], found["calls"]) == ([], [])
    why = {step["step"]: step["why"] for step in found["stays"]}
    assert "without its manifest it stays" in why["Volume/shop/data#create"]
    assert "stored nowhere" in why["Secret/shop/DB_HOST#set"]


def test_it_changes_nothing(reconcile: Command) -> None:
    run = apply(reconcile, snapshot_retention=7)
    before = reconcile("state list -o json").out.partition('"at"')[0]
    reconcile(f"undo {run}")
    assert reconcile("state list -o json").out.partition('"at"')[0] == before
    assert "No changes" in reconcile("plan").out


def test_an_unknown_run_is_named(reconcile: Command) -> None:
    assert "no run has an id that begins with `zz`" in reconcile("undo zz", code=1).err


def test_what_no_manifest_declares_now_stays(reconcile: Command) -> None:
    run = apply(reconcile, snapshot_retention=7)
    (reconcile.root / "manifests/data.yaml").unlink()
    found = undo(reconcile, run)
    assert [field["stays"] for field in found["fields"]] == ["no manifest declares it now"]
    assert found["calls"] == []


def test_a_rename_after_the_run_is_followed(reconcile: Command) -> None:
    run = apply(reconcile, snapshot_retention=7)
    data = reconcile.root / "manifests/data.yaml"
    data.write_text(data.read_text().replace("name: data", "name: goods"))
    reconcile("state mv Volume/shop/data Volume/shop/goods")
    found = undo(reconcile, run)
    (field,) = found["fields"]
    assert (field["address"], field["before"], field["now"]) == ("Volume/shop/goods", 14, 7)
    assert (found["stays"], [call["method"] for call in found["calls"]]) == ([], ["PUT"])


def test_what_is_not_recorded_any_more_is_told_without_values(reconcile: Command) -> None:
    run = apply(reconcile, snapshot_retention=7)
    reconcile("state forget Volume/shop/data")
    found = undo(reconcile, run)
    assert (found["fields"], found["calls"]) == ([], [])
    (step,) = found["stays"]
    assert "not recorded now" in step["why"]


def test_a_call_of_unknown_outcome_is_to_be_settled_first(reconcile: Command) -> None:
    orders = (reconcile.root / "manifests/orders.yaml").read_text()
    billing = orders.partition("---")[0].replace("name: orders", "name: billing")
    (reconcile.root / "manifests/billing.yaml").write_text(billing)
    reconcile("demo play cluster-answer-lost")
    word = json.loads(reconcile("state list -o json").out)["context"]["lineage"][:8]
    reconcile(f"apply --auto-approve --approve-create PostgresCluster/billing@{word}", code=3)
    run = json.loads(reconcile("history -o json").out)["runs"][0]["id"]
    why = {step["step"]: step["why"] for step in undo(reconcile, run)["stays"]}
    assert why["PostgresCluster/billing#create"] == "its outcome is unknown: settle that first"
