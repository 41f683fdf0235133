"""What apply must find again: the fingerprints of a plan, and what they do not look at."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.lookup import Lookup
from reconciler.core.steps import Expectation
from reconciler.planning.answers import digest_absence, digest_now, digest_object
from reconciler.services.machines.wire.volume import Volume
from tests.planning.plans import plan_of

# The volume of kinds/volume/grow_and_change_retention, as that case lists it.
LISTED: dict[str, Any] = {
    "id": "vol_1",
    "name": "data",
    "state": "created",
    "size_gb": 10,
    "region": "ams",
    "snapshot_retention": 5,
    "auto_backup_enabled": True,
}


def expectation_of(case: str) -> Expectation:
    (expectation,) = plan_of(case).expectations
    return expectation


def digest_with(**fields: Any) -> str | None:
    expectation = expectation_of("kinds/volume/grow_and_change_retention")
    return digest_now(expectation, Lookup([Volume.model_validate(LISTED | fields)]))


def test_the_object_as_planned_has_the_fingerprint_of_the_plan() -> None:
    assert digest_with() == expectation_of("kinds/volume/grow_and_change_retention").digest


@pytest.mark.parametrize(
    "moved",
    [
        {"size_gb": 11},
        {"snapshot_retention": 6},
        {"auto_backup_enabled": False},
        {"auto_backup_enabled": None},
        {"state": "pending_destroy"},
    ],
    ids=str,
)
def test_a_managed_field_that_moved_changes_the_fingerprint(moved: dict[str, Any]) -> None:
    assert digest_with(**moved) != digest_with()


@given(
    blocks=st.integers(0),
    blocks_free=st.none() | st.integers(0),
    fstype=st.sampled_from(["", "ext4", "raw"]),
    zone=st.none() | st.text(),
    state=st.sampled_from(["created", "extending", "hydrating", "unheard-of"]),
    bytes_used=st.integers(0),
    host_status=st.text(),
)
def test_volatile_fields_and_those_of_others_do_not_matter(**fields: Any) -> None:
    assert digest_with(**fields) == digest_with()


def test_other_objects_of_the_list_do_not_matter() -> None:
    expectation = expectation_of("kinds/volume/grow_and_change_retention")
    others = [Volume(id="vol_0", name="data", region="ams"), Volume(id="vol_2", size_gb=11)]
    objects = [*others, Volume.model_validate(LISTED)]
    assert digest_now(expectation, Lookup(objects)) == expectation.digest


def test_an_object_that_vanished_has_no_fingerprint() -> None:
    expectation = expectation_of("kinds/volume/grow_and_change_retention")
    assert digest_now(expectation, Lookup([Volume(id="vol_2")])) is None


def test_attaching_a_volume_moves_it_only_where_it_would_be_deleted() -> None:
    delete = expectation_of("kinds/volume/delete_without_a_snapshot_when_asked")
    free = Volume(id="vol_2", name="old", state="created", size_gb=10, region="ams")
    assert digest_now(delete, Lookup([free])) == delete.digest
    assert (
        digest_now(delete, Lookup([free.model_copy(update={"attached_machine_id": "m_1"})])) != delete.digest
    )
    assert digest_with(attached_machine_id="m_1") == digest_with()


def test_a_create_expects_no_other_match_to_appear() -> None:
    create = expectation_of("kinds/volume/create_with_every_documented_field")
    assert create.id is None
    assert digest_now(create, Lookup([])) == create.digest
    assert digest_now(create, Lookup([Volume(id="vol_1", name="pg_data", region="ams")])) != create.digest
    assert digest_now(create, Lookup([Volume(id="vol_1", name="pg_data", region="fra")])) == create.digest
    gone = Volume(id="vol_1", name="pg_data", region="ams", state="pending_destroy")
    assert digest_now(create, Lookup([gone])) == create.digest


def test_an_adoption_expects_its_object() -> None:
    assert expectation_of("kinds/volume/adopt_the_only_match").id == "vol_z"


def test_a_plan_without_calls_expects_nothing() -> None:
    assert plan_of("kinds/volume/size_range_with_the_live_size_inside").expectations == ()
    assert plan_of("kinds/volume/left_the_manifests_and_is_retained").expectations == ()


@given(ids=st.lists(st.sampled_from(["vol_1", "vol_2", "vol_3"]), unique=True), data=st.data())
def test_the_order_of_a_list_does_not_matter(ids: list[str], data: st.DataObject) -> None:
    match = {"name": "data"}
    objects = [Volume(id=id, name="data") for id in ids]
    shuffled = data.draw(st.permutations(objects))
    assert digest_absence(match, Lookup(objects)) == digest_absence(match, Lookup(shuffled))


@given(fields=st.lists(st.sampled_from(["size_gb", "name", "region"]), unique=True, min_size=1))
def test_a_field_that_is_missing_counts_as_null(fields: list[str]) -> None:
    missing = Volume(id="vol_1")
    null = Volume(id="vol_1", size_gb=None, name=None, region=None)
    assert digest_object(missing, fields) == digest_object(null, fields)
