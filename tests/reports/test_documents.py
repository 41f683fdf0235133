"""The JSON documents of plan, drift and apply. Source: DESIGN, section 3."""

import json
from pathlib import PurePosixPath
from typing import Any

import pytest

from reconciler.core.model import Action
from reconciler.core.steps import OutputRef, SecretRef, Template
from reconciler.reports.escape import shown
from reconciler.reports.report import ApplyReport, Failure, Page, PlanReport
from tests.documents import document, drift_document, plan_document
from tests.reports.plans import CHANGES, DIAGNOSTICS, EMPTY, NOW, OWED, PLAN, RESULTS

SUMMARY = (
    "create restore adopt update extend snapshot set suspend stop start restart "
    "delete retain forget noop refused"
)


def test_a_plan_document_has_the_keys_of_the_contract() -> None:
    found = plan_document(PLAN)
    assert list(found) == ["changes", "steps", "owed", "diagnostics", "summary"]
    assert list(found["summary"]) == SUMMARY.split()


@pytest.mark.parametrize("document", [plan_document(PLAN), drift_document(PLAN)])
def test_a_document_is_plain_json(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_changes_hold_their_fields_and_an_id_only_where_one_is_known() -> None:
    extend = next(item for item in plan_document(PLAN)["changes"] if item["action"] == "extend")
    assert extend == {
        "address": "Volume/shop/data[1]",
        "action": "extend",
        "fields": [
            {"path": "size_gb", "before": 10, "after": 20, "effect": "grow"},
            {"path": "snapshot_retention", "before": None, "after": 14, "effect": "in_place"},
        ],
        "impact": "restart",
        "reason": "the attached machine may have to restart to use the added space",
        "id": "vol_1",
        "also": ["update"],
    }
    assert "id" not in plan_document(PLAN)["changes"][0]


def test_a_step_that_waits_and_owes_says_for_what() -> None:
    extend = next(step for step in plan_document(PLAN)["steps"] if step["id"].endswith("#extend"))
    assert extend == {
        "id": "Volume/shop/data[1]#extend",
        "address": "Volume/shop/data[1]",
        "method": "PUT",
        "path": "/v1/apps/shop/volumes/vol_1/extend",
        "body": {"size_gb": 20},
        "after": [],
        "wait": {
            "path": "/v1/apps/shop/volumes/vol_1",
            "field": "size_gb",
            "until": {"at_least": 20},
            "timeout_s": 600,
        },
        "owes": {"work": "restart", "when": "needs_restart"},
    }


def test_references_are_shown_as_templates() -> None:
    restore = plan_document(PLAN)["steps"][1]
    assert restore["path"] == "/v1/postgres/${PostgresCluster/orders:id}/restore"
    assert restore["after"] == ["PostgresCluster/orders#create"]


def test_the_summary_counts_all_that_changes_do_and_what_needs_nothing() -> None:
    counts = plan_document(PLAN)["summary"]
    also = sum(len(change.also) for change in CHANGES)
    assert sum(counts.values()) == len(CHANGES) + also + PLAN.unchanged
    several = {name: count for name, count in counts.items() if count != 1}
    assert several == {"noop": 5, "retain": 3, "update": 2}
    assert counts["noop"] == 1 + PLAN.unchanged
    assert plan_document(EMPTY)["summary"] == dict.fromkeys(SUMMARY.split(), 0) | {"noop": 3}


def test_every_action_is_counted() -> None:
    assert set(plan_document(PLAN)["summary"]) == {action.value for action in Action}


def test_drift_has_no_steps_and_names_what_moved_of_unmanaged_fields() -> None:
    parts = {name: part for name, part in plan_document(PLAN).items() if name != "steps"}
    assert drift_document(PLAN) == {**parts, "unmanaged": []}
    extend = next(change for change in CHANGES if change.action is Action.EXTEND)
    assert drift_document(PLAN, [extend])["unmanaged"] == [
        {"address": "Volume/shop/data[1]", "path": "size_gb", "before": 10, "after": 20, "id": "vol_1"},
        {
            "address": "Volume/shop/data[1]",
            "path": "snapshot_retention",
            "before": None,
            "after": 14,
            "id": "vol_1",
        },
    ]


def test_an_apply_document_adds_results() -> None:
    applied = document(ApplyReport(plan=PLAN, results=RESULTS, owed=OWED[:1]))
    assert len(applied["owed"]) == 1
    assert applied["results"][1] == {
        "address": "PostgresCluster/copy",
        "step": "PostgresCluster/copy#restore",
        "outcome": "pending",
        "id": "pg_10",
        "error": "still creating",
    }
    assert applied["results"][0].keys() == {"address", "step", "outcome", "id"}
    assert applied["results"][5]["note"] == "connections may be stale"


def test_diagnostics_say_where_they_are_and_what_helps() -> None:
    first, second = plan_document(PLAN)["diagnostics"]
    assert first == {
        "code": "volume-shrink",
        "severity": "error",
        "message": "volume `shrunk` cannot shrink from 20 GB to 10 GB",
        "file": "manifests/orders.yaml",
        "line": 7,
        "column": 12,
        "help": "set `size_gb: 20`",
    }
    assert (second["severity"], second["file"], second["line"]) == ("warning", None, None)
    assert "help" not in second
    report = PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS[:1])
    assert document(report)["diagnostics"] == [first]


def test_a_failure_without_diagnostics_is_one() -> None:
    alone, with_others = Failure(message="it broke"), Failure(message="it broke", diagnostics=DIAGNOSTICS)
    assert document(alone)["diagnostics"][0]["message"] == "it broke"
    assert document(with_others)["diagnostics"][0]["code"] == "volume-shrink"


def test_secrets_are_hidden_wherever_they_stand() -> None:
    secret = SecretRef("env", "NAME")
    nested = {"a": [secret, {"b": secret}], "c": (secret,)}
    hidden = "(sensitive)"
    assert shown(nested) == {"a": [hidden, {"b": hidden}], "c": [hidden]}
    assert shown(Template(("/v1/", OutputRef("x#y", "id")))) == "/v1/${x#y:id}"
    assert plan_document(PLAN)["steps"][3]["body"] == {"value": hidden}


def test_what_json_has_no_form_of_is_text() -> None:
    page = Page(document={"path": PurePosixPath("a/b"), "at": NOW})
    assert document(page) == {
        "format_version": "1",
        "path": "a/b",
        "at": NOW.isoformat(),
    }
