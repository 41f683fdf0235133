"""What each kind of call says about a lost reply. Source: DESIGN, section 5."""

import pytest

from tests.planning.plans import only_step, plan_of


@pytest.mark.parametrize(
    ("case", "if_unknown"),
    [
        ("kinds/cluster/create_with_the_required_fields", "ask"),
        ("kinds/cluster/a_lost_create_is_found_with_the_list_capability", "find"),
        ("kinds/cluster/restore_a_backup_by_id", "ask"),
        ("kinds/cluster/delete_with_the_capability", "repeat"),
        ("kinds/volume/create_with_only_a_name", "find"),
        ("kinds/volume/change_retention", "repeat"),
        ("kinds/volume/grow_an_attached_volume", "repeat"),
        ("kinds/volume/delete_without_a_snapshot_when_asked", "repeat"),
        ("kinds/retention/the_snapshot_objective_is_missed", "find"),
        ("kinds/secret/set_from_the_environment", "repeat"),
        ("kinds/secret/delete_with_the_capability", "repeat"),
    ],
)
def test_a_lost_reply_is_settled_as_the_call_allows(case: str, if_unknown: str) -> None:
    step = only_step(case)
    assert step.recovery.how == if_unknown
    assert (step.find is not None) == (if_unknown == "find")


def test_a_create_without_an_id_in_its_reply_is_noticed() -> None:
    assert only_step("kinds/volume/create_with_only_a_name").effect.id_path == "id"
    assert only_step("kinds/cluster/create_with_the_required_fields").effect.id_path == "data.id"
    assert only_step("kinds/cluster/restore_a_backup_by_id").effect.id_path == "data.id"


def test_a_lost_volume_is_looked_for_by_name_and_region_among_the_unattached() -> None:
    find = only_step("kinds/volume/create_with_every_documented_field").find
    assert find is not None
    assert find.read.path == "/v1/apps/shop/volumes"
    assert find.match == {"name": "pg_data", "region": "ams"}
    assert find.unattached == ("attached_machine_id", "attached_alloc_id")


def test_a_lost_cluster_is_looked_for_in_its_organization() -> None:
    find = only_step("kinds/cluster/a_lost_create_is_found_with_the_list_capability").find
    assert find is not None
    assert find.read.path == "/v1/postgres?org_slug=acme"
    assert find.match == {"name": "orders", "region": "ams"}


def test_only_deletes_remove_records_and_take_a_missing_object_for_done() -> None:
    for case in (
        "kinds/cluster/delete_with_the_capability",
        "kinds/volume/delete_takes_a_snapshot_first",
        "kinds/secret/delete_with_the_capability",
        "kinds/volume/grow_and_change_retention",
    ):
        for step in plan_of(case).steps:
            assert step.effect.removes == (step.call.method == "DELETE")
            assert ("not_found" in step.effect.accepts) == step.effect.removes


def test_a_snapshot_that_is_running_already_is_accepted() -> None:
    step = only_step("kinds/retention/the_snapshot_objective_is_missed")
    assert step.effect.accepts == ("snapshot_scheduled",)
