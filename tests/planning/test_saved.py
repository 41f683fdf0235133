"""Saved plans: what is read is what was written with the same state, to the last byte, or is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.errors import ReconcilerError
from reconciler.planning.saved import dump_plan, load_plan, unverified
from tests.planning.plans import PLAN_KEY, plan_of

# It has references, a secret, a template in a path, a wait, an obligation, diagnostics and an input.
RICH = (
    "kinds/secret/a_template_over_a_new_cluster_waits_for_it",
    "kinds/cluster/restore_from_a_cluster_of_the_manifests",
    "kinds/volume/grow_and_change_retention",
    "kinds/volume/shrink_is_refused_at_its_place",
    "planning/owed/a_restart_is_shown_until_it_is_done",
    "kinds/secret/programs_that_the_settings_do_not_name_warn",
)


def written(case: str) -> bytes:
    return dump_plan(plan_of(case), PLAN_KEY)


def read(text: bytes) -> Any:
    return load_plan(text, PLAN_KEY)


@pytest.mark.parametrize("case", RICH)
def test_writing_what_was_read_gives_the_same_bytes(case: str) -> None:
    text = written(case)
    assert dump_plan(read(text), PLAN_KEY) == text


def test_references_come_back_as_references() -> None:
    plan = read(written(RICH[0]))
    secret = plan.steps[0].call.body
    assert secret == plan_of(RICH[0]).steps[0].call.body
    assert str(plan.steps[1].wait.read.path) == "/v1/postgres/${PostgresCluster/orders:id}"


def test_the_addresses_of_providers_come_back() -> None:
    plan = plan_of("kinds/extension/provision")
    assert plan.providers == {"acme": "https://acme.example"}
    assert read(dump_plan(plan, PLAN_KEY)) == plan


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"{", b"null", b"[]", b"{}", b'{"format": "other-1"}'])
def test_a_file_that_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(ReconcilerError, match="plan file is not") as refused:
        read(text)
    assert "reconcile plan" in refused.value.help


@pytest.mark.parametrize("number", range(1, 7))
def test_a_plan_of_a_format_without_a_signature_is_refused(number: int) -> None:
    document = {**json.loads(written(RICH[0])), "format": f"reconciler-plan-{number}"}
    with pytest.raises(ReconcilerError, match="not a saved plan of format") as refused:
        read(json.dumps(document).encode())
    assert "reconcile plan --out" in refused.value.help
    assert "older plans are not signed" in refused.value.help


@given(st.data())
def test_a_plan_with_any_other_byte_is_refused(data: st.DataObject) -> None:
    text = bytearray(written(data.draw(st.sampled_from(RICH))))
    at = data.draw(st.integers(0, len(text) - 1))
    what = data.draw(st.sampled_from(["replaced", "removed", "doubled", "cut"]))
    if what == "replaced":
        text[at] ^= data.draw(st.integers(1, 255))
    elif what == "doubled":
        text.insert(at, text[at])
    else:
        del text[at : at + 1 if what == "removed" else None]
    with pytest.raises(ReconcilerError):
        read(bytes(text))


@given(st.binary(min_size=1, max_size=3))
def test_nothing_may_stand_before_or_behind_a_plan(more: bytes) -> None:
    for text in (more + written(RICH[2]), written(RICH[2]) + more):
        with pytest.raises(ReconcilerError):
            read(text)


def test_a_plan_of_another_state_is_refused() -> None:
    with pytest.raises(ReconcilerError, match="another state"):
        load_plan(written(RICH[2]), b"another key")


def test_what_is_only_drawn_need_not_be_signed_and_may_be_damaged() -> None:
    text = written(RICH[2])
    assert unverified(text.replace(b'"signature": "', b'"signature": "0')).plan == plan_of(RICH[2])
    document = json.loads(text)
    document["plan"]["steps"][0]["call"]["method"] = "BREW"
    with pytest.raises(ReconcilerError, match=r"damaged at `steps\.0\.call\.method`"):
        unverified(json.dumps(document).encode())


def test_the_place_of_damage_is_a_place_in_the_file() -> None:
    """One of several forms stands there: how they are called in the program is not said."""
    document = json.loads(written(RICH[2]))
    document["plan"]["steps"][0]["recovery"]["how"] = "hope"
    with pytest.raises(ReconcilerError, match=r"damaged at `steps\.0\.recovery\.how`"):
        unverified(json.dumps(document).encode())


@pytest.mark.parametrize(
    "name",
    ["id", "context", "changes", "steps", "expectations", "bindings", "owed", "diagnostics"],
)
@pytest.mark.parametrize("damage", ["missing", [[]]])
def test_a_damaged_part_is_refused_and_named(name: str, damage: Any) -> None:
    document = json.loads(written(RICH[2]))
    if damage == "missing":
        del document["plan"][name]
    else:
        document["plan"][name] = damage
    with pytest.raises(ReconcilerError, match=name):
        unverified(json.dumps(document).encode())
