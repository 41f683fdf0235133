"""Saved plans: what is read is what was written, or is refused."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from reconciler.core.errors import ReconcilerError
from reconciler.planning.saved import dump_plan, load_plan
from tests.planning.plans import plan_of

# It has references, a secret, a template in a path, a wait, an obligation, diagnostics and an input.
RICH = (
    "kinds/secret/a_template_over_a_new_cluster_waits_for_it",
    "kinds/cluster/restore_from_a_cluster_of_the_manifests",
    "kinds/volume/grow_and_change_retention",
    "kinds/volume/shrink_is_refused_at_its_place",
    "planning/owed/a_restart_is_shown_until_it_is_done",
    "kinds/secret/programs_that_the_settings_do_not_name_warn",
)


@pytest.mark.parametrize("case", RICH)
def test_writing_what_was_read_gives_the_same_bytes(case: str) -> None:
    text = dump_plan(plan_of(case))
    assert dump_plan(load_plan(text)) == text


def test_references_come_back_as_references() -> None:
    plan = load_plan(dump_plan(plan_of(RICH[0])))
    secret = plan.steps[0].call.body
    assert secret == plan_of(RICH[0]).steps[0].call.body
    assert str(plan.steps[1].wait.read.path) == "/v1/postgres/${PostgresCluster/orders:id}"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"{", b"null", b"[]", b"{}", b'{"format": "other-1"}'])
def test_a_file_that_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(ReconcilerError, match="plan file is not") as refused:
        load_plan(text)
    assert "reconcile plan" in refused.value.help


def test_a_plan_of_the_format_without_addresses_of_providers_is_refused() -> None:
    document = json.loads(dump_plan(plan_of(RICH[0])))
    document["format"] = "reconciler-plan-1"
    with pytest.raises(ReconcilerError, match="not a saved plan of format") as refused:
        load_plan(json.dumps(document).encode())
    assert "reconcile plan --out" in refused.value.help


def _flat(plan: Any) -> Any:
    """The plan as earlier versions wrote it: all that a step means stood side by side."""
    return {**plan, "steps": [_flat_step(step) for step in plan["steps"]]}


def _flat_step(step: Any) -> Any:
    guard, recovery, effect = step.pop("guard") or {}, step.pop("recovery"), step.pop("effect")
    how, own_id = recovery.pop("how"), recovery.pop("own_id", "")
    return {
        **step,
        **effect,
        "if_owed": guard.get("addresses", []),
        "settles": guard.get("settles", False),
        "unless_recorded": guard.get("field", ""),
        "already": guard.get("wait"),
        "if_unknown": how,
        "find": recovery if how == "find" else None,
        "own_id": own_id,
    }


@pytest.mark.parametrize("case", RICH)
def test_a_plan_of_the_format_without_groups_is_read(case: str) -> None:
    plan = plan_of(case)
    before = _flat(json.loads(dump_plan(plan))["plan"])
    assert not any("effect" in step for step in before["steps"])
    former = {"format": "reconciler-plan-3", "digest": sha256(to_json(before)).hexdigest(), "plan": before}
    assert load_plan(json.dumps(former).encode()) == plan


def test_a_plan_of_the_format_with_fewer_secret_sources_is_read() -> None:
    plan = plan_of(RICH[0])
    text = json.dumps(json.loads(dump_plan(plan))["plan"])
    assert ", 0]}" in text
    before = _flat(json.loads(text.replace(", 0]}", "]}")))  # secrets had no time of their own
    former = {"format": "reconciler-plan-2", "digest": sha256(to_json(before)).hexdigest(), "plan": before}
    assert load_plan(json.dumps(former).encode()) == plan


def _as_earlier_versions_wrote_it(value: Any) -> Any:
    """Without `sensitive`: they told requests about secrets by their path."""
    if isinstance(value, dict):
        return {
            name: _as_earlier_versions_wrote_it(item) for name, item in value.items() if name != "sensitive"
        }
    return [_as_earlier_versions_wrote_it(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "case",
    [
        "kinds/secret/delete_with_the_capability",
        "kinds/extension/provision",
        "kinds/volume/grow_and_change_retention",
    ],
)
def test_a_plan_that_does_not_say_what_is_sensitive_is_read_by_its_paths(case: str) -> None:
    plan = plan_of(case)
    before = _flat(_as_earlier_versions_wrote_it(json.loads(dump_plan(plan))["plan"]))
    former = {"format": "reconciler-plan-3", "digest": sha256(to_json(before)).hexdigest(), "plan": before}
    assert load_plan(json.dumps(former).encode()) == plan


def test_a_line_that_an_earlier_version_hid_stays_hidden() -> None:
    plan = plan_of("kinds/secret/programs_that_the_settings_do_not_name_warn")
    assert plan.diagnostics
    assert all(problem.hidden for problem in plan.diagnostics)
    document = json.loads(dump_plan(plan))
    before = document["plan"]
    for problem in before["diagnostics"]:
        problem["hide_source"], problem["span"][4] = True, False
    document["digest"] = sha256(to_json(before)).hexdigest()
    assert load_plan(json.dumps(document).encode()) == plan


def test_the_addresses_of_providers_come_back() -> None:
    plan = plan_of("kinds/extension/provision")
    assert plan.providers == {"acme": "https://acme.example"}
    assert load_plan(dump_plan(plan)) == plan


@pytest.mark.parametrize("case", RICH)
def test_a_plan_that_was_cut_short_is_refused(case: str) -> None:
    text = dump_plan(plan_of(case))
    for end in range(0, len(text) - 1, 97):
        with pytest.raises(ReconcilerError):
            load_plan(text[:end])


@pytest.mark.parametrize(
    "name",
    ["id", "lineage", "created_at", "changes", "steps", "expectations", "bindings", "owed", "diagnostics"],
)
@pytest.mark.parametrize("damage", ["missing", [[]]])
def test_a_damaged_part_is_refused_and_named(name: str, damage: Any) -> None:
    document = json.loads(dump_plan(plan_of(RICH[2])))
    if damage == "missing":
        del document["plan"][name]
    else:
        document["plan"][name] = damage
    with pytest.raises(ReconcilerError, match=name):
        load_plan(json.dumps(document).encode())


@given(st.data())
def test_a_step_with_another_method_is_refused(data: st.DataObject) -> None:
    document = json.loads(dump_plan(plan_of(RICH[2])))
    step = data.draw(st.sampled_from(document["plan"]["steps"]))
    step["call"]["method"] = data.draw(
        st.text().filter(lambda text: text not in ("GET", "POST", "PUT", "DELETE"))
    )
    with pytest.raises(ReconcilerError, match="damaged"):
        load_plan(json.dumps(document).encode())


def test_a_plan_that_was_edited_is_refused() -> None:
    document = json.loads(dump_plan(plan_of(RICH[2])))
    document["plan"]["steps"][0]["call"]["path"] = "/v1/apps/shop/volumes/vol_other"
    with pytest.raises(ReconcilerError, match="was changed since it was made"):
        load_plan(json.dumps(document).encode())
