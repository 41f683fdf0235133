"""What a plan writes into records beside the outcomes of calls."""

import pytest

from reconciler.core.model import Address, Deletion
from reconciler.core.steps import Binding
from reconciler.kinds import find_kinds
from reconciler.planning.drift import is_as_recorded
from reconciler.services.machines.wire.volume import Volume
from tests.planning.plans import plan_of
from tests.planning.worlds import record


def binding_of(case: str) -> Binding:
    (binding,) = plan_of(case).bindings
    return binding


def test_what_is_as_recorded_binds_nothing() -> None:
    assert plan_of("kinds/volume/a_volume_like_its_manifest_needs_nothing").bindings == ()


def test_an_adoption_records_the_id_and_the_live_values_of_what_is_managed() -> None:
    binding = binding_of("kinds/volume/adopt_and_change_what_differs")
    assert binding.id == "vol_z"
    assert binding.scope == "shop"
    assert binding.source == "manifests.yaml"
    assert binding.applied == {
        "name": "data",  # not managed, but seen
        "size_gb": 10,
        "region": "ams",
        "snapshot_retention": 5,
    }


def test_growth_inside_the_range_is_recorded_without_a_call() -> None:
    plan = plan_of("kinds/volume/size_range_with_the_live_size_inside")
    assert plan.steps == ()
    assert plan.bindings[0].applied["size_gb"] == 37


def test_a_lifecycle_that_changed_is_recorded_without_a_call() -> None:
    plan = plan_of("planning/lifecycle/deletion_becomes_delete")
    assert plan.steps == ()
    assert plan.bindings[0].lifecycle.deletion is Deletion.DELETE


def test_a_refused_change_records_nothing() -> None:
    assert plan_of("kinds/volume/shrink_is_refused_at_its_place").bindings == ()


def test_no_secret_value_is_bound() -> None:
    assert binding_of("kinds/secret/set_from_the_environment").applied == {}


def test_an_ignored_field_stays_recorded_as_it_was_wanted_and_blocks_no_apply_when_it_moves() -> None:
    plan = plan_of("planning/ignores/an_ignored_field_is_not_put_back")
    (binding,), (expectation,) = plan.bindings, plan.expectations
    assert binding.applied == {"region": "ams", "snapshot_retention": 7}
    assert "size_gb" not in expectation.fields
    assert "snapshot_retention" in expectation.fields


def test_what_is_ignored_before_it_was_ever_recorded_is_recorded_as_it_is_wanted() -> None:
    """Else nobody would be told of it, not even when the ignore is over."""
    plan = plan_of("planning/ignores/an_adoption_leaves_an_ignored_field_as_it_is")
    (binding,), (expectation,) = plan.bindings, plan.expectations
    assert binding.applied == {"name": "data", "region": "ams", "size_gb": 10}  # it is 20
    assert "size_gb" not in expectation.fields
    plan = plan_of("planning/ignores/a_field_that_is_ignored_from_its_first_day")
    assert plan.bindings[0].applied == {"region": "ams", "size_gb": 10, "snapshot_retention": 14}
    assert plan.steps == ()


def test_what_is_watched_is_recorded_as_it_is_first_seen() -> None:
    name = "a_record_of_an_earlier_version_learns_which_object_it_is"
    assert binding_of(f"planning/watched/{name}").applied["created_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("then", "now", "agree"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", True),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", False),
        ("2026-01-01T00:00:00Z", None, False),
        (None, "2026-01-01T00:00:00Z", False),  # nobody has looked yet
        (None, None, False),
    ],
)
def test_two_looks_agree_only_where_both_show_when_the_object_was_made(
    then: str | None, now: str | None, agree: bool
) -> None:
    applied = {"size_gb": 10} | ({"created_at": then} if then else {})
    known = record(Address("Volume", "data", "shop"), "vol_1", applied, inferred=True)
    live = Volume.model_validate({"id": "vol_1", "state": "created", "size_gb": 10, "created_at": now})
    assert is_as_recorded(find_kinds()["Volume"], known, live) is agree
